#include "ops/inputs.h"

#include "base/error.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lathe::ops {

Random::Random(std::string_view seed) : state_(14695981039346656037u) {
  for (char c : seed) state_ = (state_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
}

uint64_t Random::bits() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

namespace {

// `n` of the numbers 0 … among - 1, all different if there are enough.
std::vector<int64_t> draw_positions(int64_t n, int64_t among, Random& random) {
  std::vector<int64_t> out;
  if (n > among) {
    for (int64_t i = 0; i < n; i++) out.push_back(random.below(among));
    return out;
  }
  std::vector<int64_t> left(static_cast<size_t>(among));
  std::iota(left.begin(), left.end(), int64_t{0});
  for (int64_t i = 0; i < n; i++) {
    std::swap(left[static_cast<size_t>(i)], left[static_cast<size_t>(i + random.below(among - i))]);
    out.push_back(left[static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace

Array draw(const Input& input, DType dtype, Random& random) {
  Array out{input.shape,
            input.values.empty() ? Values(static_cast<size_t>(count(input.shape))) : input.values};
  if (input.values.empty() && (input.whole || !is_float(dtype))) {
    const double low = is_unsigned(dtype) || is_bool(dtype) ? std::max(0.0, input.low) : input.low;
    const auto span = static_cast<int64_t>((is_bool(dtype) ? 1 : input.high) - low) + 1;
    for (double& v : out.data) v = low + static_cast<double>(random.below(span));
  } else if (input.values.empty()) {
    double step = 1.0 / 16;
    while ((input.high - input.low) / step < static_cast<double>(out.size()) && step > 1e-5) step /= 2;
    const auto steps = static_cast<int64_t>((input.high - input.low) / step);
    const std::vector<int64_t> at = draw_positions(out.size(), steps, random);
    for (size_t i = 0; i < at.size(); i++)
      out.data[i] = input.low + (static_cast<double>(at[i]) + 0.5) * step;
  }
  for (double& v : out.data) v = rounded(v, dtype);
  return out;
}

Array draw_weights(const Index& shape, Random& random) {
  return build(shape, [&](const Index&) { return static_cast<double>(random.below(33) - 16) / 16; });
}

namespace {

Tensor stored(const Array& a, DType dtype) {
  const size_t width = static_cast<size_t>(item_size(dtype));
  std::vector<std::byte> bytes(a.data.size() * width);
  for (size_t i = 0; i < a.data.size(); i++) {
    const uint64_t code = to_code(a.data[i], dtype);
    std::memcpy(&bytes[i * width], &code, width);  // little-endian
  }
  Shape shape;
  for (int64_t d : a.shape) shape.push_back(SInt(d));
  return Tensor::from_bytes(bytes, shape, dtype);
}

Tensor as_permuted(const Array& a, DType dtype) {
  std::vector<int> order(a.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  Ints back;
  for (int axis : order) back.push_back(axis);
  return stored(permute(a, order), dtype).permute(back);
}

// Between elements lies what no one may look at.
double junk(DType dtype) { return is_float(dtype) ? std::numeric_limits<double>::quiet_NaN() : 77; }

Tensor as_strided(const Array& a, DType dtype) {
  Array wide{a.shape, a.data};
  wide.shape.push_back(2);
  wide.data.clear();
  for (double v : a.data) wide.data.insert(wide.data.end(), {junk(dtype), v});
  const Tensor t = stored(wide, dtype);
  AxisPairs second(wide.shape.size(), none);
  second.back() = {1, 2};
  return t.shrink(second).squeeze(-1);
}

Tensor as_padded(const Array& a, DType dtype) {
  Index around = a.shape;
  AxisPairs bounds;
  for (int64_t& d : around) {
    bounds.emplace_back(SInt(1), SInt(d + 1));
    d += 3;
  }
  const Array wide = build(around, [&](const Index& i) {
    Index own = i;
    for (size_t k = 0; k < own.size(); k++)
      if (--own[k] < 0 || own[k] >= a.shape[k]) return junk(dtype);
    return a(own);
  });
  return stored(wide, dtype).shrink(bounds);
}

Tensor as_flipped(const Array& a, DType dtype) {
  Ints axes;
  for (int64_t i = 0; i < a.ndim(); i++) axes.push_back(i);
  const Array turned = build(a.shape, [&](const Index& i) {
    Index own = i;
    for (size_t k = 0; k < own.size(); k++) own[k] = a.shape[k] - 1 - own[k];
    return a(own);
  });
  return stored(turned, dtype).flip(axes);
}

// An expression, so that the op fuses with what makes its input.
Tensor as_computed(const Array& a, DType dtype) {
  if (is_bool(dtype)) return stored(map(a, [](double v) { return v == 0; }), dtype).logical_not();
  if (is_float(dtype)) return stored(map(a, [](double v) { return v / 2; }), dtype).mul(2);
  return stored(map(a, [](double v) { return v - 1; }), dtype).add(1);
}

}  // namespace

Tensor upload(const Array& a, DType dtype, Layout layout) {
  const bool is_empty = a.size() == 0;
  if (layout == Layout::Computed && !is_empty) return as_computed(a, dtype);
  if (a.ndim() == 0 || is_empty) return stored(a, dtype);
  switch (layout) {
    case Layout::Permuted: return as_permuted(a, dtype);
    case Layout::Strided: return as_strided(a, dtype);
    case Layout::Padded: return as_padded(a, dtype);
    case Layout::Flipped: return as_flipped(a, dtype);
    default: return stored(a, dtype);
  }
}

Array download(const Tensor& t) {
  Array out;
  for (const SInt& d : t.shape()) out.shape.push_back(d.value());
  const DType dtype = strong(t.dtype());
  const size_t width = static_cast<size_t>(item_size(dtype));
  const std::vector<std::byte> bytes = t.bytes();
  CHECK(bytes.size() == static_cast<size_t>(count(out.shape)) * width, "{} bytes", bytes.size());
  for (size_t at = 0; at < bytes.size(); at += width) {
    uint64_t code = 0;
    std::memcpy(&code, &bytes[at], width);
    out.data.push_back(from_code(code, dtype));
  }
  return out;
}

std::string_view layout_name(Layout layout) {
  static constexpr std::string_view kNames[kNumLayouts] = {"plain",  "permuted", "strided",
                                                           "padded", "flipped",  "computed"};
  return kNames[static_cast<int>(layout)];
}

}  // namespace lathe::ops
