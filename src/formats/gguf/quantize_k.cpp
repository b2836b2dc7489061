// Types whose scales are quantised themselves, and those with the values of IQ4. Each group of a block gets
// the scale (and minimum) of least weighted error among some tries; then the scales are rounded and the codes
// found anew. The tries and weights are those of ggml's reference without an importance matrix.
#include "formats/gguf/block_writer.h"
#include "formats/gguf/grid_table.h"

#include <array>

namespace lathe {
namespace {

using In = std::span<const float>;
using Out = std::span<uint8_t>;
using Codes = std::span<uint8_t>;

constexpr size_t kElements = 256;
// Groups that are as good as zero.
constexpr float kTiny = 1e-15f;

// Sums of w·x·l and w·l·l; the best scale for codes l is their quotient, and `gain` what it explains of the
// squares.
struct Fit {
  float xl = 0, ll = 0;
  void add(float w, float x, float l) { xl += w * x * l, ll += w * l * l; }
  float scale() const { return ll > 0 ? xl / ll : 0; }
  float gain() const { return xl * scale(); }
};

// Of x with weights x², for codes in [-limit, limit - 1].
Fit fit_codes(In x, float inverse_scale, int limit) {
  Fit out;
  for (const float v : x)
    out.add(v * v, v, static_cast<float>(nearest(inverse_scale * v, -limit, limit - 1)));
  return out;
}

float symmetric_scale(In x) {
  constexpr int kLimit = 32;
  const float m = largest(x);
  if (std::fabs(m) < kTiny) return 0;
  Fit best = fit_codes(x, -kLimit / m, kLimit);
  for (int i = -9; i <= 9; i++) {
    const Fit fit = fit_codes(x, -(kLimit + 0.1f * static_cast<float>(i)) / m, kLimit);
    if (fit.gain() > best.gain()) best = fit;
  }
  return best.scale();
}

// Improves code after code, the others fixed.
float improved_scale(In x) {
  constexpr int kLimit = 4, kRounds = 5;
  const float m = largest(x);
  if (std::fabs(m) < kTiny) return 0;
  std::array<int, 16> codes;
  Fit fit;
  for (size_t i = 0; i < x.size(); i++) {
    codes[i] = nearest(-kLimit / m * x[i], -kLimit, kLimit - 1);
    fit.add(x[i] * x[i], x[i], static_cast<float>(codes[i]));
  }
  bool changed = true;
  for (int round = 0; changed && round < kRounds; round++) {
    changed = false;
    for (size_t i = 0; i < x.size(); i++) {
      const float w = x[i] * x[i];
      Fit other = fit;
      other.add(-w, x[i], static_cast<float>(codes[i]));
      if (other.xl <= 0) continue;
      const int code = nearest(x[i] * other.ll / other.xl, -kLimit, kLimit - 1);
      other.add(w, x[i], static_cast<float>(code));
      if (code == codes[i] || other.gain() <= fit.gain()) continue;
      codes[i] = code, fit = other, changed = true;
    }
  }
  return fit.scale();
}

// x is about scale·code - minimum, for codes up to `most` and a minimum that is not negative.
struct Affine {
  float scale = 0, minimum = 0;
};
struct AffineSearch {
  int most;
  float first, step;  // of what goes to `most` in the inverse scales that are tried
  int steps;
  bool is_absolute;    // errors count as they are, not squared
  bool weighs_by_rms;  // weights are the root mean square plus the magnitude, not the magnitude alone
};

// Up to 32 elements with their weights, and the codes that a scale gives them.
struct AffineGroup {
  In x;
  std::array<float, 32> weights, codes;

  void find_codes(float inverse_scale, float least, int most) {
    for (size_t i = 0; i < x.size(); i++)
      codes[i] = static_cast<float>(nearest(inverse_scale * (x[i] - least), 0, most));
  }
  float error(const Affine& a, bool is_absolute) const {
    float out = 0;
    for (size_t i = 0; i < x.size(); i++) {
      const float off = a.scale * codes[i] - a.minimum - x[i];
      out += weights[i] * (is_absolute ? std::fabs(off) : off * off);
    }
    return out;
  }
  // Scale and minimum of least squares.
  Affine solve() const {
    float w_ = 0, wx = 0, wl = 0, wll = 0, wxl = 0;
    for (size_t i = 0; i < x.size(); i++) {
      const float w = weights[i], l = codes[i];
      w_ += w, wx += w * x[i], wl += w * l, wll += w * l * l, wxl += w * l * x[i];
    }
    const float determinant = w_ * wll - wl * wl;
    if (!(determinant > 0)) return {};
    const float offset = (wll * wx - wl * wxl) / determinant;
    if (offset > 0) return {wxl / wll, 0};
    return {(w_ * wxl - wx * wl) / determinant, -offset};
  }
};

Affine affine_scale(In x, const AffineSearch& s) {
  AffineGroup group{x, {}, {}};
  float squares = 0;
  for (const float v : x) squares += v * v;
  const float rms = s.weighs_by_rms ? std::sqrt(squares / static_cast<float>(x.size())) : 0;
  for (size_t i = 0; i < x.size(); i++) group.weights[i] = rms + std::fabs(x[i]);

  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  float least = std::min(*low, 0.0f);
  if (inverse(*high - least) == 0) return {0, -least};
  const auto inverse_scale = [&](float most) { return most / (*high - least); };
  const auto most = static_cast<float>(s.most);
  Affine best{1 / inverse_scale(most), -least};
  group.find_codes(inverse_scale(most), least, s.most);
  float best_error = group.error(best, s.is_absolute);
  for (int i = 0; i <= s.steps; i++) {
    group.find_codes(inverse_scale(s.first + s.step * static_cast<float>(i) + most), least, s.most);
    const Affine a = group.solve();
    if (a.scale == 0) continue;
    const float error = group.error(a, s.is_absolute);
    if (error >= best_error) continue;
    best = a, best_error = error;
    least = -a.minimum;  // further tries start at it
  }
  return best;
}

// ---- scales, minima and codes of a superblock

// Scales and minima of all groups in whole numbers against the largest of them, which are stored as float16.
struct AffineGroups {
  std::array<int, 16> scales, minima;
  float d, dmin;
};
AffineGroups affine_groups(In x, size_t groups, int most, const AffineSearch& s, Out out, size_t at) {
  std::array<Affine, 16> found;
  float scale = 0, minimum = 0;
  for (size_t g = 0; g < groups; g++) {
    found[g] = affine_scale(x.subspan(g * kElements / groups, kElements / groups), s);
    scale = std::max(scale, found[g].scale), minimum = std::max(minimum, found[g].minimum);
  }
  AffineGroups result;
  const auto whole = [&](float v, float largest) {
    return nearest(static_cast<float>(most) * inverse(largest) * v, 0, most);
  };
  for (size_t g = 0; g < groups; g++)
    result.scales[g] = whole(found[g].scale, scale), result.minima[g] = whole(found[g].minimum, minimum);
  result.d = put_half(out, at, scale / static_cast<float>(most));
  result.dmin = put_half(out, at + 2, minimum / static_cast<float>(most));
  return result;
}

void codes_of(In x, size_t groups, const AffineGroups& a, int most, Codes codes) {
  for (size_t i = 0; i < kElements; i++) {
    const size_t g = i * groups / kElements;
    const float d = a.d * static_cast<float>(a.scales[g]), m = a.dmin * static_cast<float>(a.minima[g]);
    codes[i] = static_cast<uint8_t>(nearest(inverse(d) * (x[i] + m), 0, most));
  }
}

// Eight scales and eight minima of six bits in twelve bytes.
void put_six_bits(Out out, const AffineGroups& a) {
  for (size_t j = 0; j < 4; j++) {
    const int low_scale = a.scales[j], scale = a.scales[j + 4], low_minimum = a.minima[j],
              minimum = a.minima[j + 4];
    out[j] = static_cast<uint8_t>(low_scale | scale >> 4 << 6);
    out[j + 4] = static_cast<uint8_t>(low_minimum | minimum >> 4 << 6);
    out[j + 8] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
  }
}

void put_nibble_pairs(Out out, size_t at, Codes codes) {
  for (size_t i = 0; i < codes.size(); i += 64) put_nibbles(out, at + i / 2, codes.subspan(i, 64));
}
// Two bits a code, those of e, e + 32, e + 64 and e + 96 in one byte.
void put_two_bits(Out out, size_t at, Codes codes, int shift) {
  for (size_t i = 0; i < kElements; i++)
    put_bits(out, at + i / 128 * 32 + i % 32, codes[i] >> shift & 3, static_cast<int>(2 * (i % 128 / 32)));
}

void q4_k(In x, Out out) {
  constexpr AffineSearch kSearch{15, -1, 0.1f, 20, false, true};
  const AffineGroups a = affine_groups(x, 8, 63, kSearch, out, 0);
  std::array<uint8_t, kElements> codes;
  codes_of(x, 8, a, 15, codes);
  put_six_bits(out.subspan(4), a);
  put_nibble_pairs(out, 16, codes);
}

void q5_k(In x, Out out) {
  constexpr AffineSearch kSearch{31, -0.5f, 0.1f, 15, false, true};
  const AffineGroups a = affine_groups(x, 8, 63, kSearch, out, 0);
  std::array<uint8_t, kElements> codes;
  codes_of(x, 8, a, 31, codes);
  put_six_bits(out.subspan(4), a);
  for (size_t i = 0; i < kElements; i++) put_bits(out, 16 + i % 32, codes[i] >> 4, static_cast<int>(i / 32));
  put_nibble_pairs(out, 48, codes);
}

void q2_k(In x, Out out) {
  constexpr AffineSearch kSearch{3, -0.5f, 0.1f, 15, true, false};
  const AffineGroups a = affine_groups(x, 16, 15, kSearch, out, 80);
  std::array<uint8_t, kElements> codes;
  codes_of(x, 16, a, 3, codes);
  for (size_t g = 0; g < 16; g++) out[g] = static_cast<uint8_t>(a.scales[g] | a.minima[g] << 4);
  put_two_bits(out, 16, codes, 0);
}

// The scales of all groups in whole numbers from -limit on, of which that of the largest magnitude is
// -limit, and their float16 scale.
struct SymmetricGroups {
  std::array<int, 16> scales;
  float d;
};
SymmetricGroups symmetric_groups(In x, size_t groups, int limit, float (*scale_of)(In), Out out, size_t at) {
  std::array<float, 16> found;
  for (size_t g = 0; g < groups; g++)
    found[g] = scale_of(x.subspan(g * kElements / groups, kElements / groups));
  const float d = largest(std::span(found).first(groups)) / -static_cast<float>(limit);
  SymmetricGroups result{{}, std::fabs(d) * static_cast<float>(limit) < kTiny ? 0 : d};
  for (size_t g = 0; g < groups; g++)
    result.scales[g] = nearest(inverse(result.d) * found[g], -limit, limit - 1);
  result.d = put_half(out, at, result.d);
  return result;
}
// Codes from -limit on, as numbers from 0 on.
void codes_of(In x, const SymmetricGroups& s, int limit, Codes codes) {
  for (size_t i = 0; i < kElements; i++) {
    const float d = s.d * static_cast<float>(s.scales[i / 16]);
    codes[i] = static_cast<uint8_t>(nearest(inverse(d) * x[i], -limit, limit - 1) + limit);
  }
}

void q3_k(In x, Out out) {
  const SymmetricGroups s = symmetric_groups(x, 16, 32, improved_scale, out, 108);
  std::array<uint8_t, kElements> codes;
  codes_of(x, s, 4, codes);
  for (size_t g = 0; g < 16; g++) {
    const int scale = s.scales[g] + 32;
    put_bits(out, 96 + g % 8, scale & 15, static_cast<int>(4 * (g / 8)));
    put_bits(out, 104 + g % 4, scale >> 4, static_cast<int>(2 * (g / 4)));
  }
  for (size_t i = 0; i < kElements; i++) put_bits(out, i % 32, codes[i] >> 2, static_cast<int>(i / 32));
  put_two_bits(out, 32, codes, 0);
}

void q6_k(In x, Out out) {
  const SymmetricGroups s = symmetric_groups(x, 16, 128, symmetric_scale, out, 208);
  std::array<uint8_t, kElements> codes;
  codes_of(x, s, 32, codes);
  for (size_t g = 0; g < 16; g++) out[192 + g] = static_cast<uint8_t>(s.scales[g]);
  for (size_t i = 0; i < kElements; i += 128) put_nibbles(out, i / 2, Codes(codes).subspan(i, 128));
  put_two_bits(out, 128, codes, 4);
}

// ---- the values of IQ4

float nonlinear_scale(In x) {
  constexpr int kTries = 7;
  const float m = largest(x);
  if (std::fabs(m) < kTiny) return 0;
  const auto fit = [&](float inverse_scale) {
    Fit out;
    for (const float v : x) out.add(v * v, v, gguf_grids::kIq4[nearest_nonlinear(inverse_scale * v)]);
    return out;
  };
  Fit best = fit(-gguf_grids::kIq4[0] / m);
  // The first try has the largest element at the other end of the values.
  for (int i = -kTries; i <= kTries; i++) {
    const Fit other = fit(static_cast<float>(i + gguf_grids::kIq4[0]) / m);
    if (other.gain() > best.gain()) best = other;
  }
  return best.scale();
}
void nonlinear_codes(In x, float d, Codes codes) {
  for (size_t i = 0; i < x.size(); i++) codes[i] = static_cast<uint8_t>(nearest_nonlinear(inverse(d) * x[i]));
}

void iq4_nl(In x, Out out) {
  const float d = nonlinear_scale(x);
  put_half(out, 0, d);
  std::array<uint8_t, 32> codes;
  nonlinear_codes(x, d, codes);
  put_nibbles(out, 2, codes);
}

void iq4_xs(In x, Out out) {
  const SymmetricGroups s = symmetric_groups(x, 8, 32, nonlinear_scale, out, 0);
  for (size_t g = 0; g < 8; g++) {
    const int scale = s.scales[g] + 32;
    put_bits(out, 4 + g / 2, scale & 15, static_cast<int>(4 * (g % 2)));
    put_bits(out, 2 + g / 4, scale >> 4, static_cast<int>(2 * (g % 4)));
    std::array<uint8_t, 32> codes;
    nonlinear_codes(x.subspan(32 * g, 32), s.d * static_cast<float>(s.scales[g]), codes);
    put_nibbles(out, 8 + 16 * g, codes);
  }
}

struct Quantizer {
  GgmlType type;
  QuantizeBlock block;
};
constexpr Quantizer kQuantizers[] = {
    {GgmlType::Q2_K, q2_k}, {GgmlType::Q3_K, q3_k},     {GgmlType::Q4_K, q4_k},     {GgmlType::Q5_K, q5_k},
    {GgmlType::Q6_K, q6_k}, {GgmlType::IQ4_NL, iq4_nl}, {GgmlType::IQ4_XS, iq4_xs},
};

}  // namespace

QuantizeBlock quantize_superblock(GgmlType type) {
  for (const Quantizer& q : kQuantizers)
    if (q.type == type) return q.block;
  return nullptr;
}

}  // namespace lathe
