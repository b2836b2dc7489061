// Ops of ONNX Runtime that its exporters and optimisers leave in models (domain com.microsoft).
#include "formats/onnx/call.h"
#include "formats/onnx/window.h"

namespace lathe::onnx {
namespace {

// The transposes of the last two axes, and of the batch axes into their place: (b, m, k) from (m, b, k).
Tensor oriented(const Call& c, size_t i, std::string_view last, std::string_view batch) {
  Tensor x = c[i];
  if (c.attr_flag(batch)) x = x.transpose(0, -2);
  return c.attr_flag(last) ? x.transpose(-2, -1) : x;
}

Tensor fused_matmul(const Call& c) {
  const Tensor product =
      oriented(c, 0, "transA", "transBatchA").matmul(oriented(c, 1, "transB", "transBatchB"));
  return product.mul(c.attr_real("alpha", 1)).cast(product.dtype());
}

// x scaled to a mean square of 1 over the last axis, and by `scale`.
Tensor rms_normalized(const Tensor& x, const Tensor& scale, double epsilon) {
  const Tensor wide = x.cast(join(x.dtype(), DType::Float32));
  return wide.mul(wide.square().mean(-1, true).add(epsilon).rsqrt()).cast(x.dtype()).mul(scale);
}

Tensor simplified_layer_normalization(const Call& c) {
  return rms_normalized(c[0], c[1], c.attr_real("epsilon", 1e-5));
}

// The sum of a block and its input, normalised; the sum itself is the fourth output.
Values skip_layer_normalization(const Call& c) {
  const Tensor x = c.plus(4, c[0].add(c[1]));
  const Tensor wide = x.cast(join(x.dtype(), DType::Float32));
  const Tensor y = wide.layernorm(-1, c.attr_real("epsilon", 1e-12)).cast(x.dtype()).mul(c[2]);
  return {c.plus(3, y), Value(), Value(), x};
}
Values skip_simplified_layer_normalization(const Call& c) {
  const Tensor x = c.plus(3, c[0].add(c[1]));
  return {rms_normalized(x, c[2], c.attr_real("epsilon", 1e-5)), Value(), Value(), x};
}

// Embeddings of words, positions and segments, summed and normalised.
Values embed_layer_normalization(const Call& c) {
  const int64_t length = c[0].size(1).value();
  Tensor x = c[2].at(c[0]).add(c.has(8) ? c[3].at(c[8]) : c[3].at(Slice{0, length}));
  if (c.has(1) && c.has(4)) x = x.add(c[4].at(c[1]));
  const Tensor y = x.layernorm(-1, c.attr_real("epsilon", 1e-12)).mul(c[5]).add(c[6]);
  const Tensor ends = c.has(7) ? c[7].cast(DType::Int32).sum(1).cast(DType::Int32)
                               : Tensor::constant_of({c[0].size(0)}, 0, DType::Int32);
  return {y, ends, x};
}

// Unsigned integers of `bits` bits out of bytes, low bits first, along a new last axis that merges into the
// last.
Tensor unpacked(const Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  std::vector<Tensor> parts;
  for (int64_t shift = 0; shift < 8; shift += bits)
    parts.push_back(bytes.rshift(Tensor(shift)).bitwise_and((int64_t{1} << bits) - 1));
  return Tensor::stack(parts, -1).flatten(-2);
}

// A times the transpose of B (n, k), which is stored in blocks along k with a scale each.
Tensor matmul_nbits(const Call& c) {
  const int64_t k = c.attr_int("K"), n = c.attr_int("N"), bits = c.attr_int("bits", 4),
                block = c.attr_int("block_size");
  if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || k < 1 || n < 1)
    value_error("a matrix of {} by {} in blocks of {} with {} bits", n, k, block, bits);
  if (c.has(4)) value_error("reordered columns (g_idx) are not supported");
  const int64_t blocks = (k + block - 1) / block;
  const DType d = c[0].dtype();
  const Shape per_block{SInt(n), SInt(blocks), SInt(1)};
  const Tensor stored = unpacked(c[1], bits).reshape({SInt(n), SInt(blocks), SInt(block)}).cast(d);
  Tensor zero = Tensor(static_cast<double>(int64_t{1} << (bits - 1))).cast(d);
  // Packed zero points fill whole bytes for each row; others are of the type of the data.
  if (c.has(3) && c[3].dtype() == DType::UInt8)
    zero = unpacked(c[3].reshape({SInt(n), SInt(-1)}), bits)
               .shrink_to({SInt(n), SInt(blocks)})
               .reshape(per_block)
               .cast(d);
  else if (c.has(3))
    zero = c[3].reshape(per_block);
  const Tensor b = stored.sub(zero)
                       .mul(c[2].reshape(per_block))
                       .reshape({SInt(n), SInt(-1)})
                       .shrink_to({SInt(n), SInt(k)});
  return c.plus(5, c[0].matmul(b.transpose()));
}

// What the runtime has fused behind a product: the activation that the node names.
Tensor with_activation(const Call& c, const Tensor& y) {
  if (!c.attribute("activation")) return y;
  const std::vector<float> params = c.attr_reals("activation_params");
  const auto param = [&](size_t i, std::string_view name, double otherwise) {
    return i < params.size() ? double{params[i]} : c.attr_real(name, otherwise);
  };
  return activated(y, c.attr_text("activation"), param(0, "activation_alpha", 0.01),
                   param(1, "activation_beta", 0));
}

Tensor fused_conv(const Call& c) {
  return with_activation(c, c.plus(3, convolve(c, c[0], c[1], c.optional(2))));
}

// Channels stand last.
Tensor nhwc_conv(const Call& c) {
  return with_activation(c,
                         convolve(c, c[0].permute({0, 3, 1, 2}), c[1], c.optional(2)).permute({0, 2, 3, 1}));
}

constexpr OpRow kRows[] = {
    {"BiasAdd", [](const Call& c) { return c.plus(1, c[0]).add(c[2]); }, kMicrosoft},
    {"BiasGelu", [](const Call& c) { return c.plus(1, c[0]).gelu("none"); }, kMicrosoft},
    {"EmbedLayerNormalization", of<embed_layer_normalization>, kMicrosoft},
    {"FastGelu", [](const Call& c) { return c.plus(1, c[0]).gelu("tanh"); }, kMicrosoft},
    {"FusedConv", of<fused_conv>, kMicrosoft},
    {"FusedGemm", [](const Call& c) { return with_activation(c, gemm(c, c[0], c[1], c.optional(2))); },
     kMicrosoft},
    {"FusedMatMul", of<fused_matmul>, kMicrosoft},
    {"Gelu", [](const Call& c) { return c[0].gelu("none"); }, kMicrosoft},
    {"GemmFastGelu", [](const Call& c) { return c.plus(2, c[0].matmul(c[1])).gelu("tanh"); }, kMicrosoft},
    {"MatMulNBits", of<matmul_nbits>, kMicrosoft},
    {"NhwcConv", of<nhwc_conv>, kMicrosoft},
    {"QuickGelu", [](const Call& c) { return c[0].mul(c[0].mul(c.attr_real("alpha", 1.702)).sigmoid()); },
     kMicrosoft},
    // The runtime keeps this one in the default domain too.
    {"SimplifiedLayerNormalization", of<simplified_layer_normalization>},
    {"SimplifiedLayerNormalization", of<simplified_layer_normalization>, kMicrosoft},
    {"SkipLayerNormalization", of<skip_layer_normalization>, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", of<skip_simplified_layer_normalization>, kMicrosoft},
};

}  // namespace

std::span<const OpRow> contrib_ops() { return kRows; }

}  // namespace lathe::onnx
