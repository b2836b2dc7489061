// Fourier transforms, windows and random numbers.
#include "formats/onnx/call.h"

#include <cmath>
#include <functional>
#include <numbers>

namespace lathe::onnx {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// table[n][k] = f(n, k), computed in double.
Tensor table(int64_t rows, int64_t columns, DType d, const std::function<double(int64_t, int64_t)>& f) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(rows * columns));
  for (int64_t n = 0; n < rows; n++)
    for (int64_t k = 0; k < columns; k++) out.push_back(f(n, k));
  return Tensor::from(out, {SInt(rows), SInt(columns)}).cast(d);
}

struct Complex {
  Tensor real;
  std::optional<Tensor> imaginary;
};

// cos and sin of n k / length turns; the product is reduced first, so that large ones lose nothing.
Complex turns(int64_t rows, int64_t columns, int64_t length, DType d) {
  const auto angle = [length](int64_t n, int64_t k) {
    return kTurn * static_cast<double>(n * k % length) / static_cast<double>(length);
  };
  return {table(rows, columns, d, [&](int64_t n, int64_t k) { return std::cos(angle(n, k)); }),
          table(rows, columns, d, [&](int64_t n, int64_t k) { return std::sin(angle(n, k)); })};
}

// The last axis of x, cut or filled with zeros to `length`, to its spectrum; the parts stand in a new last
// axis.
Tensor transformed(Complex x, int64_t length, bool one_sided, bool inverse) {
  const auto fit = [&](const Tensor& t, int64_t n) {
    Shape to = t.shape();
    to.back() = SInt(n);
    return (t.size(-1).value() > n ? t.shrink_to(to) : t.pad_to(to));
  };
  const DType d = x.real.dtype();
  if (inverse && one_sided) {
    // The other half of the spectrum of a real signal mirrors this one: all but its ends count twice.
    const int64_t bins = length / 2 + 1;
    const Complex w = turns(bins, length, length, d);
    const Tensor weight = table(bins, 1, d, [&](int64_t k, int64_t) {
      return (k == 0 || 2 * k == length ? 1.0 : 2.0) / static_cast<double>(length);
    });
    Tensor y = fit(x.real, bins).matmul(w.real.mul(weight));
    if (x.imaginary) y = y.sub(fit(*x.imaginary, bins).matmul(w.imaginary->mul(weight)));
    return y.unsqueeze(-1);
  }
  const Complex w = turns(length, one_sided ? length / 2 + 1 : length, length, d);
  const Tensor sine = inverse ? *w.imaginary : w.imaginary->neg();
  const Tensor r = fit(x.real, length);
  Tensor real = r.matmul(w.real), imaginary = r.matmul(sine);
  if (x.imaginary) {
    const Tensor i = fit(*x.imaginary, length);
    real = real.sub(i.matmul(sine));
    imaginary = imaginary.add(i.matmul(w.real));
  }
  const Tensor y = Tensor::stack({real, imaginary}, -1);
  return inverse ? y.div(static_cast<double>(length)) : y;
}

// x with one or two parts in the last axis.
Complex parts_of(const Tensor& x) {
  Complex out{x.at(ellipsis, 0), std::nullopt};
  if (x.size(-1) == SInt(2)) out.imaginary = x.at(ellipsis, 1);
  return out;
}

Tensor dft(const Call& c) {
  // The axis is an input from opset 20 on.
  const int64_t rank = c[0].ndim();
  const int64_t axis = Call::axis(c.opset() >= 20 ? c.integer(2, -2) : c.attr_int("axis", 1), rank);
  const bool inverse = c.attr_flag("inverse"), one_sided = c.attr_flag("onesided");
  Complex x = parts_of(c[0]);
  x.real = x.real.transpose(axis, -1);
  if (x.imaginary) x.imaginary = x.imaginary->transpose(axis, -1);
  const int64_t size = c[0].size(axis).value();
  const int64_t length = c.integer(1, inverse && one_sided ? 2 * (size - 1) : size);
  if (length < 1) value_error("a transform of length {}", length);
  return transformed(x, length, one_sided, inverse).transpose(axis, -2);
}

Tensor stft(const Call& c) {
  const int64_t step = c.integer(1);
  const int64_t length = c.has(3) ? c.integer(3) : c[2].size(0).value();
  if (step < 1 || length < 1) value_error("frames of {} every {}", length, step);
  Complex x = parts_of(c[0]);  // (batch, samples)
  const auto frames = [&](const Tensor& t) {
    const Tensor f = t.unfold(1, length, step);
    return c.has(2) ? f.mul(c[2]) : f;
  };
  x.real = frames(x.real);
  if (x.imaginary) x.imaginary = frames(*x.imaginary);
  return transformed(x, length, c.attr_flag("onesided", true), false);
}

// a - b cos(t) + c cos(2t) over one turn.
Tensor window(const Call& c, double a, double b, double d) {
  const int64_t size = c.integer(0);
  const double turn = kTurn / static_cast<double>(c.attr_flag("periodic", true) ? size : size - 1);
  std::vector<double> out;
  for (int64_t i = 0; i < size; i++) {
    const double t = turn * static_cast<double>(i);
    out.push_back(a - b * std::cos(t) + d * std::cos(2 * t));
  }
  return Tensor::from(out).cast(c.attr_dtype("output_datatype", DType::Float32));
}

// Triangles between points that are evenly spaced in mel.
Tensor mel_weight_matrix(const Call& c) {
  const int64_t bands = c.integer(0), length = c.integer(1), rate = c.integer(2), bins = length / 2 + 1;
  if (bands < 1 || length < 1 || rate < 1)
    value_error("{} bands of a transform of length {} at {} samples a second", bands, length, rate);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(c.real(3)), step = (mel(c.real(4)) - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> at;
  for (int64_t i = 0; i < bands + 2; i++) {
    const double hertz = 700 * (std::pow(10, (low + step * static_cast<double>(i)) / 2595) - 1);
    at.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  const auto weight = [&](int64_t bin, int64_t band) {
    const auto i = static_cast<size_t>(band);
    const int64_t first = at[i], top = at[i + 1], last = at[i + 2];
    if (bin >= top && bin < last) return static_cast<double>(last - bin) / static_cast<double>(last - top);
    if (bin == top && first == top) return 1.0;
    if (bin < first || bin > top) return 0.0;
    return static_cast<double>(bin - first) / static_cast<double>(top - first);
  };
  return table(bins, bands, c.attr_dtype("output_datatype", DType::Float32), weight);
}

// ---- random numbers: the seed is that of the process

Shape random_shape(const Call& c) { return c.size() ? c[0].shape() : to_shape(c.attr_ints("shape")); }

Tensor drawn(const Call& c, const Tensor& x) {
  return x.cast(c.attr_dtype("dtype", c.size() ? c[0].dtype() : DType::Float32)).realize();
}
Tensor random_uniform(const Call& c) {
  return drawn(c, Tensor::uniform(random_shape(c), c.attr_real("low", 0), c.attr_real("high", 1)));
}
Tensor random_normal(const Call& c) {
  return drawn(c, Tensor::normal(random_shape(c), c.attr_real("mean", 0), c.attr_real("scale", 1)));
}
Tensor bernoulli(const Call& c) { return drawn(c, Tensor::rand(c[0].shape()).lt(c[0].cast(DType::Float32))); }

Tensor multinomial(const Call& c) {
  return c[0]
      .cast(DType::Float32)
      .softmax(-1)
      .multinomial(c.attr_int("sample_size", 1), true)
      .cast(c.attr_dtype("dtype", DType::Int32))
      .realize();
}

constexpr OpRow kRows[] = {
    OpRow{"Bernoulli", of<bernoulli>}.random(),
    {"BlackmanWindow", [](const Call& c) { return window(c, 0.42, 0.5, 0.08); }},
    {"DFT", of<dft>},
    {"HammingWindow", [](const Call& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }},
    {"HannWindow", [](const Call& c) { return window(c, 0.5, 0.5, 0); }},
    {"MelWeightMatrix", of<mel_weight_matrix>},
    OpRow{"Multinomial", of<multinomial>}.random(),
    OpRow{"RandomNormal", of<random_normal>}.random(),
    OpRow{"RandomNormalLike", of<random_normal>}.random(),
    OpRow{"RandomUniform", of<random_uniform>}.random(),
    OpRow{"RandomUniformLike", of<random_uniform>}.random(),
    {"STFT", of<stft>},
};

}  // namespace

std::span<const OpRow> signal_ops() { return kRows; }

}  // namespace lathe::onnx
