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
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
  NVFP4 = 40,
  Q1_0 = 41,
  Q2_0 = 42,
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
