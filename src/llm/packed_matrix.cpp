#include "llm/packed_matrix.h"

#include "base/error.h"
#include "base/knobs.h"
#include "formats/gguf/dequantize.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr int64_t kBlock = 32;  // of activations that are rounded, and of codes that share a scale

// Of x (…, k): numbers int8 (…, k/n, n), scales (…, k/n).
struct Blocks {
  Tensor numbers, scales;
};
Blocks to_blocks(const Tensor& x, int64_t n = kBlock) {
  const Tensor parts = x.unflatten(-1, {-1, n});
  const Tensor scales = (parts.abs().max(-1, true) / 127).contiguous();
  const Tensor numbers = (scales == 0).where(0, parts / scales).round().cast(DType::Int8);
  return {numbers.contiguous(), scales.squeeze(-1)};
}

Tensor whole(const Tensor& x) { return x.cast(DType::Int32); }
// Bytes (…, n) to their fields of `width` bits (…, count, n), the low ones first.
Tensor fields(const Tensor& bytes, int64_t count, int64_t width) {
  const Tensor shifts = (Tensor::arange(count) * width).cast(DType::UInt8).reshape({count, 1});
  return (bytes.unsqueeze(-2) >> shifts) & ((1 << width) - 1);
}
Tensor nibbles(const Tensor& bytes) { return fields(bytes, 2, 4); }

// How a type lies in memory.
struct Layout {
  GgmlType type;
  // Of blocks (…, rows, blocks of a row, bytes of a block), uint8: the parts, which are copied.
  std::vector<Tensor> (*split)(const Tensor& blocks);
  // The values, (…, rows, columns).
  Tensor (*unpack)(const std::vector<Tensor>& parts);
  // Sums (…, m, rows) over products with x (…, m, k).
  Tensor (*multiply)(const Tensor& x, const std::vector<Tensor>& parts);
};

Tensor bytes(const Tensor& blocks, int64_t begin, int64_t count) {
  return blocks.at(ellipsis, Slice{begin, begin + count});
}
Tensor half_at(const Tensor& blocks, int64_t at) {
  return bytes(blocks, at, 2).bitcast(DType::Float16).squeeze(-1);
}

// Parts of all rows beside each row of x: (…, rows, n) to (…, 1, rows, n).
Tensor beside(const Tensor& part, int64_t axes) { return part.unsqueeze(-axes - 2); }

std::vector<Tensor> split_q8_0(const Tensor& b) {
  return {bytes(b, 2, 32).bitcast(DType::Int8), half_at(b, 0)};
}
Tensor unpack_q8_0(const std::vector<Tensor>& p) {
  return (p[0].to_float() * p[1].to_float().unsqueeze(-1)).flatten(-2);
}
Tensor multiply_q8_0(const Tensor& x, const std::vector<Tensor>& p) {
  const Blocks in = to_blocks(x);
  const Tensor sums = (whole(beside(p[0], 2)) * whole(in.numbers.unsqueeze(-3))).sum(-1);
  return (sums.to_float() * (beside(p[1], 1).to_float() * in.scales.unsqueeze(-2))).sum(-1);
}

std::vector<Tensor> split_q4_0(const Tensor& b) { return {bytes(b, 2, 16), half_at(b, 0)}; }
Tensor unpack_q4_0(const std::vector<Tensor>& p) {
  return ((nibbles(p[0]).flatten(-2).to_float() - 8) * p[1].to_float().unsqueeze(-1)).flatten(-2);
}
// Codes (…, 1, rows, blocks, 2, 16) that are `offset` too large, scales (…, rows, blocks).
Tensor multiply_halves(const Tensor& x, const Tensor& codes, int64_t offset, const Tensor& scales) {
  const Blocks in = to_blocks(x);
  const Tensor halves = whole(in.numbers.unflatten(-1, {2, kBlock / 2}).unsqueeze(-4));
  const Tensor sums = (whole(codes) * halves).sum({-2, -1});
  const Tensor below = (whole(in.numbers).sum(-1) * offset).contiguous().unsqueeze(-2);
  return ((sums - below).to_float() * (beside(scales, 1).to_float() * in.scales.unsqueeze(-2))).sum(-1);
}
Tensor multiply_q4_0(const Tensor& x, const std::vector<Tensor>& p) {
  return multiply_halves(x, nibbles(beside(p[0], 2)), 8, p[1]);
}

// Floats of four bits, doubled, are the integers 0 1 2 3 4 6 8 12 and their negatives; 12 is added to have no
// sign.
constexpr int64_t kFp4Offset = 12;

std::vector<Tensor> split_mxfp4(const Tensor& b) { return {bytes(b, 1, 16), bytes(b, 0, 1).squeeze(-1)}; }
Tensor codes_of_mxfp4(const Tensor& halves) {
  const Tensor codes = nibbles(halves), m = codes & 7;
  const Tensor size = m + (m.maximum(4) - 4) + (m == 7).cast(DType::UInt8) * 2;
  return (codes > 7).where(kFp4Offset - size, size + kFp4Offset);
}
// 2^(e - 128), of which the first two are subnormal.
Tensor scales_of_mxfp4(const Tensor& exponents) {
  const Tensor e = exponents.cast(DType::UInt32);
  return (e < 2).where((e + 1) << 21, (e - 1) << 23).bitcast(DType::Float32);
}
Tensor unpack_mxfp4(const std::vector<Tensor>& p) {
  const Tensor codes = codes_of_mxfp4(p[0]).flatten(-2).to_float() - kFp4Offset;
  return (codes * scales_of_mxfp4(p[1]).unsqueeze(-1)).flatten(-2);
}
Tensor multiply_mxfp4(const Tensor& x, const std::vector<Tensor>& p) {
  return multiply_halves(x, codes_of_mxfp4(beside(p[0], 2)), kFp4Offset, scales_of_mxfp4(p[1]));
}

// Superblocks of 256: eight groups of 32 with scales and minima of six bits. Activations are rounded in
// blocks of 256, so that all sums of a superblock are of integers.
constexpr int64_t kSuper = 256, kGroups = 8;

std::vector<Tensor> split_q4_k(const Tensor& b) {
  const Tensor x = bytes(b, 4, 4), y = bytes(b, 8, 4), z = bytes(b, 12, 4);
  const auto eight = [](const Tensor& first, const Tensor& low) {
    return Tensor::cat({first & 63, low | ((first >> 6) << 4)}, -1);
  };
  return {bytes(b, 16, 128).unflatten(-1, {4, 32}), eight(x, z & 15), eight(y, z >> 4), half_at(b, 0),
          half_at(b, 2)};
}
Tensor unpack_q4_k(const std::vector<Tensor>& p) {
  const Tensor scales = p[1].to_float() * p[3].to_float().unsqueeze(-1);
  const Tensor minima = p[2].to_float() * p[4].to_float().unsqueeze(-1);
  const Tensor codes = nibbles(p[0]).flatten(-3, -2).to_float();
  return (codes * scales.unsqueeze(-1) - minima.unsqueeze(-1)).flatten(-3);
}
Tensor multiply_q4_k(const Tensor& x, const std::vector<Tensor>& p) {
  const Blocks in = to_blocks(x, kSuper);
  const Tensor numbers = in.numbers.unflatten(-1, {kGroups, kBlock});  // (…, m, blocks, 8, 32)
  const Tensor sums = whole(numbers).sum(-1).contiguous().unsqueeze(-3);
  const Tensor codes = nibbles(beside(p[0], 3)).flatten(-3, -2);
  const Tensor dots = (whole(codes) * whole(numbers.unsqueeze(-4))).sum(-1);  // (…, m, rows, blocks, 8)
  const Tensor scaled = (dots * whole(beside(p[1], 2))).sum(-1).to_float() * beside(p[3], 1).to_float();
  const Tensor below = (sums * whole(beside(p[2], 2))).sum(-1).to_float() * beside(p[4], 1).to_float();
  return ((scaled - below) * in.scales.unsqueeze(-2)).sum(-1);
}

// Superblocks of 256: sixteen groups of 16 with scales of eight bits; codes of four and two bits are 32 too
// large.
constexpr int64_t kSmallGroups = 16;

// Files spread a group over the bytes of a half; here two groups share the bytes of their low bits, (…, 8,
// 16), and four those of their high bits, (…, 4, 16).
std::vector<Tensor> split_q6_k(const Tensor& b) {
  const auto groups = [](const Tensor& x) { return x.flatten(-3).unflatten(-1, {kSmallGroups, 16}); };
  const Tensor low = groups(nibbles(bytes(b, 0, 128).unflatten(-1, {2, 64})));
  const Tensor high = groups(fields(bytes(b, 128, 64).unflatten(-1, {2, 32}), 4, 2));
  const auto every = [](const Tensor& x, int64_t n, int64_t i) {
    return x.unflatten(-2, {-1, n}).at(ellipsis, i, Slice{});
  };
  const Tensor halves = every(low, 2, 0) | (every(low, 2, 1) << 4);
  const Tensor quarters =
      every(high, 4, 0) | (every(high, 4, 1) << 2) | (every(high, 4, 2) << 4) | (every(high, 4, 3) << 6);
  return {halves, quarters, bytes(b, 192, 16).bitcast(DType::Int8), half_at(b, 208)};
}
// uint8 (…, blocks, 16, 16).
Tensor codes_of_q6_k(const Tensor& low, const Tensor& high) {
  return nibbles(low).flatten(-3, -2) | (fields(high, 4, 2).flatten(-3, -2) << 4);
}
Tensor unpack_q6_k(const std::vector<Tensor>& p) {
  const Tensor scales = p[2].to_float() * p[3].to_float().unsqueeze(-1);
  return ((codes_of_q6_k(p[0], p[1]).to_float() - 32) * scales.unsqueeze(-1)).flatten(-3);
}
Tensor multiply_q6_k(const Tensor& x, const std::vector<Tensor>& p) {
  const Blocks in = to_blocks(x, kSuper);
  const Tensor numbers = in.numbers.unflatten(-1, {kSmallGroups, kSuper / kSmallGroups});
  const Tensor offset = (whole(numbers).sum(-1) * 32).contiguous().unsqueeze(-3);
  const Tensor codes = codes_of_q6_k(beside(p[0], 3), beside(p[1], 3));
  const Tensor dots = (whole(codes) * whole(numbers.unsqueeze(-4))).sum(-1) - offset;
  const Tensor sums = (dots * whole(beside(p[2], 2))).sum(-1);
  return (sums.to_float() * (beside(p[3], 1).to_float() * in.scales.unsqueeze(-2))).sum(-1);
}

const Layout kLayouts[] = {
    {GgmlType::Q8_0, split_q8_0, unpack_q8_0, multiply_q8_0},
    {GgmlType::Q4_0, split_q4_0, unpack_q4_0, multiply_q4_0},
    {GgmlType::MXFP4, split_mxfp4, unpack_mxfp4, multiply_mxfp4},
    {GgmlType::Q4_K, split_q4_k, unpack_q4_k, multiply_q4_k},
    {GgmlType::Q6_K, split_q6_k, unpack_q6_k, multiply_q6_k},
};
const Layout* layout_of(GgmlType type) {
  const auto found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& l) { return l.type == type; });
  return found == std::end(kLayouts) ? nullptr : found;
}

}  // namespace

PackedMatrix pack(const GgufFile& file, const GgufTensor& tensor, const std::string& device) {
  const int64_t axes = static_cast<int64_t>(tensor.shape.size());
  PackedMatrix out{
      tensor.type, axes < 2 ? 1 : tensor.shape[tensor.shape.size() - 2], tensor.shape.back(), {}};
  const Layout* layout = layout_of(tensor.type);
  if (!layout) {
    out.parts = {is_quantized(tensor.type) ? file.packed(tensor, device) : file.tensor(tensor, device)};
    return out;
  }
  const Tensor blocks = file.packed(tensor, device).unflatten(-1, {-1, type_info(tensor.type).block_bytes});
  for (const Tensor& part : layout->split(blocks)) out.parts.push_back(part.contiguous());
  Tensor::realize(out.parts);
  return out;
}

PackedMatrix select(const PackedMatrix& w, const TensorIndex& index) {
  PackedMatrix out{w.type, w.rows, w.columns, {}};
  for (const Tensor& part : w.parts) out.parts.push_back(part.index({index}));
  return out;
}

Tensor unpack(const PackedMatrix& w) {
  if (const Layout* layout = layout_of(w.type)) return layout->unpack(w.parts);
  return is_quantized(w.type) ? dequantize(w.parts[0], w.type) : w.parts[0].to_float();
}

Tensor multiply(const Tensor& x, const PackedMatrix& w) {
  const Layout* layout = layout_of(w.type);
  if (layout && knob(Knob::INT8_ACTIVATIONS)) return layout->multiply(x, w.parts);
  return x.matmul(unpack(w).transpose(-2, -1));
}

}  // namespace lathe
