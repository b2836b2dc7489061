// Quantised values: integers with a scale and a zero point.
#include "formats/onnx/call.h"
#include "formats/onnx/window.h"

namespace lathe::onnx {
namespace {

// A scale or zero point in a shape that broadcasts against x: one for all, one for each place along `axis`,
// or one for each block of `block` places.
Tensor spread(const Tensor& s, const Tensor& x, int64_t axis, int64_t block) {
  if (s.numel() == SInt(1)) return s.reshape({});
  const int64_t at = Call::axis(axis, x.ndim());
  if (block) return s.repeat_interleave(block, at).shrink_to(x.shape());
  if (s.ndim() != 1) value_error("{} scales of {}", to_string(s.shape()), to_string(x.shape()));
  return along(s, at, x.ndim());
}

struct Range {
  double low, high;
};
Range range_of(ElementType type) {
  const ElementInfo& info = known_element(type);
  if (is_unsigned(info.dtype)) return {0, static_cast<double>((int64_t{1} << info.bits) - 1)};
  const auto half = static_cast<double>(int64_t{1} << (info.bits - 1));
  return {-half, half - 1};
}

bool is_integer(ElementType type) { return is_int(known_element(type).dtype); }

// round(x / scale) + zero, within what the type holds.
Value quantized(const Tensor& x, const Tensor& scale, const std::optional<Tensor>& zero, ElementType to,
                bool saturate = true) {
  // In double: what lies halfway between two integers has to be seen as such, and a product with the
  // reciprocal of a float32 scale misses it.
  const Tensor scaled = x.cast(DType::Float64).div(scale.cast(DType::Float64)).cast(DType::Float32);
  if (!is_integer(to)) return cast_value(scaled, to, saturate);
  Tensor y = scaled.round();
  if (zero) y = y.add(zero->cast(DType::Float32));
  const Range range = range_of(to);
  return {y.clamp(Tensor(range.low), Tensor(range.high)).cast(known_element(to).dtype), to};
}

Value quantize_linear(const Call& c) {
  const int64_t axis = c.attr_int("axis", 1), block = c.attr_int("block_size", 0);
  const auto named = static_cast<ElementType>(c.attr_int("output_dtype", 0));
  const ElementType to = c.has(2) ? c.type(2) : named != ElementType::Undefined ? named : ElementType::UInt8;
  std::optional<Tensor> zero;
  if (c.has(2)) zero = spread(c[2], c[0], axis, block);
  return quantized(c[0], spread(c[1], c[0], axis, block), zero, to, c.attr_flag("saturate", true));
}

Tensor dequantize_linear(const Call& c) {
  const int64_t axis = c.attr_int("axis", 1), block = c.attr_int("block_size", 0);
  Tensor x = c[0].cast(is_int(c[0].dtype()) ? DType::Int32 : DType::Float32);
  if (c.has(2)) x = x.sub(spread(c[2], c[0], axis, block).cast(x.dtype()));
  const Tensor scale = spread(c[1], c[0], axis, block);
  return x.cast(DType::Float32)
      .mul(scale.cast(DType::Float32))
      .cast(c.attr_dtype("output_dtype", c[1].dtype()));
}

Values dynamic_quantize_linear(const Call& c) {
  const Tensor high = c[0].max().maximum(0.0), low = c[0].min().minimum(0.0);
  // In double, so that the quotient is rounded once and halves are met where others meet them.
  const Tensor scale = high.sub(low).cast(DType::Float64).div(255.0).cast(DType::Float32);
  const Tensor zero = low.neg().div(scale).round().clamp(Tensor(0.0), Tensor(255.0)).cast(DType::UInt8);
  return {quantized(c[0], scale, zero, ElementType::UInt8), scale, zero};
}

// Integers without their zero point; `axis` is that of a list of zero points.
Tensor centred(const Tensor& x, const std::optional<Tensor>& zero, int64_t axis) {
  const Tensor wide = x.cast(DType::Int32);
  return zero ? wide.sub(spread(*zero, x, axis, 0).cast(DType::Int32)) : wide;
}

Tensor matmul_integer(const Call& c) {
  return centred(c[0], c.optional(2), -2).matmul(centred(c[1], c.optional(3), -1));
}

Tensor conv_integer(const Call& c) {
  return convolve(c, centred(c[0], c.optional(2), 1), centred(c[1], c.optional(3), 0), std::nullopt);
}

// Inputs: a and its scale and zero point, b likewise, scale and zero point of the result.
Value qlinear_matmul(const Call& c) {
  const Tensor product = centred(c[0], c[2], -2).matmul(centred(c[3], c[5], -1));
  const Tensor scale =
      spread(c[1], c[0], -2, 0).cast(DType::Float32).mul(spread(c[4], c[3], -1, 0).cast(DType::Float32));
  return quantized(product.cast(DType::Float32).mul(scale), c[6].reshape({}), c[7].reshape({}), c.type(7));
}

Value qlinear_conv(const Call& c) {
  Tensor y = convolve(c, centred(c[0], c[2], 1), centred(c[3], c[5], 0), std::nullopt);
  if (c.has(8)) y = y.add(spread(c[8], y, 1, 0));
  const Tensor scale = c[1].reshape({}).mul(spread(c[4], y, 1, 0));
  return quantized(y.cast(DType::Float32).mul(scale), c[6].reshape({}), c[7].reshape({}), c.type(7));
}

// ---- com.microsoft

// Input i, with its scale and zero point behind it, as floats.
Tensor real(const Call& c, size_t i) {
  return centred(c[i], c.optional(i + 2), 0).cast(DType::Float32).mul(c[i + 1].reshape({}));
}

// In the scale that input i is, and the zero point behind it.
Value as_asked(const Call& c, const Tensor& y, size_t i, ElementType type) {
  std::optional<Tensor> zero;
  if (c.has(i + 1)) zero = c[i + 1].reshape({});
  return quantized(y, c[i].reshape({}), zero, type);
}

// Inputs: x and its scale and zero point, scale and zero point of the result.
template <class F>
constexpr auto qlinear(F) {
  return [](const Call& c) { return as_asked(c, F{}(c, real(c, 0)), 3, c.type(0)); };
}

// Inputs: a and its scale and zero point, b likewise, scale and zero point of the result.
template <auto Method>
Value qlinear_binary(const Call& c) {
  return as_asked(c, (real(c, 0).*Method)(real(c, 3)), 6, c.type(0));
}

// Inputs: scale and zero point of the result, then each part with its own.
Value qlinear_concat(const Call& c) {
  std::vector<Tensor> parts;
  for (size_t i = 2; i + 1 < c.size(); i += 3) parts.push_back(real(c, i));
  return as_asked(c, Tensor::cat(parts, c.attr_int("axis")), 0, c.type(2));
}

// Inputs: a and b as above, a bias in the product of their scales, scale and zero point of the result, which
// is float without.
Value qgemm(const Call& c) {
  const auto turned = [&](const Tensor& x, std::string_view flag) {
    return c.attr_flag(flag) ? x.transpose() : x;
  };
  const Tensor a = turned(centred(c[0], c.optional(2), 0), "transA"),
               b = turned(centred(c[3], c.optional(5), c.attr_flag("transB") ? 0 : 1), "transB");
  const Tensor sum = c.plus(6, a.matmul(b)),
               y = sum.cast(DType::Float32).mul(c[1].reshape({})).mul(c[4]).mul(c.attr_real("alpha", 1));
  return c.has(7) ? as_asked(c, y, 7, c.type(0)) : Value(y.cast(DType::Float32));
}

Tensor global_average(const Call& c, const Tensor& x) {
  const int64_t first = c.attr_flag("channels_last") ? 1 : 2;
  return x.mean(axes_between(first, first + static_cast<int64_t>(spatial_of(x).size())), true);
}

// Integers times integers, as floats: the scales of a and b are inputs 2 and 3, their zero points 4 and 5.
Tensor matmul_integer_to_float(const Call& c) {
  const Tensor product = centred(c[0], c.optional(4), -2).matmul(centred(c[1], c.optional(5), -1));
  return c.plus(6, product.cast(DType::Float32).mul(c[2].reshape({})).mul(spread(c[3], product, -1, 0)));
}

// The first operand is quantised on the way; the second has its scale and zero point in inputs 2 and 3.
Tensor dynamic_quantize_matmul(const Call& c) {
  const Values a = dynamic_quantize_linear(c);
  const Tensor x = centred(a[0].tensor(), a[2].tensor(), 0),
               product = x.matmul(centred(c[1], c.optional(3), -1));
  return c.plus(4, product.cast(DType::Float32).mul(a[1].tensor()).mul(spread(c[2], product, -1, 0)));
}

constexpr OpRow kRows[] = {
    {"ConvInteger", of<conv_integer>},
    {"DequantizeLinear", of<dequantize_linear>},
    {"DynamicQuantizeLinear", of<dynamic_quantize_linear>},
    {"MatMulInteger", of<matmul_integer>},
    {"QLinearConv", of<qlinear_conv>},
    {"QLinearMatMul", of<qlinear_matmul>},
    {"QuantizeLinear", of<quantize_linear>},
    {"DequantizeLinear", of<dequantize_linear>, kMicrosoft},
    {"DynamicQuantizeMatMul", of<dynamic_quantize_matmul>, kMicrosoft},
    {"MatMulIntegerToFloat", of<matmul_integer_to_float>, kMicrosoft},
    {"QGemm", of<qgemm>, kMicrosoft},
    {"QLinearAdd", of<qlinear_binary<&Tensor::add>>, kMicrosoft},
    {"QLinearAveragePool", qlinear([](const Call& c, const Tensor& x) { return average_pool(c, x); }),
     kMicrosoft},
    {"QLinearConcat", of<qlinear_concat>, kMicrosoft},
    {"QLinearGlobalAveragePool", qlinear([](const Call& c, const Tensor& x) { return global_average(c, x); }),
     kMicrosoft},
    {"QLinearLeakyRelu",
     qlinear([](const Call& c, const Tensor& x) { return x.leaky_relu(c.attr_real("alpha", 0.01)); }),
     kMicrosoft},
    {"QLinearMul", of<qlinear_binary<&Tensor::mul>>, kMicrosoft},
    {"QLinearSigmoid", qlinear([](const Call&, const Tensor& x) { return x.sigmoid(); }), kMicrosoft},
    {"QLinearSoftmax",
     qlinear([](const Call& c, const Tensor& x) { return x.softmax(c.attr_int("axis", -1)); }), kMicrosoft},
    {"QuantizeLinear", of<quantize_linear>, kMicrosoft},
};

}  // namespace

std::span<const OpRow> quantize_ops() { return kRows; }

}  // namespace lathe::onnx
