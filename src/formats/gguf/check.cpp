#include "formats/gguf/check.h"

#include "archive/little_endian.h"

#include <algorithm>
#include <iterator>

namespace lathe {
namespace {

// Floats in a block: their exponent bits are all ones where they are infinite or no number.
struct Floats {
  GgmlType type;
  int8_t bytes;  // of each
  uint64_t exponent;
  int16_t at[2];  // -1: none
};
constexpr uint64_t kHalf = 0x7c00;
constexpr Floats kFloats[] = {
    {GgmlType::F32, 4, 0x7f800000, {0, -1}}, {GgmlType::F64, 8, 0x7ff0000000000000, {0, -1}},
    {GgmlType::F16, 2, kHalf, {0, -1}},      {GgmlType::BF16, 2, 0x7f80, {0, -1}},
    {GgmlType::Q4_0, 2, kHalf, {0, -1}},     {GgmlType::Q4_1, 2, kHalf, {0, 2}},
    {GgmlType::Q5_0, 2, kHalf, {0, -1}},     {GgmlType::Q5_1, 2, kHalf, {0, 2}},
    {GgmlType::Q8_0, 2, kHalf, {0, -1}},     {GgmlType::Q2_K, 2, kHalf, {80, 82}},
    {GgmlType::Q3_K, 2, kHalf, {108, -1}},   {GgmlType::Q4_K, 2, kHalf, {0, 2}},
    {GgmlType::Q5_K, 2, kHalf, {0, 2}},      {GgmlType::Q6_K, 2, kHalf, {208, -1}},
    {GgmlType::IQ2_XXS, 2, kHalf, {0, -1}},  {GgmlType::IQ2_XS, 2, kHalf, {0, -1}},
    {GgmlType::IQ3_XXS, 2, kHalf, {0, -1}},  {GgmlType::IQ1_S, 2, kHalf, {0, -1}},
    {GgmlType::IQ4_NL, 2, kHalf, {0, -1}},   {GgmlType::IQ3_S, 2, kHalf, {0, -1}},
    {GgmlType::IQ2_S, 2, kHalf, {0, -1}},    {GgmlType::IQ4_XS, 2, kHalf, {0, -1}},
    {GgmlType::TQ1_0, 2, kHalf, {52, -1}},   {GgmlType::TQ2_0, 2, kHalf, {64, -1}},
    {GgmlType::MXFP4, 1, 0xff, {0, -1}},  // a power of two, of which the last one stands for no number
    {GgmlType::Q1_0, 2, kHalf, {0, -1}},     {GgmlType::Q2_0, 2, kHalf, {0, -1}},
};

bool is_faulty(std::span<const std::byte> block, const Floats& f) {
  return std::any_of(std::begin(f.at), std::end(f.at), [&](int16_t at) {
    return at >= 0 && (read_little_endian(block, static_cast<size_t>(at), static_cast<size_t>(f.bytes)) &
                       f.exponent) == f.exponent;
  });
}
// IQ1_M has the bits of its scale in the top nibbles of four words: the exponent is in those of the last two.
bool is_faulty_iq1_m(std::span<const std::byte> block) {
  return (std::to_integer<int>(block[55]) & 0x70) == 0x70 && (std::to_integer<int>(block[53]) & 0xc0) == 0xc0;
}

}  // namespace

std::vector<GgufFault> check_tensors(const GgufFile& file,
                                     const std::function<void(const GgufTensor&)>& on_tensor) {
  std::vector<GgufFault> out;
  for (const GgufTensor& t : file.tensors()) {
    const auto* floats = std::find_if(std::begin(kFloats), std::end(kFloats),
                                      [&](const Floats& f) { return f.type == t.type; });
    const bool has_floats = floats != std::end(kFloats);
    const auto data = file.data(t);
    const auto width = static_cast<size_t>(type_info(t.type).block_bytes);
    GgufFault fault{
        t.name, 0, 0,
        is_quantized(t.type) ? "a scale is infinite or no number" : "it is infinite or no number"};
    for (size_t at = 0; (has_floats || t.type == GgmlType::IQ1_M) && at < data.size(); at += width) {
      const auto block = data.subspan(at, width);
      if (!(has_floats ? is_faulty(block, *floats) : is_faulty_iq1_m(block))) continue;
      if (fault.blocks++ == 0) fault.block = static_cast<int64_t>(at / width);
    }
    if (fault.blocks) out.push_back(std::move(fault));
    if (on_tensor) on_tensor(t);
  }
  return out;
}

}  // namespace lathe
