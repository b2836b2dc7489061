// Arithmetic, comparisons and activations.
#include "formats/onnx/call.h"

#include <algorithm>

namespace lathe::onnx {
namespace {

// Before opset 7 the second operand was aligned at an axis that an attribute named.
Tensor second(const Call& c) {
  const Tensor& b = c[1];
  if (c.opset() >= 7 || !c.attr_flag("broadcast") || !c.attribute("axis")) return b;
  Shape to = b.shape();
  const int64_t at =
      c.attr_int("axis") == c[0].ndim() ? c[0].ndim() : Call::axis(c.attr_int("axis"), c[0].ndim());
  while (static_cast<int64_t>(to.size()) + at < c[0].ndim()) to.push_back(SInt(1));
  return b.reshape(to);
}

template <auto Method>
inline constexpr auto unary = [](const Call& c) { return (c[0].*Method)(); };
template <auto Method>
inline constexpr auto binary = [](const Call& c) { return (c[0].*Method)(second(c)); };

// All inputs folded from the left.
template <auto Method>
inline constexpr auto variadic = [](const Call& c) {
  Tensor out = c[0];
  for (size_t i = 1; i < c.size(); i++) out = (out.*Method)(c[i]);
  return out;
};

Tensor divide(const Call& c) {
  const Tensor &a = c[0], b = second(c);
  if (!is_float(a.dtype())) return a.div_trunc(b);
  // A quotient multiplies by the reciprocal, which rounds twice; one number, such as the scale of a quantised
  // tensor, can afford better.
  if (a.dtype() == DType::Float32 && a.numel() == SInt(1) && b.numel() == SInt(1))
    return a.cast(DType::Float64).div(b.cast(DType::Float64)).cast(DType::Float32);
  return a.div(b);
}

Tensor equal(const Call& c) {
  if (!c.value(0).is_strings()) return c[0].eq(second(c));
  // Each text as the number of the first one like it.
  std::vector<std::string> seen;
  const auto numbered = [&](const Strings& s) {
    std::vector<int64_t> out;
    for (const std::string& item : s.items) {
      const auto it = std::find(seen.begin(), seen.end(), item);
      out.push_back(it - seen.begin());
      if (it == seen.end()) seen.push_back(item);
    }
    return Tensor::from(out, to_shape(s.shape));
  };
  const Tensor a = numbered(c.strings(0));
  return a.eq(numbered(c.strings(1)));
}

Tensor modulo(const Call& c) { return c.attr_flag("fmod") ? c[0].fmod(c[1]) : c[0].mod(c[1]); }

// The result has the type of the base; exponents of another kind are converted where that loses nothing.
Tensor power(const Call& c) {
  const Tensor x = c[0], y = second(c);
  if (is_float(y.dtype()) && !is_float(x.dtype())) return x.cast(y.dtype()).pow(y).cast(x.dtype());
  return x.pow(y.cast(x.dtype()));
}

Tensor shift(const Call& c) {
  return c.attr_text("direction") == "LEFT" ? c[0].lshift(c[1]) : c[0].rshift(c[1]);
}

Tensor clip(const Call& c) {
  const auto bound = [&](size_t i, std::string_view name) -> std::optional<Tensor> {
    if (c.has(i) || !c.attribute(name)) return c.optional(i);
    return Tensor(Scalar(c.attr_real(name))).cast(c[0].dtype());
  };
  const auto low = bound(1, "min"), high = bound(2, "max");
  return low || high ? c[0].clamp(low, high) : c[0];
}

Tensor prelu(const Call& c) {
  Tensor slope = c[1];
  // Before opset 7 a list of slopes was one for each channel.
  if (c.opset() < 7 && slope.ndim() == 1 && c[0].ndim() > 1) slope = along(slope, 1, c[0].ndim());
  return c[0].lt(0).where(c[0].mul(slope), c[0]).cast(c[0].dtype());
}

Tensor gelu(const Call& c) { return c[0].gelu(c.attr_text("approximate", "none")); }

Tensor shrink(const Call& c) {
  const double bias = c.attr_real("bias", 0), lambda = c.attr_real("lambd", 0.5);
  const Tensor& x = c[0];
  return x.lt(-lambda).where(x.add(bias), x.gt(lambda).where(x.sub(bias), 0)).cast(x.dtype());
}

Tensor is_infinite(const Call& c) {
  return c[0].isinf(c.attr_flag("detect_positive", true), c.attr_flag("detect_negative", true));
}

// Before opset 13 the axes from `axis` on were one.
template <class F>
Tensor over_axis(const Call& c, F f) {
  if (c.opset() >= 13) return f(c[0], c.attr_int("axis", -1));
  const int64_t at = Call::axis(c.attr_int("axis", 1), c[0].ndim());
  Shape flat{SInt(1), SInt(1)};
  for (int64_t i = 0; i < c[0].ndim(); i++) {
    SInt& side = flat[i < at ? 0 : 1];
    side = side * c[0].size(i);
  }
  return f(c[0].reshape(flat), 1).reshape(c[0].shape());
}

Tensor hardmax(const Tensor& x, int64_t axis) {
  const Tensor places = along(positions(x.size(axis).value()), axis, x.ndim());
  return x.argmax(axis, true).eq(places).cast(x.dtype());
}

Tensor mean_of(const Call& c) {
  Tensor sum = c[0];
  for (size_t i = 1; i < c.size(); i++) sum = sum.add(c[i]);
  return sum.div(Tensor(static_cast<int64_t>(c.size()))).cast(c[0].dtype());
}

Tensor selu(const Call& c) {
  return c[0].selu(c.attr_real("alpha", 1.67326319217681884765625),
                   c.attr_real("gamma", 1.05070102214813232421875));
}

constexpr OpRow kRows[] = {
#define METHOD(name, kind, method) {#name, kind<&Tensor::method>},
#include "formats/onnx/elementwise_methods.def"
#undef METHOD
    {"Identity", [](const Call& c) { return c.value(0); }},
    {"IsInf", of<is_infinite>},
    {"Softplus", [](const Call& c) { return c[0].softplus(); }},
    {"Celu", [](const Call& c) { return c[0].celu(c.attr_real("alpha", 1)); }},
    {"Elu", [](const Call& c) { return c[0].elu(c.attr_real("alpha", 1)); }},
    {"Gelu", of<gelu>},
    {"HardSigmoid",
     [](const Call& c) { return c[0].hardsigmoid(c.attr_real("alpha", 0.2), c.attr_real("beta", 0.5)); }},
    {"LeakyRelu", [](const Call& c) { return c[0].leaky_relu(c.attr_real("alpha", 0.01)); }},
    {"PRelu", of<prelu>},
    {"Selu", of<selu>},
    {"Shrink", of<shrink>},
    {"Swish", [](const Call& c) { return c[0].mul(c[0].mul(c.attr_real("alpha", 1)).sigmoid()); }},
    {"ThresholdedRelu", [](const Call& c) { return c[0].gt(c.attr_real("alpha", 1)).where(c[0], 0); }},
    {"Softmax",
     [](const Call& c) {
       return over_axis(c, [](const Tensor& x, int64_t axis) { return x.softmax(axis); });
     }},
    {"LogSoftmax",
     [](const Call& c) {
       return over_axis(c, [](const Tensor& x, int64_t axis) { return x.log_softmax(axis); });
     }},
    {"Hardmax", [](const Call& c) { return over_axis(c, hardmax); }},
    {"BitShift", of<shift>},
    {"Div", of<divide>},
    {"Equal", of<equal>},
    {"Mean", of<mean_of>},
    {"Mod", of<modulo>},
    {"Pow", of<power>},
    {"Clip", of<clip>},
    {"Where", [](const Call& c) { return c[0].where(c[1], c[2]); }},
};

}  // namespace

std::span<const OpRow> elementwise_ops() { return kRows; }

}  // namespace lathe::onnx
