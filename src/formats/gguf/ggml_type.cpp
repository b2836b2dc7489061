#include "formats/gguf/ggml_type.h"

#include "base/error.h"

#include <algorithm>
#include <cctype>

namespace lathe {
namespace {

constexpr GgmlTypeInfo kTypes[] = {
#define GGML_TYPE(name, id, elements, bytes, plain, unpack) {GgmlType::name, #name, elements, bytes, plain},
#include "formats/gguf/ggml_types.def"
#undef GGML_TYPE
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
