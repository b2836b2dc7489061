#include "llm/packed_matrix.h"

#include "base/error.h"
#include "base/knobs.h"
#include "formats/gguf/dequantize.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr int64_t kBlock = 32;  // of activations that are rounded, and of codes that share a scale

// Of x (…, k): numbers int8 (…, k/32, 32), scales (…, k/32).
struct Blocks {
  Tensor numbers, scales;
};
Blocks to_blocks(const Tensor& x) {
  const Tensor parts = x.unflatten(-1, {-1, kBlock});
  const Tensor scales = (parts.abs().max(-1, true) / 127).contiguous();
  const Tensor numbers = (scales == 0).where(0, parts / scales).round().cast(DType::Int8);
  return {numbers.contiguous(), scales.squeeze(-1)};
}

Tensor whole(const Tensor& x) { return x.cast(DType::Int32); }
// Bytes (…, n) to their halves (…, 2, n): the low ones, then the high ones.
Tensor nibbles(const Tensor& bytes) {
  return (bytes.unsqueeze(-2) >> (Tensor::arange(2) * 4).cast(DType::UInt8).reshape({2, 1})) & 15;
}

// How the blocks of a type are laid out: what of their bytes becomes a part, and what the parts stand for.
struct Layout {
  struct Part {
    int64_t begin, end;  // bytes of a block
    DType dtype;
  };
  GgmlType type;
  std::vector<Part> parts;
  // The values, (…, rows, columns).
  Tensor (*unpack)(const std::vector<Tensor>& parts);
  // Sums (…, m, rows) over products with x (…, m, k).
  Tensor (*multiply)(const Tensor& x, const std::vector<Tensor>& parts);
};

// Parts of all rows beside each row of x: (…, rows, n) to (…, 1, rows, n).
Tensor beside(const Tensor& part, int64_t axes) { return part.unsqueeze(-axes - 2); }

Tensor unpack_q8_0(const std::vector<Tensor>& p) {
  return (p[0].to_float() * p[1].to_float().unsqueeze(-1)).flatten(-2);
}
Tensor multiply_q8_0(const Tensor& x, const std::vector<Tensor>& p) {
  const Blocks in = to_blocks(x);
  const Tensor sums = (whole(beside(p[0], 2)) * whole(in.numbers.unsqueeze(-3))).sum(-1);
  return (sums.to_float() * (beside(p[1], 1).to_float() * in.scales.unsqueeze(-2))).sum(-1);
}

Tensor unpack_q4_0(const std::vector<Tensor>& p) {
  return ((nibbles(p[0]).flatten(-2).to_float() - 8) * p[1].to_float().unsqueeze(-1)).flatten(-2);
}
Tensor multiply_q4_0(const Tensor& x, const std::vector<Tensor>& p) {
  const Blocks in = to_blocks(x);
  const Tensor halves = whole(in.numbers.unflatten(-1, {2, kBlock / 2}).unsqueeze(-4));
  const Tensor sums = (whole(nibbles(beside(p[0], 2))) * halves).sum({-2, -1});
  const Tensor offset = (whole(in.numbers).sum(-1) * 8).contiguous().unsqueeze(-2);
  return ((sums - offset).to_float() * (beside(p[1], 1).to_float() * in.scales.unsqueeze(-2))).sum(-1);
}

const Layout kLayouts[] = {
    {GgmlType::Q8_0, {{2, 34, DType::Int8}, {0, 2, DType::Float16}}, unpack_q8_0, multiply_q8_0},
    {GgmlType::Q4_0, {{2, 18, DType::UInt8}, {0, 2, DType::Float16}}, unpack_q4_0, multiply_q4_0},
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
  for (const Layout::Part& part : layout->parts) {
    Tensor bytes = blocks.at(ellipsis, Slice{part.begin, part.end}).clone().realize().bitcast(part.dtype);
    out.parts.push_back(bytes.size(-1).value() == 1 ? bytes.squeeze(-1) : bytes);
  }
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
