// Sampling images at computed positions, and boxes.
#include "formats/onnx/call.h"
#include "formats/onnx/window.h"

#include <algorithm>
#include <cmath>

namespace lathe::onnx {
namespace {

enum class Outside : uint8_t { Zeros, Border, Reflection };

// Back and forth between the ends of [low, high].
Tensor reflected(const Tensor& x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return x.mul(0.0).add(low);
  const Tensor from = x.sub(low).abs(), turns = from.div(span).floor();
  const Tensor rest = from.sub(turns.mul(span));
  const Tensor is_even = turns.sub(turns.div(2.0).floor().mul(2.0)).eq(0);
  return is_even.where(rest, Tensor(span).sub(rest)).add(low);
}

// Elements of x (batch, channel, size…) at whole positions, one tensor (batch, 1, n) for each axis.
Tensor pick(const Tensor& x, const std::vector<Tensor>& at, Outside outside, bool align) {
  const std::vector<int64_t> sizes = spatial_of(x);
  Tensor flat = Tensor::constant_of({}, 0, DType::Int64);
  std::optional<Tensor> inside;
  for (size_t i = 0; i < sizes.size(); i++) {
    const auto last = static_cast<double>(sizes[i] - 1);
    Tensor p = at[i];
    if (outside == Outside::Reflection) p = reflected(p, align ? 0 : -0.5, align ? last : last + 0.5);
    if (outside == Outside::Zeros) {
      const Tensor hit = p.ge(0.0).bitwise_and(p.le(last));
      inside = inside ? inside->bitwise_and(hit) : hit;
    }
    flat = flat.mul(sizes[i]).add(p.clamp(Tensor(0.0), Tensor(last)).round().cast(DType::Int64));
  }
  const Tensor values = x.flatten(2).gather(2, flat.expand({x.size(0), x.size(1), flat.size(-1)}));
  return inside ? inside->where(values, Tensor(0).cast(x.dtype())) : values;
}

Tensor cubic_weight(const Tensor& distance) {
  constexpr double a = -0.75;
  const Tensor x = distance.abs();
  const Tensor near = x.mul(a + 2).sub(a + 3).mul(x).mul(x).add(1.0);
  const Tensor far = x.mul(a).sub(5 * a).mul(x).add(8 * a).mul(x).sub(4 * a);
  return x.le(1.0).where(near, x.lt(2.0).where(far, Tensor(0.0)));
}

// x at positions between elements: the neighbours, weighted by the products of their weights along the axes,
// and their sum or their largest.
Tensor sample(const Tensor& x, const std::vector<Tensor>& positions, const std::string& mode, Outside outside,
              bool align, bool largest = false) {
  if (mode == "nearest") {
    std::vector<Tensor> at;
    for (const Tensor& p : positions) at.push_back(p.round());
    return pick(x, at, outside, align);
  }
  const bool is_cubic = mode == "cubic" || mode == "bicubic";
  const int64_t first = is_cubic ? -1 : 0, per_axis = is_cubic ? 4 : 2;
  int64_t n = 1;
  for (size_t i = 0; i < positions.size(); i++) n *= per_axis;
  std::optional<Tensor> out;
  for (int64_t k = 0; k < n; k++) {
    std::vector<Tensor> at;
    std::optional<Tensor> weight;
    for (int64_t rest = k; const Tensor& p : positions) {
      const Tensor neighbour = p.floor().add(static_cast<double>(rest % per_axis + first));
      const Tensor distance = p.sub(neighbour);
      const Tensor own = is_cubic ? cubic_weight(distance) : Tensor(1.0).sub(distance.abs());
      weight = weight ? weight->mul(own) : own;
      at.push_back(neighbour);
      rest /= per_axis;
    }
    const Tensor part = pick(x, at, outside, align).mul(*weight);
    out = !out ? part : largest ? out->maximum(part) : out->add(part);
  }
  return *out;
}

Tensor grid_sample(const Call& c) {
  const Tensor &x = c[0], &grid = c[1];
  const std::vector<int64_t> sizes = spatial_of(x);
  const bool align = c.attr_flag("align_corners");
  const std::string mode = c.attr_text("mode", "linear"), padding = c.attr_text("padding_mode", "zeros");
  const Outside outside = padding == "border"       ? Outside::Border
                          : padding == "reflection" ? Outside::Reflection
                                                    : Outside::Zeros;
  const bool by_element = mode == "cubic" || mode == "bicubic" || outside == Outside::Zeros;
  std::vector<Tensor> positions;
  for (size_t i = 0; i < sizes.size(); i++) {
    const auto size = static_cast<double>(sizes[i]);
    // The grid has the last axis first, in [-1, 1].
    const Tensor g =
        grid.at(ellipsis, static_cast<int64_t>(sizes.size() - 1 - i)).reshape({x.size(0), SInt(1), SInt(-1)});
    Tensor p = align ? g.add(1.0).mul((size - 1) / 2) : g.add(1.0).mul(size).sub(1.0).div(2.0);
    if (mode == "nearest") p = p.round();
    if (!by_element && outside == Outside::Reflection)
      p = reflected(p, align ? 0 : -0.5, align ? size - 1 : size - 0.5);
    if (!by_element) p = p.clamp(Tensor(0.0), Tensor(size - 1));
    positions.push_back(p);
  }
  Shape to{x.size(0), x.size(1)};
  to.append(grid.shape().begin() + 1, grid.shape().end() - 1);
  return sample(x, positions, mode, outside, align).reshape(to).cast(x.dtype());
}

Tensor affine_grid(const Call& c) {
  const std::vector<int64_t> size = c.integers(1);
  const size_t n = size.size() - 2;
  Shape grid{SInt(1)};
  for (size_t i = 0; i < n; i++) grid.push_back(SInt(size[2 + i]));
  std::vector<Tensor> coordinates;  // last axis first, then 1
  for (size_t i = n; i-- > 0;) {
    const int64_t count = size[2 + i];
    const bool align = c.attr_flag("align_corners");
    const double step = align ? 2.0 / static_cast<double>(count - 1) : 2.0 / static_cast<double>(count);
    const double start = align ? -1 : -1 + step / 2;
    const Tensor line = Tensor::arange(0, count).cast(DType::Float32).mul(step).add(start);
    coordinates.push_back(along(line, static_cast<int64_t>(i + 1), static_cast<int64_t>(n + 1)).expand(grid));
  }
  coordinates.push_back(Tensor::constant_of(grid, 1.0, DType::Float32));
  Shape to = grid;
  to[0] = c[0].size(0);
  to.push_back(SInt(static_cast<int64_t>(n)));
  const Tensor points =
      Tensor::stack(coordinates, -1).reshape({SInt(1), SInt(-1), SInt(static_cast<int64_t>(n + 1))});
  return points.cast(c[0].dtype()).matmul(c[0].transpose(-2, -1)).reshape(to);
}

// Convolution whose taps are moved by offsets (Dai et al. 2017), and weighted by a mask.
Tensor deform_conv(const Call& c) {
  const Tensor &x = c[0], &w = c[1], &offset = c[2];
  const Window window = window_of(c, spatial_of(x), spatial_of(w));
  const int64_t groups = c.attr_int("group", 1), offset_groups = c.attr_int("offset_group", 1);
  const int64_t kh = window.kernel.at(0), kw = window.kernel.at(1), taps = kh * kw;
  const SInt batch = x.size(0), oh = offset.size(2), ow = offset.size(3), places = oh * ow;
  const Tensor moved = offset.reshape({batch, SInt(offset_groups), SInt(taps), SInt(2), oh, ow});
  const auto base = [&](int64_t axis) {  // (taps, oh, ow)
    const auto i = static_cast<size_t>(axis);
    const Tensor tap =
        axis == 0 ? Tensor::arange(0, taps).div_floor(Tensor(kw)) : Tensor::arange(0, taps).mod(Tensor(kw));
    const Tensor place = Tensor::arange(0, (axis == 0 ? oh : ow).value());
    return tap.mul(window.dilation[i])
        .reshape({SInt(taps), SInt(1), SInt(1)})
        .add(place.mul(window.stride[i])
                 .sub(window.before[i])
                 .reshape(axis == 0 ? Shape{oh, SInt(1)} : Shape{ow}))
        .cast(x.dtype());
  };
  std::vector<Tensor> columns;  // (batch, channels of the group, taps, places)
  const int64_t channels = x.size(1).value() / offset_groups;
  for (int64_t g = 0; g < offset_groups; g++) {
    std::vector<Tensor> positions;
    for (int64_t axis : {0, 1})
      positions.push_back(
          moved.at(Slice{}, g, Slice{}, axis).add(base(axis)).reshape({batch, SInt(1), SInt(-1)}));
    const Tensor part = x.at(Slice{}, Slice{g * channels, (g + 1) * channels});
    Tensor values = sample(part, positions, "linear", Outside::Zeros, true);
    if (c.has(4))
      values = values.mul(c[4].reshape({batch, SInt(offset_groups), SInt(-1)}).at(Slice{}, Slice{g, g + 1}));
    columns.push_back(values.reshape({batch, SInt(channels), SInt(taps), places}));
  }
  const Tensor all = Tensor::cat(columns, 1).reshape({batch, SInt(groups), SInt(-1), places});
  const Tensor y = w.reshape({SInt(1), SInt(groups), SInt(w.size(0).value() / groups), SInt(-1)}).matmul(all);
  const Tensor out = y.reshape({batch, w.size(0), oh, ow});
  return c.has(3) ? out.add(c[3].reshape({w.size(0), SInt(1), SInt(1)})) : out;
}

// How many samples a bin has along an axis, and where they lie.
struct Bins {
  int64_t samples;
  std::vector<float> positions;
};
Bins bins_of(double start, double length, int64_t bins, int64_t ratio, int64_t size) {
  const double bin = length / static_cast<double>(bins);
  if (!(std::abs(bin) < 1e6)) value_error("a region of length {} in {} bins", length, bins);
  Bins out{ratio > 0 ? ratio : std::max<int64_t>(1, static_cast<int64_t>(std::ceil(bin))), {}};
  for (int64_t i = 0; i < bins * out.samples; i++) {
    const double at = start + bin * (static_cast<double>(i) + 0.5) / static_cast<double>(out.samples);
    // Outside by more than one element there is nothing: such a sample is put where weights are zero.
    out.positions.push_back(static_cast<float>(at < -1 || at > static_cast<double>(size)
                                                   ? -4.0
                                                   : std::clamp(at, 0.0, static_cast<double>(size - 1))));
  }
  return out;
}

// (He et al. 2017, section 3). Every region is read on the host: it decides how many samples there are.
Tensor roi_align(const Call& c) {
  const Tensor& x = c[0];
  const std::vector<double> regions = c.reals(1);
  const std::vector<int64_t> batch = c.integers(2);
  const int64_t oh = c.attr_int("output_height", 1), ow = c.attr_int("output_width", 1);
  const int64_t ratio = c.attr_int("sampling_ratio", 0);
  const double scale = c.attr_real("spatial_scale", 1);
  const bool half =
      c.opset() >= 16 && c.attr_text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool is_max = c.attr_text("mode", "avg") == "max";
  std::vector<Tensor> out;
  for (size_t r = 0; r < batch.size(); r++) {
    const double shift = half ? 0.5 : 0;
    const auto edge = [&](size_t i) { return regions.at(4 * r + i) * scale - shift; };
    const auto length = [&](size_t i) {
      return half ? edge(i + 2) - edge(i) : std::max(edge(i + 2) - edge(i), 1.0);
    };
    const Bins rows = bins_of(edge(1), length(1), oh, ratio, x.size(2).value());
    const Bins columns = bins_of(edge(0), length(0), ow, ratio, x.size(3).value());
    const SInt h(static_cast<int64_t>(rows.positions.size())),
        w(static_cast<int64_t>(columns.positions.size()));
    const Tensor py =
        Tensor::from(rows.positions).reshape({SInt(1), SInt(1), h, SInt(1)}).expand({SInt(1), SInt(1), h, w});
    const Tensor px = Tensor::from(columns.positions)
                          .reshape({SInt(1), SInt(1), SInt(1), w})
                          .expand({SInt(1), SInt(1), h, w});
    const Tensor image = x.at(Slice{batch[r], batch[r] + 1});
    const std::vector<Tensor> at{py.flatten(2), px.flatten(2)};
    // The largest of a bin is that of the weighted neighbours, not of their sums.
    const Tensor values = sample(image, at, "linear", Outside::Zeros, true, is_max);
    const Tensor split =
        values.reshape({x.size(1), SInt(oh), SInt(rows.samples), SInt(ow), SInt(columns.samples)});
    out.push_back(is_max ? split.max({2, 4}) : split.mean({2, 4}));
  }
  return out.empty() ? Tensor::constant_of({SInt(0), x.size(1), SInt(oh), SInt(ow)}, 0, x.dtype())
                     : Tensor::stack(out);
}

// The largest element of every bin of a region (Girshick 2015, section 2.1); bins overlap by parts of
// elements.
Tensor max_roi_pool(const Call& c) {
  const Tensor& x = c[0];
  const std::vector<double> regions = c.reals(1);  // batch, x1, y1, x2, y2 each
  const std::vector<int64_t> pooled = c.attr_ints("pooled_shape");
  const double scale = c.attr_real("spatial_scale", 1);
  if (pooled.size() != 2) value_error("pooled_shape has {} sizes", pooled.size());
  // Which elements of an axis (bins, size) each bin has.
  const auto members = [&](double from, double to, int64_t bins, int64_t size) {
    const double start = std::round(from * scale), length = std::max(std::round(to * scale) - start + 1, 1.0);
    const Tensor bin = Tensor::arange(bins).cast(DType::Float64).mul(length / static_cast<double>(bins)),
                 first = bin.floor().add(start).unsqueeze(-1),
                 end = bin.add(length / static_cast<double>(bins)).ceil().add(start).unsqueeze(-1),
                 at = Tensor::arange(size).cast(DType::Float64);
    return at.ge(first).bitwise_and(at.lt(end));
  };
  std::vector<Tensor> out;
  for (size_t r = 0; r + 4 < regions.size(); r += 5) {
    const Tensor rows = members(regions[r + 2], regions[r + 4], pooled[0], x.size(2).value()),
                 columns = members(regions[r + 1], regions[r + 3], pooled[1], x.size(3).value());
    const Tensor inside =
                     rows.unsqueeze(1).unsqueeze(-1).bitwise_and(columns.unsqueeze(1)),  // (bins, size) twice
        image = x.at(static_cast<int64_t>(regions[r])).unsqueeze(1).unsqueeze(1);
    const Tensor largest = inside.where(image, Tensor(min_value(x.dtype()), x.dtype())).max({3, 4});
    out.push_back(inside.any({2, 3}).where(largest, Tensor(0).cast(x.dtype())));
  }
  return out.empty()
             ? Tensor::constant_of({SInt(0), x.size(1), SInt(pooled[0]), SInt(pooled[1])}, 0, x.dtype())
             : Tensor::stack(out);
}

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

float overlap(const Box& a, const Box& b) {
  const float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
              w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  return h * w / (a.area() + b.area() - h * w);
}

// Of boxes that overlap, the one with the best score: the result's length depends on the values.
Tensor non_max_suppression(const Call& c) {
  const std::vector<float> corners = numbers<float>(c[0]), scores = numbers<float>(c[1]);
  const auto n = static_cast<size_t>(c[0].size(1).value()),
             classes = static_cast<size_t>(c[1].size(1).value());
  if (!(c[0].shape() == Shape{c[1].size(0), c[1].size(2), SInt(4)}))
    value_error("boxes {} and scores {} do not go together", c.value(0).to_string(), c.value(1).to_string());
  const int64_t limit = c.integer(2, 0);
  const double most = c.real(3, 0), least = c.real(4, -std::numeric_limits<double>::infinity());
  const bool centred = c.attr_flag("center_point_box");
  const auto box = [&](size_t i) -> Box {
    const float* p = corners.data() + 4 * i;
    if (centred) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
    return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
  };
  std::vector<int64_t> out;
  for (size_t b = 0; b < static_cast<size_t>(c[0].size(0).value()); b++)
    for (size_t k = 0; k < classes; k++) {
      const float* score = scores.data() + (b * classes + k) * n;
      std::vector<size_t> order;
      for (size_t i = 0; i < n; i++)
        if (!c.has(4) || static_cast<double>(score[i]) > least) order.push_back(i);
      std::ranges::sort(
          order, [&](size_t i, size_t j) { return score[i] != score[j] ? score[i] > score[j] : i < j; });
      std::vector<Box> kept;
      for (size_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= limit) break;
        const Box own = box(b * n + i);
        if (std::ranges::any_of(
                kept, [&](const Box& other) { return static_cast<double>(overlap(own, other)) > most; }))
          continue;
        kept.push_back(own);
        for (size_t v : {b, k, i}) out.push_back(static_cast<int64_t>(v));
      }
    }
  return Tensor::from(out, {SInt(static_cast<int64_t>(out.size() / 3)), SInt(3)});
}

constexpr OpRow kRows[] = {
    {"AffineGrid", of<affine_grid>},
    {"DeformConv", of<deform_conv>},
    {"GridSample", of<grid_sample>},
    {"GridSample", of<grid_sample>, kMicrosoft},
    OpRow{"MaxRoiPool", of<max_roi_pool>}.by_values(),
    OpRow{"NonMaxSuppression", of<non_max_suppression>}.by_values(),
    OpRow{"RoiAlign", of<roi_align>}.by_values(),
};

}  // namespace

std::span<const OpRow> sample_ops() { return kRows; }

}  // namespace lathe::onnx
