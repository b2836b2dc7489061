// Sliding windows: convolution and pooling over any number of spatial axes.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

Ints one_per_axis(const char* name, const Ints& v, size_t n) {
  if (v.size() == n) return v;
  if (v.size() != 1)
    value_error("{} must be a number or a sequence of length {}, got {}", name, n, to_text(v));
  return Ints(std::vector<int64_t>(n, v[0]));
}

// Flat padding, last axis first, from the forms that conv and pool take.
Ints flat_padding(const Ints& padding, size_t n) {
  if (padding.size() == 2 * n) return padding;
  if (padding.size() == 1) return Ints(std::vector<int64_t>(2 * n, padding[0]));
  if (padding.size() != n)
    value_error("Padding must be an int or a sequence of length {} or {}, but got {}", n, 2 * n,
                to_text(padding));
  Ints flat;
  for (size_t i = n; i-- > 0;) {
    flat.push_back(padding[i]);
    flat.push_back(padding[i]);
  }
  return flat;
}

// One axis of a pool.
struct Window {
  int64_t size, kernel, stride, dilation;
  int64_t count() const { return (size - dilation * (kernel - 1) + stride - 1) / stride; }
};

std::vector<Window> windows(const Shape& shape, const Ints& kernel, const Ints& stride,
                            const Ints& dilation) {
  const size_t n = kernel.size(), lead = shape.size() - n;
  if (shape.size() < n)
    value_error("kernel {} has more axes than shape {}", to_text(kernel), to_string(shape));
  const Ints s = one_per_axis("stride", stride, n), d = one_per_axis("dilation", dilation, n);
  std::vector<Window> out;
  for (size_t i = 0; i < n; i++) {
    const Window w{shape[lead + i].value(), kernel[i], s[i], d[i]};
    if (w.kernel <= 0 || w.stride <= 0 || w.dilation <= 0)
      value_error("kernel, stride and dilation must be positive, got {}, {} and {}", w.kernel, w.stride,
                  w.dilation);
    if (w.dilation * (w.kernel - 1) + 1 > w.size)
      value_error("kernel size cannot be greater than actual input size: kernel {} with dilation {} over {}",
                  w.kernel, w.dilation, w.size);
    out.push_back(w);
  }
  return out;
}

}  // namespace

Tensor Tensor::pool(const Ints& kernel, const Ints& stride, const Ints& dilation) const {
  const std::vector<Window> axes = windows(shape(), kernel, stride, dilation);
  const size_t lead = shape().size() - axes.size();
  const Shape kept(shape().begin(), shape().begin() + lead);
  const auto with_axes = [&](auto... sizes) {
    Shape out = kept;
    for (const Window& w : axes) (out.push_back(SInt(sizes(w))), ...);
    return out;
  };
  const auto kernel_of = [](const Window& w) { return w.kernel; };
  const auto count_of = [](const Window& w) { return w.count(); };
  const auto stride_of = [](const Window& w) { return w.stride; };
  const auto one = [](const Window&) { return int64_t{1}; };
  const bool overlap =
      std::ranges::any_of(axes, [](const Window& w) { return w.kernel > w.stride || w.dilation != 1; });

  Tensor x = *this;
  if (overlap) {
    // Copies of the axis, end to end, cut into rows one dilation longer than a copy: row k starts k dilations
    // in. The rows are made of `factor` copies where the stride asks for more elements than one has.
    const auto row = [](const Window& w) {
      const bool short_row = w.count() * w.stride > w.size - w.dilation * (w.kernel - 1);
      return w.size * (1 + short_row) + w.dilation;
    };
    // What the last row lacks is behind its windows unless it has several copies.
    const auto copies_of = [&](const Window& w) {
      return row(w) > w.size + w.dilation ? (w.kernel * row(w) + w.size - 1) / w.size : w.kernel;
    };
    Ints copies(std::vector<int64_t>(lead, 1));
    for (const Window& w : axes) copies.push_back(copies_of(w));
    const auto all_rows = [&](const Window& w) { return w.kernel * row(w); };
    x = x.repeat(copies).shrink_to(
        with_axes([&](const Window& w) { return std::min(all_rows(w), copies_of(w) * w.size); }));
    x = x.pad_to(with_axes(all_rows)).reshape(with_axes(kernel_of, row));
    x = x.shrink_to(with_axes(kernel_of, [](const Window& w) { return w.count() * w.stride; }));
    x = x.reshape(with_axes(kernel_of, count_of, stride_of)).shrink_to(with_axes(kernel_of, count_of, one));
    x = x.reshape(with_axes(kernel_of, count_of));
  } else {
    // Windows are disjoint: cut into strides, keep the head of each.
    const auto span = [](const Window& w) { return w.count() * w.stride; };
    Shape enough = kept, cut = kept;
    for (const Window& w : axes) {
      enough.push_back(SInt(std::max(w.size, span(w))));
      cut.push_back(SInt(span(w)));
    }
    x = x.pad_to(enough)
            .shrink_to(cut)
            .reshape(with_axes(count_of, stride_of))
            .shrink_to(with_axes(count_of, kernel_of));
  }
  Ints order;
  for (size_t i = 0; i < lead; i++) order.push_back(static_cast<int64_t>(i));
  for (int side : {overlap ? 1 : 0, overlap ? 0 : 1})
    for (size_t i = 0; i < axes.size(); i++) order.push_back(static_cast<int64_t>(lead + 2 * i) + side);
  return x.permute(order);
}

Tensor Tensor::pool_pads(const Ints& pads, const Scalar& value) const {
  return pad(Padding(pads), PadMode::Constant, value);
}

namespace {

// Padding at the end grows so that windows which the stride leaves incomplete are counted, except those that
// would start in the padding. (Dumoulin and Visin, A guide to convolution arithmetic, relationship 15.)
Ints ceil_padding(const Ints& pads, const Shape& shape, const Ints& kernel, const Ints& stride,
                  const Ints& dilation) {
  const size_t n = kernel.size();
  Ints out = pads;
  for (size_t i = 0; i < n; i++) {
    const int64_t size = shape[shape.size() - n + i].value(), s = stride[i],
                  reach = dilation[i] * (kernel[i] - 1) + 1;
    int64_t &after = out[2 * (n - 1 - i) + 1], before = out[2 * (n - 1 - i)];
    const int64_t total = size + before + after;
    const int64_t count = (total - reach + s - 1) / s + 1;
    after += s * (count - 1) + reach - total - std::max<int64_t>(s * (count - 1) - (before + size - 1), 0);
  }
  return out;
}

Axes last_axes(size_t n) {
  Ints axes;
  for (size_t i = n; i > 0; i--) axes.push_back(-static_cast<int64_t>(i));
  return axes;
}

struct PoolPlan {
  Ints stride, dilation, pads, ceil_pads;
  PoolPlan(const Shape& shape, const Ints& kernel, const PoolOptions& o)
      : stride(one_per_axis("stride", o.stride.value_or(kernel), kernel.size())),
        dilation(one_per_axis("dilation", o.dilation, kernel.size())),
        pads(flat_padding(o.padding, kernel.size())),
        ceil_pads(o.ceil_mode ? ceil_padding(pads, shape, kernel, stride, dilation) : pads) {}
};

}  // namespace

Tensor Tensor::avg_pool2d(const Ints& kernel, const PoolOptions& options) const {
  const PoolPlan plan(shape(), kernel, options);
  const Axes axes = last_axes(kernel.size());
  const auto windows_of = [&](const Tensor& x, const Ints& pads) {
    return x.pool_pads(pads, 0).pool(kernel, plan.stride, plan.dilation);
  };
  const Tensor ones = constant_of(shape(), 1, strong(dtype()));
  if (!options.count_include_pad)
    return windows_of(*this, plan.ceil_pads).sum(axes).div(windows_of(ones, plan.ceil_pads).sum(axes));
  if (!options.ceil_mode) return windows_of(*this, plan.pads).mean(axes);
  // What ceil mode adds beyond the padding asked for does not count.
  Ints extra = plan.ceil_pads;
  for (size_t i = 0; i < extra.size(); i++) extra[i] -= plan.pads[i];
  const Tensor padded_ones = constant_of(pool_pads(plan.pads, 0).shape(), 1, strong(dtype()));
  return windows_of(*this, plan.ceil_pads).sum(axes).div(windows_of(padded_ones, extra).sum(axes));
}

Tensor Tensor::max_pool2d(const Ints& kernel, const PoolOptions& options) const {
  const PoolPlan plan(shape(), kernel, options);
  return pool_pads(plan.ceil_pads, min_value(strong(dtype())))
      .pool(kernel, plan.stride, plan.dilation)
      .max(last_axes(kernel.size()));
}

ValuesAndIndices Tensor::max_pool2d_with_indices(const Ints& kernel, const PoolOptions& options) const {
  const PoolPlan plan(shape(), kernel, options);
  const size_t n = kernel.size(), lead = shape().size() - n;
  const Tensor windows =
      pool_pads(plan.ceil_pads, min_value(strong(dtype()))).pool(kernel, plan.stride, plan.dilation);
  // Where the elements of the windows come from, and whether that is padding.
  Tensor at = 0, inside = true;
  for (size_t i = 0; i < n; i++) {
    Shape along(2 * n, SInt(1));
    along[i] = windows.shape()[lead + i];
    along[n + i] = kernel[i];
    const int64_t size = shape()[lead + i].value(), before = plan.ceil_pads[2 * (n - 1 - i)];
    const Tensor start = arange(along[i].value()).mul(plan.stride[i]).sub(before).unsqueeze(-1);
    const Tensor position = start.add(arange(kernel[i]).mul(plan.dilation[i])).reshape(along);
    at = at.mul(size).add(position);
    inside = inside.bitwise_and(position.ge(0)).bitwise_and(position.lt(size));
  }
  // Positions count down, so that the largest one among the maxima is the first.
  const Axes axes = last_axes(n);
  const Tensor values = windows.max(axes, true), is_max = windows.eq(values).bitwise_and(inside);
  int64_t positions = 1;
  for (size_t i = 0; i < n; i++) positions *= shape()[lead + i].value();
  const Tensor last = is_max.where(Tensor(positions).sub(at), 0).max(axes);
  return {values.reshape(last.shape()), Tensor(positions).sub(last).to_int()};
}

Tensor Tensor::max_unpool2d(const Tensor& indices, const Ints& kernel, const PoolOptions& options,
                            const std::optional<Ints>& output_size) const {
  const PoolPlan plan(shape(), kernel, options);
  const size_t n = kernel.size(), lead = shape().size() - n;
  if (!(indices.shape() == shape()))
    value_error("indices of shape {} for values of shape {}", lathe::to_string(indices.shape()),
                lathe::to_string(shape()));
  if (output_size && output_size->size() != n)
    value_error("output_size must have length {}, got {}", n, to_text(*output_size));
  Shape out(shape().begin(), shape().begin() + static_cast<std::ptrdiff_t>(lead));
  const Shape rows{lathe::prod(out), SInt(1), SInt(-1)};
  SInt positions = 1;
  for (size_t i = 0; i < n; i++) {
    const int64_t pads = plan.pads[2 * (n - 1 - i)] + plan.pads[2 * (n - 1 - i) + 1];
    const SInt smallest = (shape()[lead + i] - SInt(1)) * SInt(plan.stride[i]) +
                          SInt(plan.dilation[i] * (kernel[i] - 1) + 1 - pads);
    out.push_back(output_size ? SInt((*output_size)[i]) : smallest);
    positions = positions * out.back();
  }
  const Tensor hit = indices.reshape(rows).eq(arange(positions.value()).unsqueeze(-1));
  return hit.where(reshape(rows), Tensor(weak_literal(0, dtype()))).sum(-1).cast(dtype()).reshape(out);
}

Tensor Tensor::conv2d(const Tensor& weight, const std::optional<Tensor>& bias,
                      const ConvOptions& options) const {
  if (ndim() < 3 || ndim() != weight.ndim() || !(size(1) == weight.size(1) * SInt(options.groups)))
    value_error("Input Tensor shape {} does not match the shape of the weights {}. ({} vs. {})",
                lathe::to_string(shape()), lathe::to_string(weight.shape()),
                weight.ndim() > 1 ? weight.size(1).vmax() * options.groups : 0,
                ndim() > 1 ? size(1).vmax() : 0);
  const int64_t groups = options.groups, cout = weight.size(0).value();
  if (cout % groups) value_error("{} output channels do not split into {} groups", cout, groups);
  const size_t n = weight.shape().size() - 2;
  const SInt batch = size(0), cin = weight.size(1), rcout = cout / groups;
  Ints kernel;
  for (size_t i = 0; i < n; i++) kernel.push_back(weight.shape()[2 + i].value());
  const Ints stride = one_per_axis("stride", options.stride, n),
             dilation = one_per_axis("dilation", options.dilation, n);
  Tensor x = pool_pads(flat_padding(options.padding, n), 0).pool(kernel, stride, dilation);

  // x to (batch, groups, rcout, out…, cin, kernel…) and the weight alike; folded over cin and the kernel.
  const Shape out(x.shape().begin() + 2, x.shape().begin() + 2 + static_cast<std::ptrdiff_t>(n));
  Shape split{batch, SInt(groups), cin, SInt(1)}, wide{batch, SInt(groups), cin, rcout},
      w_shape{SInt(1), SInt(groups), rcout};
  Ints order{0, 1, 3};
  const int64_t spatial = static_cast<int64_t>(n);
  for (int64_t i = 0; i < spatial; i++) order.push_back(4 + i);
  order.push_back(2);
  for (int64_t i = 0; i < spatial; i++) order.push_back(4 + spatial + i);
  for (Shape* s : {&split, &wide}) s->append(x.shape().begin() + 2, x.shape().end());
  w_shape.resize(w_shape.size() + n, SInt(1));
  w_shape.push_back(cin);
  for (int64_t k : kernel) w_shape.push_back(SInt(k));
  x = x.reshape(split).expand(wide).permute(order);
  Shape result{batch, SInt(cout)};
  result.append(out.begin(), out.end());
  const Tensor y = x.mul(weight.reshape(w_shape)).sum(last_axes(n + 1), true, options.dtype).reshape(result);
  if (!bias) return y;
  Shape per_channel(n + 2, SInt(1));
  per_channel[1] = cout;
  return y.add(bias->reshape(per_channel));
}

Tensor Tensor::conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias,
                                const ConvTransposeOptions& options) const {
  const int64_t groups = options.groups, spatial = weight.ndim() - 2;
  if (spatial < 1 || ndim() != weight.ndim() || !(size(1) == weight.size(0)))
    value_error("Input Tensor shape {} does not match the shape of the weights {}.",
                lathe::to_string(shape()), lathe::to_string(weight.shape()));
  const size_t n = static_cast<size_t>(spatial);
  const Ints stride = one_per_axis("stride", options.stride, n),
             dilation = one_per_axis("dilation", options.dilation, n);
  const Ints output_padding = one_per_axis("output_padding", options.output_padding, n);
  const Ints pads = flat_padding(options.padding, n);
  // A convolution with the kernel turned around and in- and output channels of each group swapped …
  Ints flipped;
  for (int64_t i = 0; i < spatial; i++) flipped.push_back(3 + i);
  const Tensor w = weight.unflatten(0, {SInt(groups), SInt(-1)}).transpose(1, 2).flip(flipped).flatten(0, 1);
  // … over the input with stride - 1 zeros between neighbours.
  Tensor x = *this;
  if (std::ranges::any_of(stride, [](int64_t s) { return s > 1; })) {
    Shape apart{size(0), size(1)}, padded = apart, merged = apart, cut = apart;
    for (size_t i = 0; i < n; i++) {
      const int64_t length = shape()[2 + i].value();
      apart.push_back(SInt(length));
      apart.push_back(SInt(1));
      padded.push_back(SInt(length));
      padded.push_back(SInt(stride[i]));
      merged.push_back(SInt(length * stride[i]));
      cut.push_back(SInt((length - 1) * stride[i] + 1));
    }
    x = x.reshape(apart).pad_to(padded).reshape(merged).shrink_to(cut);
  }
  Ints around;
  for (size_t i = n; i-- > 0;) {
    const int64_t reach = (weight.shape()[2 + i].value() - 1) * dilation[i];
    const int64_t before = pads[2 * (n - 1 - i)], after = pads[2 * (n - 1 - i) + 1];
    around.push_back(reach - before);
    around.push_back(reach - after + output_padding[i]);
  }
  return x.conv2d(w, bias,
                  {.stride = 1, .padding = around, .dilation = dilation, .groups = groups, .dtype = {}});
}

}  // namespace lathe
