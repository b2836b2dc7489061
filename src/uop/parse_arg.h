// The `{name=value …}` part of a line of the text form.
#pragma once
#include "base/result.h"
#include "uop/arg_kind.h"

#include <string_view>
#include <unordered_map>

namespace lathe {

// Slots of the buffers that a text calls @0, @1, ….
using BufferLabels = std::unordered_map<int64_t, int64_t>;

struct ParsedArg {
  Arg arg;
  size_t size;  // bytes read
};
// `text` starts with the opening brace; `dtype` is that of the node.
Result<ParsedArg> parse_arg(std::string_view text, Op op, DType dtype, BufferLabels& labels);

}  // namespace lathe
