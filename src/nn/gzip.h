// Reading gzip.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lathe::nn {

bool is_gzip(std::span<const std::byte> bytes);

// The content of a gzip file of one or more members; an error when it is broken, cut off or longer than
// `max_bytes`. `where` names the input in errors.
Result<std::string> gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);

}  // namespace lathe::nn
