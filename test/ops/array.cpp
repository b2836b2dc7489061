#include "ops/array.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace lathe::ops {

int64_t count(const Index& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Array::Array(Index shape_, std::vector<double> data_) : shape(std::move(shape_)), data(std::move(data_)) {
  CHECK(count(shape) == size(), "{} values for shape {}", size(), to_string(shape));
}

double Array::operator()(const Index& index) const {
  CHECK(index.size() == shape.size(), "index {} of shape {}", to_string(index), to_string(shape));
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); i++) {
    CHECK(index[i] >= 0 && index[i] < shape[i], "index {} of shape {}", to_string(index), to_string(shape));
    offset = offset * shape[i] + index[i];
  }
  return data[static_cast<size_t>(offset)];
}

void for_each(const Index& shape, const std::function<void(const Index&)>& f) {
  if (count(shape) == 0) return;
  Index i(shape.size(), 0);
  for (;;) {
    f(i);
    size_t axis = shape.size();
    while (axis > 0 && ++i[axis - 1] == shape[axis - 1]) i[--axis] = 0;
    if (axis == 0) return;
  }
}

Array build(const Index& shape, const std::function<double(const Index&)>& f) {
  Array out;
  out.shape = shape;
  for_each(shape, [&](const Index& i) { out.data.push_back(f(i)); });
  return out;
}

Array scalar(double v) { return {{}, {v}}; }

Array map(const Array& a, const std::function<double(double)>& f) {
  Array out = a;
  for (double& v : out.data) v = f(v);
  return out;
}

namespace {

Index common_shape(const Index& a, const Index& b) {
  Index out(std::max(a.size(), b.size()), 1);
  for (const Index* s : {&a, &b})
    for (size_t i = 0; i < s->size(); i++) {
      int64_t& d = out[out.size() - s->size() + i];
      CHECK(d == 1 || (*s)[i] == 1 || d == (*s)[i], "shapes {} and {}", to_string(a), to_string(b));
      if (d == 1) d = (*s)[i];
    }
  return out;
}

}  // namespace

Array broadcast(const Array& a, const Index& shape) {
  const size_t lead = shape.size() - a.shape.size();
  return build(shape, [&](const Index& i) {
    Index own(i.begin() + static_cast<std::ptrdiff_t>(lead), i.end());
    for (size_t k = 0; k < own.size(); k++)
      if (a.shape[k] == 1) own[k] = 0;
    return a(own);
  });
}

Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  const Index shape = common_shape(a.shape, b.shape);
  Array out = broadcast(a, shape);
  const Array other = broadcast(b, shape);
  for (size_t i = 0; i < out.data.size(); i++) out.data[i] = f(out.data[i], other.data[i]);
  return out;
}

Array map(const Array& a, const Array& b, const Array& c,
          const std::function<double(double, double, double)>& f) {
  const Index shape = common_shape(common_shape(a.shape, b.shape), c.shape);
  Array out = broadcast(a, shape);
  const Array second = broadcast(b, shape), third = broadcast(c, shape);
  for (size_t i = 0; i < out.data.size(); i++) out.data[i] = f(out.data[i], second.data[i], third.data[i]);
  return out;
}

Array reshape(const Array& a, const Index& shape) { return {shape, a.data}; }

Array permute(const Array& a, const std::vector<int>& order) {
  Index shape;
  for (int axis : order) shape.push_back(a.shape[static_cast<size_t>(axis)]);
  return build(shape, [&](const Index& i) {
    Index from(i.size());
    for (size_t k = 0; k < i.size(); k++) from[static_cast<size_t>(order[k])] = i[k];
    return a(from);
  });
}

Array fold(const Array& a, const std::vector<int>& axes, const std::function<double(const Values&)>& f,
           bool keepdim) {
  const auto is_folded = [&](size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
  };
  Index kept, group, shape;
  for (size_t i = 0; i < a.shape.size(); i++) {
    kept.push_back(is_folded(i) ? 1 : a.shape[i]);
    group.push_back(is_folded(i) ? a.shape[i] : 1);
    if (keepdim || !is_folded(i)) shape.push_back(kept.back());
  }
  return reshape(build(kept,
                       [&](const Index& i) {
                         Values values;
                         for_each(group, [&](const Index& k) {
                           Index at = i;
                           for (size_t axis = 0; axis < at.size(); axis++) at[axis] += k[axis];
                           values.push_back(a(at));
                         });
                         return f(values);
                       }),
                 shape);
}

Array along(const Array& a, int axis, const std::function<Values(const Values&)>& f) {
  if (a.ndim() == 0) return {{}, f(a.data)};
  const size_t dim = static_cast<size_t>(axis < 0 ? axis + a.ndim() : axis);
  int64_t stride = 1;
  for (size_t i = dim + 1; i < a.shape.size(); i++) stride *= a.shape[i];
  Array out = a;
  Index starts = a.shape;
  starts[dim] = 1;
  for_each(starts, [&](const Index& i) {
    int64_t offset = 0;
    for (size_t k = 0; k < i.size(); k++) offset = offset * a.shape[k] + i[k];
    Values line;
    for (int64_t k = 0; k < a.shape[dim]; k++)
      line.push_back(a.data[static_cast<size_t>(offset + k * stride)]);
    line = f(line);
    for (size_t k = 0; k < line.size(); k++)
      out.data[static_cast<size_t>(offset + static_cast<int64_t>(k) * stride)] = line[k];
  });
  return out;
}

double sum(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double mean(const Values& v) { return sum(v) / static_cast<double>(v.size()); }

namespace {

// sign, exponent, mantissa; the formats differ in what the largest codes mean.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;  // the largest exponent holds infinity and NaNs
  bool fnuz;          // one NaN in the place of -0, bias one larger
  bool saturates;     // conversions beyond the largest value give the largest value
};

Format format_of(DType d) {
  switch (d) {
    case DType::Fp8E4M3: return {4, 3, 7, false, false, true};
    case DType::Fp8E4M3Fnuz: return {4, 3, 8, false, true, true};
    case DType::Fp8E5M2: return {5, 2, 15, true, false, true};
    case DType::Fp8E5M2Fnuz: return {5, 2, 16, false, true, true};
    case DType::Float16: return {5, 10, 15, true, false, false};
    default: return {8, 7, 127, true, false, false};
  }
}

double small_float(uint64_t code, const Format& f) {
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const uint64_t sign_bit = uint64_t{1} << (width - 1), magnitude = code & (sign_bit - 1);
  const double sign = code & sign_bit ? -1 : 1;
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits), top = (1 << f.exponent_bits) - 1;
  const double mantissa =
      std::ldexp(static_cast<double>(magnitude & ((uint64_t{1} << f.mantissa_bits) - 1)), -f.mantissa_bits);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.fnuz && code == sign_bit) return nan;
  if (f.has_infinity && exponent == top)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : nan;
  if (!f.has_infinity && !f.fnuz && magnitude == sign_bit - 1) return nan;
  return exponent == 0 ? sign * std::ldexp(mantissa, 1 - f.bias)
                       : sign * std::ldexp(1 + mantissa, exponent - f.bias);
}

// Finite non-negative values, ascending; the code is the position.
const std::vector<double>& magnitudes(DType d) {
  static std::map<DType, std::vector<double>> all;
  std::vector<double>& out = all[d];
  const Format f = format_of(d);
  for (uint64_t code = out.size(); code < uint64_t{1} << (f.exponent_bits + f.mantissa_bits); code++) {
    const double v = small_float(code, f);
    if (!std::isfinite(v)) break;
    out.push_back(v);
  }
  return out;
}

uint64_t to_small_float(double v, DType d) {
  const Format f = format_of(d);
  const uint64_t sign_bit = uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
  const uint64_t sign = std::signbit(v) ? sign_bit : 0;
  const std::vector<double>& known = magnitudes(d);
  const uint64_t largest = known.size() - 1;
  if (std::isnan(v) || (std::isinf(v) && !f.has_infinity)) return f.fnuz ? sign_bit : sign | (sign_bit - 1);
  if (std::isinf(v)) return sign | (largest + 1);
  const double x = std::abs(v);
  const auto above = std::lower_bound(known.begin(), known.end(), x);
  uint64_t code = static_cast<uint64_t>(above - known.begin());
  if (above == known.end()) {
    // Half a step beyond the largest value is where rounding leaves the range.
    const double step = known[largest] - known[largest - 1];
    code = f.saturates || x < known[largest] + step / 2 ? largest : largest + 1;
  } else if (*above != x) {
    const double up = *above - x, down = x - known[code - 1];
    if (down < up || (down == up && (code & 1))) code--;
  }
  if (f.fnuz && code == 0) return 0;
  return sign | code;
}

}  // namespace

uint64_t to_code(double v, DType d) {
  if (is_bool(d)) return v != 0;
  if (is_int(d)) {
    // As a double, the largest uint64 is 2^64.
    if (d == DType::UInt64 && v == 0x1p64) return ~uint64_t{0};
    const auto whole = static_cast<__int128>(std::isfinite(v) ? std::trunc(v) : 0);
    const uint64_t bits = static_cast<uint64_t>(whole);
    return bit_width(d) == 64 ? bits : bits & ((uint64_t{1} << bit_width(d)) - 1);
  }
  if (d == DType::Float64) return std::bit_cast<uint64_t>(v);
  if (d == DType::Float32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  // Conversions to bfloat16 go through float32.
  return to_small_float(d == DType::BFloat16 ? static_cast<float>(v) : v, d);
}

double from_code(uint64_t code, DType d) {
  if (is_bool(d)) return code != 0;
  if (is_unsigned(d)) return static_cast<double>(code);
  if (is_int(d)) {
    const int unused = 64 - bit_width(d);
    return static_cast<double>(static_cast<int64_t>(code << unused) >> unused);
  }
  if (d == DType::Float64) return std::bit_cast<double>(code);
  if (d == DType::Float32) return std::bit_cast<float>(static_cast<uint32_t>(code));
  return small_float(code, format_of(d));
}

double epsilon(DType d) {
  if (!is_float(d)) return 0;
  if (d == DType::Float64) return std::ldexp(1, -52);
  if (d == DType::Float32) return std::ldexp(1, -23);
  return std::ldexp(1, -format_of(d).mantissa_bits);
}

std::string to_string(const Index& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); i++) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + ")";
}

}  // namespace lathe::ops
