#include "formats/gguf/ggml_type.h"

#include "base/error.h"

#include <algorithm>
#include <cctype>

namespace lathe {
namespace {

constexpr GgmlTypeInfo kTypes[] = {
    {GgmlType::F32, "F32", 1, 4, DType::Float32},
    {GgmlType::F16, "F16", 1, 2, DType::Float16},
    {GgmlType::Q4_0, "Q4_0", 32, 18, {}},
    {GgmlType::Q4_1, "Q4_1", 32, 20, {}},
    {GgmlType::Q5_0, "Q5_0", 32, 22, {}},
    {GgmlType::Q5_1, "Q5_1", 32, 24, {}},
    {GgmlType::Q8_0, "Q8_0", 32, 34, {}},
    {GgmlType::Q2_K, "Q2_K", 256, 84, {}},
    {GgmlType::Q3_K, "Q3_K", 256, 110, {}},
    {GgmlType::Q4_K, "Q4_K", 256, 144, {}},
    {GgmlType::Q5_K, "Q5_K", 256, 176, {}},
    {GgmlType::Q6_K, "Q6_K", 256, 210, {}},
    {GgmlType::IQ2_XXS, "IQ2_XXS", 256, 66, {}},
    {GgmlType::IQ2_XS, "IQ2_XS", 256, 74, {}},
    {GgmlType::IQ3_XXS, "IQ3_XXS", 256, 98, {}},
    {GgmlType::IQ1_S, "IQ1_S", 256, 50, {}},
    {GgmlType::IQ4_NL, "IQ4_NL", 32, 18, {}},
    {GgmlType::IQ3_S, "IQ3_S", 256, 110, {}},
    {GgmlType::IQ2_S, "IQ2_S", 256, 82, {}},
    {GgmlType::IQ4_XS, "IQ4_XS", 256, 136, {}},
    {GgmlType::I8, "I8", 1, 1, DType::Int8},
    {GgmlType::I16, "I16", 1, 2, DType::Int16},
    {GgmlType::I32, "I32", 1, 4, DType::Int32},
    {GgmlType::I64, "I64", 1, 8, DType::Int64},
    {GgmlType::F64, "F64", 1, 8, DType::Float64},
    {GgmlType::IQ1_M, "IQ1_M", 256, 56, {}},
    {GgmlType::BF16, "BF16", 1, 2, DType::BFloat16},
    {GgmlType::TQ1_0, "TQ1_0", 256, 54, {}},
    {GgmlType::TQ2_0, "TQ2_0", 256, 66, {}},
    {GgmlType::MXFP4, "MXFP4", 32, 17, {}},
    {GgmlType::NVFP4, "NVFP4", 64, 36, {}},
    {GgmlType::Q1_0, "Q1_0", 128, 18, {}},
    {GgmlType::Q2_0, "Q2_0", 64, 18, {}},
};

struct LostType {
  int32_t id;
  std::string_view name;
  bool is_internal;
};
constexpr LostType kLostTypes[] = {
    {4, "Q4_2", false},        {5, "Q4_3", false},        {9, "Q8_1", true},       {15, "Q8_K", true},
    {31, "Q4_0_4_4", false},   {32, "Q4_0_4_8", false},   {33, "Q4_0_8_8", false}, {36, "IQ4_NL_4_4", false},
    {37, "IQ4_NL_4_8", false}, {38, "IQ4_NL_8_8", false},
};

bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

}  // namespace

std::span<const GgmlTypeInfo> ggml_types() { return kTypes; }

const GgmlTypeInfo& type_info(GgmlType type) {
  for (const GgmlTypeInfo& t : kTypes)
    if (t.type == type) return t;
  CHECK(false, "there is no type {}", static_cast<int32_t>(type));
}

std::optional<GgmlType> ggml_type(int32_t id) {
  for (const GgmlTypeInfo& t : kTypes)
    if (static_cast<int32_t>(t.type) == id) return t.type;
  return std::nullopt;
}

std::optional<GgmlType> ggml_type(std::string_view name) {
  for (const GgmlTypeInfo& t : kTypes)
    if (is_same_name(t.name, name)) return t.type;
  return std::nullopt;
}

std::string missing_type_text(int32_t id) {
  for (const LostType& t : kLostTypes)
    if (t.id == id)
      return t.is_internal
                 ? fmt::format("type {} ({}) is for intermediate results and never stored", id, t.name)
                 : fmt::format("type {} ({}) was removed from the format; quantise the model anew", id,
                               t.name);
  return fmt::format("type {} is unknown", id);
}

std::optional<int64_t> row_bytes(GgmlType type, int64_t elements) {
  const GgmlTypeInfo& info = type_info(type);
  int64_t bytes = 0;
  if (elements % info.block_elements != 0 ||
      __builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes))
    return std::nullopt;
  return bytes;
}

}  // namespace lathe
