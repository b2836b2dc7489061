// Errors of compiled elementwise functions over the numbers of a type, in units in the last place of the
// exact result.
#pragma once
#include "base/thread_pool.h"
#include "tensor/tensor.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace lathe::test {

using Wide = long double;

struct Function {
  std::string name;
  Tensor (*compute)(const Tensor&);
  double (*quick)(double);  // exact to far less than a place of float32
  Wide (*exact)(Wide);
  double first = 0, last = std::numeric_limits<float>::infinity();  // of |x|, for float32
  double limit32 = 0, limit64 = 0;  // units in the last place; 0 is not measured
  bool by_argument = false;         // in places of |x| instead of the result
};

struct Accuracy {
  double worst = 0, at = 0, sum = 0;
  uint64_t n = 0;
  void see(double error, double x) {
    if (error > worst) worst = error, at = x;
    sum += std::min(error, 1e6);
    n++;
  }
  void merge(const Accuracy& o) {
    if (o.worst > worst) worst = o.worst, at = o.at;
    sum += o.sum, n += o.n;
  }
  double mean() const { return n ? sum / static_cast<double>(n) : 0; }
};

constexpr double kWrong = 1e30;

struct Places {
  int mantissa, least;  // stored bits; exponent of the least normal number
  Wide largest;
};
inline Places places_of(DType d) {
  switch (d) {
    case DType::Float16: return {10, -14, 65504};
    case DType::BFloat16: return {7, -126, 0x1.fep127L};
    case DType::Float32: return {23, -126, 0x1.fffffep127L};
    default: return {52, -1022, std::numeric_limits<double>::max()};
  }
}

// |got - exact| in places of `of`. Beyond the largest number an exact result counts as infinite.
inline double ulp_error(double got, Wide exact, Wide of, DType d) {
  const Places p = places_of(d);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  // From half a place beyond it rounding goes to infinity.
  if (std::fabs(exact) >= p.largest * (1 + std::ldexp(1.0L, -p.mantissa - 2)))
    exact = std::copysign(std::numeric_limits<Wide>::infinity(), exact);
  if (std::isinf(exact) || std::isinf(got)) {
    if (static_cast<Wide>(got) == exact) return 0;
    // Next to the border either is less than a place away.
    const Wide finite = std::isinf(got) ? exact : static_cast<Wide>(got);
    return std::fabs(finite) >= p.largest * 0.9999L && std::isfinite(finite) ? 1 : kWrong;
  }
  const int e = of == 0 ? p.least : std::max(std::ilogb(of), p.least);
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - exact) * std::ldexp(1.0L, p.mantissa - e));
}
inline double error_of(const Function& f, double x, double got, DType d) {
  const Wide exact = f.exact(x);
  return ulp_error(got, exact, f.by_argument ? x : exact, d);
}

// The same for float32 by a result in double, and fast; -1 where that cannot tell.
inline double quick_error32(float got, double exact, double of) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : -1;
  if (std::fabs(exact) > 0x1.fffffp127) return std::isinf(got) && std::signbit(got) == (exact < 0) ? 0 : -1;
  const int e = std::max(static_cast<int>(std::bit_cast<uint64_t>(of) >> 52 & 0x7ff) - 1023, -126);
  const double places = std::bit_cast<double>(static_cast<uint64_t>(23 - e + 1023) << 52);
  return std::fabs(static_cast<double>(got) - exact) * places;
}

// The numbers whose bit patterns are first, first + step, …, `n` of them, on all threads.
inline Accuracy measure32(const Function& f, uint32_t first, uint32_t step, size_t n) {
  std::vector<float> in(n);
  for (size_t i = 0; i < n; i++) in[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * step));
  const std::vector<float> out = f.compute(Tensor::from(in)).to_vector<float>();
  constexpr int kParts = 8;
  std::vector<Accuracy> parts(kParts);
  thread_pool().run(kParts, [&](int part) {
    Accuracy a;
    for (size_t i = n * static_cast<size_t>(part) / kParts; i < n * static_cast<size_t>(part + 1) / kParts;
         i++) {
      const auto x = static_cast<double>(in[i]), size = std::fabs(x);
      if (!(size >= f.first && size <= f.last) && !std::isnan(x)) continue;
      const double near = f.quick(x);
      double error = quick_error32(out[i], near, f.by_argument ? x : near);
      if (error < 0 || error > a.worst) error = error_of(f, x, static_cast<double>(out[i]), DType::Float32);
      a.see(error, x);
    }
    parts[static_cast<size_t>(part)] = a;
  });
  Accuracy all;
  for (const Accuracy& a : parts) all.merge(a);
  return all;
}

// Every `step`th bit pattern of float32; 1 is all of them.
inline Accuracy sweep32(const Function& f, uint32_t step) {
  Accuracy all;
  constexpr uint64_t kChunk = 1 << 20, kAll = uint64_t{1} << 32;
  for (uint64_t first = 0; first < kAll; first += kChunk * step) {
    // A last chunk that is not full repeats numbers from the start.
    all.merge(measure32(f, static_cast<uint32_t>(first), step, kChunk));
  }
  return all;
}

// Numbers that a sweep with a step may miss: next to whole numbers, powers of two and multiples of pi/2.
inline std::vector<double> corners() {
  std::vector<double> v{0.0, -0.0, std::numeric_limits<double>::infinity(), std::nan("")};
  for (int e = -149; e < 128; e++) v.push_back(std::ldexp(1.0, e));
  for (int i = 1; i < 300; i++)
    v.push_back(i), v.push_back(i * 0.5 * std::numbers::pi), v.push_back(i / 64.0);
  const size_t n = v.size();
  for (size_t i = 0; i < n; i++) {
    const auto x = static_cast<float>(v[i]);
    for (const float y : {std::nextafter(x, 0.0f), x, std::nextafter(x, 1e38f)})
      v.push_back(static_cast<double>(y)), v.push_back(static_cast<double>(-y));
  }
  return v;
}

inline Accuracy measure(const Function& f, const std::vector<double>& in, DType d) {
  const std::vector<double> x = Tensor::from(in).cast(d).to_vector<double>();
  const std::vector<double> out =
      f.compute(Tensor::from(in).cast(d)).cast(DType::Float64).to_vector<double>();
  Accuracy a;
  for (size_t i = 0; i < in.size(); i++)
    if ((std::fabs(x[i]) >= f.first && std::fabs(x[i]) <= f.last) || std::isnan(x[i]))
      a.see(error_of(f, x[i], out[i], d), x[i]);
  return a;
}

inline Accuracy all_codes(const Function& f, DType d) {
  std::vector<double> in;
  for (uint64_t code = 0; code < 65536; code++) in.push_back(decode_float(code, d));
  return measure(f, in, d);
}

// Numbers of float64 spread over the exponents.
inline Accuracy sample64(const Function& f, size_t n) {
  std::vector<double> in;
  std::mt19937_64 random(3);
  for (size_t i = 0; i < n; i++) {
    const double x = std::bit_cast<double>(random());
    int exponent = 0;
    const double significand = std::frexp(x, &exponent);
    in.push_back(i % 4 ? std::ldexp(significand, static_cast<int>(random() % 20) - 9) : x);
  }
  return measure(f, in, DType::Float64);
}

inline void print_row(const std::string& name, std::string_view type, const Accuracy& a) {
  std::printf("| %-10s | %-8s | %8.4g | %-15.9g | %7.4f | %11llu |\n", name.c_str(),
              std::string(type).c_str(), a.worst, a.at, a.mean(), static_cast<unsigned long long>(a.n));
  std::fflush(stdout);
}

template <class T>
T sigmoid_exact(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T gelu_exact(T x) {
  return x / 2 * std::erfc(-x / std::sqrt(T{2}));
}
// x/2 * (1 + tanh(y)) is x / (1 + exp(-2y)), without cancellation.
template <class T>
T gelu_tanh_exact(T x) {
  const T y = std::sqrt(2 / std::numbers::pi_v<T>) * (x + T{0.044715L} * x * x * x);
  return x / (1 + std::exp(-2 * y));
}

// The functions of docs/accuracy.md with the limits it states.
inline std::vector<Function> functions() {
  using T = const Tensor&;
  const double inf = std::numeric_limits<double>::infinity();
  const auto row = [&](const char* name, Tensor (*f)(T), double (*quick)(double), Wide (*exact)(Wide),
                       double limit32, double limit64 = 0) {
    return Function{name, f, quick, exact, 0, inf, limit32, limit64, false};
  };
#define LATHE_ROW(name, ...)                                                      \
  row(                                                                            \
      #name, [](T x) { return x.name(); }, [](double x) { return std::name(x); }, \
      [](Wide x) { return std::name(x); }, __VA_ARGS__)
  std::vector<Function> all{
      LATHE_ROW(exp2, 1.05, 1.2),
      LATHE_ROW(log2, 1.2, 2),
      LATHE_ROW(sin, 1.5, 3),
      LATHE_ROW(cos, 1.5, 3),
      LATHE_ROW(sqrt, 0.5, 0.5),
      LATHE_ROW(exp, 1.2, 1.5),
      LATHE_ROW(log, 2.5, 3),
      row(
          "sigmoid", [](T x) { return x.sigmoid(); }, sigmoid_exact<double>, sigmoid_exact<Wide>, 3, 3),
      LATHE_ROW(tanh, 2, 2.5),
      LATHE_ROW(erf, 2),
      LATHE_ROW(log1p, 3, 4),
      LATHE_ROW(asin, 3, 3),
      LATHE_ROW(acos, 3, 3),
      LATHE_ROW(atan, 4, 4),
      LATHE_ROW(sinh, 4, 4),
      LATHE_ROW(cosh, 4, 4),
      LATHE_ROW(asinh, 4, 4),
      LATHE_ROW(acosh, 4, 4),
      LATHE_ROW(atanh, 4, 4),
      row(
          "gelu", [](T x) { return x.gelu("none"); }, gelu_exact<double>, gelu_exact<Wide>, 2),
      row("gelu tanh", [](T x) { return x.gelu(); }, gelu_tanh_exact<double>, gelu_tanh_exact<Wide>, 2, 2)};
#undef LATHE_ROW
  // Of -inf it is 0 * inf; for negative x the places are those of x, since 1 + erf(x) loses digits.
  for (Function& f : all)
    if (f.name.starts_with("gelu")) f.last = 1e30, f.by_argument = true;
  return all;
}

// pow for n positive bases with exponents for which the result is a number.
inline Accuracy sample_pow(size_t n, DType d) {
  const bool single = d == DType::Float32;
  std::vector<double> base, exponent;
  std::mt19937_64 random(5);
  while (base.size() < n) {
    const uint64_t bits = random();
    const double b = decode_float(single ? bits % 0x7f800000 : bits % 0x7ff0000000000000, d);
    const double least = single ? -150 : -1075, largest = single ? 129 : 1025;
    const double power = static_cast<double>(random() >> 11) * 0x1p-53 * (largest - least) + least;
    const double y = round_float(power / std::log2(b), d);
    if (b > 0 && std::isfinite(y)) base.push_back(b), exponent.push_back(y);
  }
  const std::vector<double> out =
      Tensor::from(base).cast(d).pow(Tensor::from(exponent).cast(d)).cast(DType::Float64).to_vector<double>();
  Accuracy a;
  for (size_t i = 0; i < n; i++) {
    const Wide exact = std::pow(static_cast<Wide>(base[i]), static_cast<Wide>(exponent[i]));
    a.see(ulp_error(out[i], exact, exact, d), base[i]);
  }
  return a;
}

}  // namespace lathe::test
