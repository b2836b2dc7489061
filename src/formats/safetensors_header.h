// The JSON header as events, checked for structure and types.
#pragma once
#include "formats/safetensors.h"

#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// The format's names of element types.
std::optional<DType> parse_safetensors_dtype(std::string_view name);
std::optional<std::string_view> safetensors_dtype_name(DType d);

// Parses the JSON text that starts at byte `offset` of the file. Byte ranges are as written: relative to the
// data.
Result<SafetensorsHeader> parse_safetensors_json(std::string_view text, size_t offset,
                                                 std::string_view where);

}  // namespace lathe
