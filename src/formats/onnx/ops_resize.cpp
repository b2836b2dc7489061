// Resizing: along one axis after the other, every element of the result is a weighted sum of a few
// neighbours.
#include "formats/onnx/call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe::onnx {
namespace {

struct Resizing {
  std::string mode, transform, nearest;
  double cubic = -0.75;
  bool antialias = false, exclude_outside = false;
  double extrapolation = 0;
};

// One axis: the sizes, the exact scale, and the part of the axis that tf_crop_and_resize looks at.
struct Stretch {
  int64_t from, to;
  double scale, first = 0, last = 1;
};

// Where an element of the result lies on the axis it comes from.
double source_position(const Resizing& r, const Stretch& s, double x) {
  const double width = s.scale * static_cast<double>(s.from), end = static_cast<double>(s.from - 1);
  if (r.transform == "align_corners") return width == 1 ? 0 : x * end / (width - 1);
  if (r.transform == "asymmetric") return x / s.scale;
  if (r.transform == "tf_crop_and_resize")
    return s.first * end +
           (width == 1 ? (s.last - s.first) * end / 2 : x * (s.last - s.first) * end / (width - 1));
  if (r.transform == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half = (x + 0.5) / s.scale - 0.5;
  if (r.transform != "half_pixel_symmetric") return half;
  return half + static_cast<double>(s.from) / 2 * (1 - static_cast<double>(s.to) / width);
}

// Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981) with parameter a.
double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights of the neighbours from `reach` - 1 before the one at or below the position; `at` in (0, 1] is the
// distance from that one.
std::vector<double> neighbour_weights(const Resizing& r, double scale, double at) {
  if (r.mode == "nearest") {
    const bool lower = at < 1 && (r.nearest == "floor" || (r.nearest == "round_prefer_floor" && at <= 0.5) ||
                                  (r.nearest == "round_prefer_ceil" && at < 0.5));
    return {lower ? 1.0 : 0.0, lower ? 0.0 : 1.0};
  }
  // Shrinking with antialias widens the kernel to cover what falls between the samples.
  const double narrow = r.antialias ? std::min(scale, 1.0) : 1.0;
  const int64_t support = r.mode == "cubic" ? 2 : 1;
  const auto first = static_cast<int64_t>(std::floor(-static_cast<double>(support) / narrow)) + 1;
  std::vector<double> out;
  double sum = 0;
  for (int64_t i = first; i < 2 - first; i++) {
    const double x = narrow * (static_cast<double>(i) - at);
    out.push_back(r.mode == "cubic" ? cubic_weight(x, r.cubic) : std::max(0.0, 1 - std::abs(x)));
    sum += out.back();
  }
  for (double& w : out) w /= sum;
  return out;
}

// positions[k][i] and weights[k][i]: the k-th neighbour of element i.
struct Taps {
  std::vector<std::vector<int64_t>> positions;
  std::vector<std::vector<float>> weights;
  std::vector<bool> outside;
};

Taps taps_of(const Resizing& r, const Stretch& s) {
  Taps out;
  for (int64_t i = 0; i < s.to; i++) {
    const double x = source_position(r, s, static_cast<double>(i));
    out.outside.push_back(r.transform == "tf_crop_and_resize" &&
                          (x < 0 || x > static_cast<double>(s.from - 1)));
    const double below = std::ceil(x) - 1;
    std::vector<double> weights = neighbour_weights(r, s.scale, x - below);
    const auto n = static_cast<int64_t>(weights.size());
    const int64_t first = static_cast<int64_t>(below) - n / 2 + 1;
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
      if (r.exclude_outside && (first + k < 0 || first + k >= s.from)) weights[static_cast<size_t>(k)] = 0;
      sum += weights[static_cast<size_t>(k)];
    }
    out.positions.resize(weights.size());
    out.weights.resize(weights.size());
    for (size_t k = 0; k < weights.size(); k++) {
      out.positions[k].push_back(std::clamp<int64_t>(first + static_cast<int64_t>(k), 0, s.from - 1));
      out.weights[k].push_back(static_cast<float>(weights[k] / (r.exclude_outside ? sum : 1)));
    }
  }
  return out;
}

Tensor stretched(const Tensor& x, int64_t axis, const Resizing& r, const Stretch& s) {
  if (s.from < 1 || s.to < 1) value_error("axis {} cannot go from {} elements to {}", axis, s.from, s.to);
  const Taps taps = taps_of(r, s);
  std::optional<Tensor> out;
  if (r.mode == "nearest") {
    std::vector<int64_t> at;
    for (size_t i = 0; i < taps.outside.size(); i++)
      at.push_back(taps.positions[taps.weights[0][i] > 0 ? 0 : 1][i]);
    out = picked(x, axis, Tensor::from(at));
  }
  for (size_t k = 0; r.mode != "nearest" && k < taps.positions.size(); k++) {
    const Tensor part = picked(x, axis, Tensor::from(taps.positions[k]))
                            .mul(along(Tensor::from(taps.weights[k]), axis, x.ndim()));
    out = out ? out->add(part) : part;
  }
  if (std::ranges::none_of(taps.outside, [](bool o) { return o; })) return *out;
  return along(Tensor::from(taps.outside), axis, x.ndim()).where(Tensor(r.extrapolation), *out);
}

// Sizes and scales of the axes that change, from whichever of the two is given.
std::vector<Stretch> stretches(const Call& c, const std::vector<int64_t>& axes,
                               const std::vector<double>& scales, const std::vector<int64_t>& sizes) {
  std::vector<Stretch> out;
  for (size_t i = 0; i < axes.size(); i++) {
    const int64_t from = c[0].size(axes[i]).value();
    const auto width = static_cast<double>(from);
    const double scale = sizes.empty() ? scales.at(i) : static_cast<double>(sizes.at(i)) / width;
    if (!(scale > 0 && scale < 1e6)) value_error("axis {} is scaled by {}", axes[i], scale);
    out.push_back({from, sizes.empty() ? static_cast<int64_t>(std::floor(width * scale)) : sizes[i], scale});
  }
  const std::string policy = c.attr_text("keep_aspect_ratio_policy", "stretch");
  if (sizes.empty() || policy == "stretch" || out.empty()) return out;
  double scale = out[0].scale;
  for (const Stretch& s : out)
    scale = policy == "not_larger" ? std::min(scale, s.scale) : std::max(scale, s.scale);
  for (Stretch& s : out) {
    s.scale = scale;
    s.to = static_cast<int64_t>(std::floor(scale * static_cast<double>(s.from) + 0.5));
  }
  return out;
}

Tensor resized(const Call& c, const Resizing& r, const std::vector<double>& scales,
               const std::vector<int64_t>& sizes, const std::vector<double>& region) {
  std::vector<int64_t> axes = c.attr_ints("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(c[0].ndim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& a : axes) a = Call::axis(a, c[0].ndim());
  std::vector<Stretch> all = stretches(c, axes, scales, sizes);
  Tensor x = r.mode == "nearest" || is_float(c[0].dtype()) ? c[0] : c[0].cast(DType::Float32);
  for (size_t i = 0; i < axes.size(); i++) {
    if (r.transform == "tf_crop_and_resize") {
      all[i].first = region.at(i);
      all[i].last = region.at(axes.size() + i);
    } else if (all[i].scale == 1 && all[i].from == all[i].to) {
      continue;
    }
    x = stretched(x, axes[i], r, all[i]);
  }
  return x.cast(c[0].dtype());
}

Tensor resize(const Call& c) {
  Resizing r{c.attr_text("mode", "nearest"), c.attr_text("coordinate_transformation_mode", "half_pixel"),
             c.attr_text("nearest_mode", "round_prefer_floor")};
  // Opset 10 had the scales as second input, and one way to compute positions.
  if (c.opset() < 11) {
    r.transform = "asymmetric";
    r.nearest = "floor";
    return resized(c, r, c.reals(1), {}, {});
  }
  r.cubic = c.attr_real("cubic_coeff_a", -0.75);
  r.antialias = c.attr_flag("antialias");
  r.exclude_outside = c.attr_flag("exclude_outside");
  r.extrapolation = c.attr_real("extrapolation_value", 0);
  const std::vector<int64_t> sizes = c.integers(3, {});
  return resized(c, r, sizes.empty() ? c.reals(2) : std::vector<double>(), sizes,
                 c.has(1) ? c.reals(1) : std::vector<double>());
}

Tensor upsample(const Call& c) {
  const Resizing r{c.attr_text("mode", "nearest"), "asymmetric", "floor"};
  std::vector<double> scales;
  if (c.has(1)) scales = c.reals(1);
  for (float s : c.attr_reals("scales")) scales.push_back(s);
  return resized(c, r, scales, {}, {});
}

constexpr OpRow kRows[] = {
    {"Resize", of<resize>},
    {"Upsample", of<upsample>},
};

}  // namespace

std::span<const OpRow> resize_ops() { return kRows; }

}  // namespace lathe::onnx
