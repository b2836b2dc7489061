// Element types of GGUF files: plain numbers, and blocks of quantised ones.
#pragma once
#include "uop/dtype.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

// Numbers as in files.
enum class GgmlType : int32_t {
#define GGML_TYPE(name, id, elements, bytes, plain, unpack) name = id,
#include "formats/gguf/ggml_types.def"
#undef GGML_TYPE
};

struct GgmlTypeInfo {
  GgmlType type;
  std::string_view name;
  int64_t block_elements, block_bytes;
  std::optional<DType> plain;  // the dtype of elements that are plain numbers, in blocks of one
};

std::span<const GgmlTypeInfo> ggml_types();
const GgmlTypeInfo& type_info(GgmlType type);
inline bool is_quantized(GgmlType type) { return !type_info(type).plain; }

// By the number in a file; none where it is unknown, removed or internal.
std::optional<GgmlType> ggml_type(int32_t id);
// By name in any case: "q4_K".
std::optional<GgmlType> ggml_type(std::string_view name);
// Why there is no type of that number.
std::string missing_type_text(int32_t id);

// Bytes of a row; none where it is no whole number of blocks, or takes 2^63 bytes or more.
std::optional<int64_t> row_bytes(GgmlType type, int64_t elements);

}  // namespace lathe
