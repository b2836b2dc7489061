#include "formats/gguf/check.h"

#include "archive/little_endian.h"

namespace lathe {
namespace {

// Floats in a block: their exponent bits are all ones where they are infinite or no number.
struct Floats {
  GgmlType type;
  size_t bytes;  // of each
  uint64_t exponent;
  int at, other = -1;  // -1: none
};
constexpr uint64_t kHalf = 0x7c00;
// Those of other types are one float16 at the start of a block.
constexpr Floats kFloats[] = {
    {GgmlType::F32, 4, 0x7f800000, 0}, {GgmlType::F64, 8, 0x7ff0000000000000, 0},
    {GgmlType::BF16, 2, 0x7f80, 0},    {GgmlType::Q4_1, 2, kHalf, 0, 2},
    {GgmlType::Q5_1, 2, kHalf, 0, 2},  {GgmlType::Q2_K, 2, kHalf, 80, 82},
    {GgmlType::Q3_K, 2, kHalf, 108},   {GgmlType::Q4_K, 2, kHalf, 0, 2},
    {GgmlType::Q5_K, 2, kHalf, 0, 2},  {GgmlType::Q6_K, 2, kHalf, 208},
    {GgmlType::TQ1_0, 2, kHalf, 52},   {GgmlType::TQ2_0, 2, kHalf, 64},
    {GgmlType::MXFP4, 1, 0xff, 0},  // a power of two, of which the last one stands for no number
};

Floats floats_of(GgmlType type) {
  for (const Floats& f : kFloats)
    if (f.type == type) return f;
  return {type, 2, kHalf, 0};
}
bool has_floats(GgmlType type) {
  const auto plain = type_info(type).plain;
  return plain ? is_float(*plain) : type != GgmlType::NVFP4;  // whose scales are finite whatever their bits
}

bool is_faulty(std::span<const std::byte> block, const Floats& f) {
  const auto all_ones = [&](int at) {
    return at >= 0 &&
           (read_little_endian(block, static_cast<size_t>(at), f.bytes) & f.exponent) == f.exponent;
  };
  return all_ones(f.at) || all_ones(f.other);
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
    const Floats floats = floats_of(t.type);
    const auto data = file.data(t);
    const auto width = static_cast<size_t>(type_info(t.type).block_bytes);
    GgufFault fault{
        t.name, 0, 0,
        is_quantized(t.type) ? "a scale is infinite or no number" : "it is infinite or no number"};
    for (size_t at = 0; has_floats(t.type) && at < data.size(); at += width) {
      const auto block = data.subspan(at, width);
      if (!(t.type == GgmlType::IQ1_M ? is_faulty_iq1_m(block) : is_faulty(block, floats))) continue;
      if (fault.blocks++ == 0) fault.block = static_cast<int64_t>(at / width);
    }
    if (fault.blocks) out.push_back(std::move(fault));
    if (on_tensor) on_tensor(t);
  }
  return out;
}

}  // namespace lathe
