// Convolution and pooling.
#include "formats/onnx/call.h"
#include "formats/onnx/window.h"

#include <algorithm>

namespace lathe::onnx {

Window window_of(const Call& c, const std::vector<int64_t>& spatial, std::vector<int64_t> kernel) {
  const size_t n = spatial.size();
  const std::vector<int64_t> ones(n, 1);
  Window out;
  out.kernel = c.attr_ints("kernel_shape", std::move(kernel));
  out.stride = c.attr_ints("strides", ones);
  out.dilation = c.attr_ints("dilations", ones);
  std::vector<int64_t> pads = c.attr_ints("pads", std::vector<int64_t>(2 * n, 0));
  if (out.kernel.size() != n || out.stride.size() != n || out.dilation.size() != n || pads.size() != 2 * n)
    value_error("kernel_shape, strides, dilations and pads have {}, {}, {} and {} numbers for {} axes",
                out.kernel.size(), out.stride.size(), out.dilation.size(), pads.size(), n);
  for (const auto* list : {&out.kernel, &out.stride, &out.dilation})
    for (int64_t v : *list)
      if (v < 1) value_error("a kernel, stride or dilation of {}", v);
  const std::string mode = c.attr_text("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; i++) {
    if (mode == "VALID") pads[i] = pads[n + i] = 0;
    if (!mode.starts_with("SAME")) continue;
    const int64_t count = (spatial[i] + out.stride[i] - 1) / out.stride[i];
    const int64_t total = std::max<int64_t>(
        0, (count - 1) * out.stride[i] + (out.kernel[i] - 1) * out.dilation[i] + 1 - spatial[i]);
    pads[i] = mode == "SAME_LOWER" ? total - total / 2 : total / 2;
    pads[n + i] = total - pads[i];
  }
  out.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  out.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  return out;
}

Ints Window::flat_pads() const {
  Ints out;
  for (size_t i = before.size(); i-- > 0;) {
    out.push_back(before[i]);
    out.push_back(after[i]);
  }
  return out;
}

std::vector<int64_t> spatial_of(const Tensor& x) {
  const std::vector<int64_t> all = sizes_of(x);
  if (all.size() < 3) value_error("a tensor of shape {} has no spatial axes", to_string(x.shape()));
  return {all.begin() + 2, all.end()};
}

Tensor convolve(const Call& c, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias) {
  const Window window = window_of(c, spatial_of(x), spatial_of(w));
  return x.conv2d(w, bias,
                  {.stride = window.stride,
                   .padding = window.flat_pads(),
                   .dilation = window.dilation,
                   .groups = c.attr_int("group", 1),
                   .dtype = {}});
}

namespace {

PoolOptions pool_options(const Call& c, const Window& w) {
  return {.stride = w.stride,
          .padding = w.flat_pads(),
          .dilation = w.dilation,
          .ceil_mode = c.attr_flag("ceil_mode"),
          .count_include_pad = c.attr_flag("count_include_pad")};
}

}  // namespace

Tensor average_pool(const Call& c, const Tensor& x) {
  const Window w = window_of(c, spatial_of(x));
  return x.avg_pool2d(w.kernel, pool_options(c, w));
}

namespace {

Tensor conv_transpose(const Call& c) {
  const std::vector<int64_t> spatial = spatial_of(c[0]);
  const size_t n = spatial.size();
  Window window = window_of(c, spatial, spatial_of(c[1]));
  std::vector<int64_t> extra = c.attr_ints("output_padding", std::vector<int64_t>(n, 0));
  std::vector<int64_t> wanted = c.attr_ints("output_shape");
  const std::string mode = c.attr_text("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; i++) {
    const bool same = mode.starts_with("SAME") && wanted.empty();
    if (wanted.empty() && !same) continue;
    const int64_t size = same ? spatial[i] * window.stride[i] : wanted.at(wanted.size() - n + i);
    const int64_t total = window.stride[i] * (spatial[i] - 1) + extra[i] +
                          (window.kernel[i] - 1) * window.dilation[i] + 1 - size;
    // What the kernel does not reach is added at the end.
    if (total < 0) extra[i] -= total;
    const int64_t cut = std::max<int64_t>(total, 0);
    window.before[i] = mode == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    window.after[i] = cut - window.before[i];
  }
  return c[0].conv_transpose2d(c[1], c.optional(2),
                               {.stride = window.stride,
                                .padding = window.flat_pads(),
                                .dilation = window.dilation,
                                .groups = c.attr_int("group", 1),
                                .output_padding = extra});
}

// Row-major positions in a box of these sizes, as positions where the first axis runs fastest.
Tensor column_major(Tensor at, const std::vector<int64_t>& sizes) {
  Tensor out = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    out = out.add(at.mod(sizes[i]).mul(product(std::span(sizes).first(i))));
    at = at.div_floor(sizes[i]);
  }
  return out;
}

Values max_pool(const Call& c) {
  const Tensor& x = c[0];
  const std::vector<int64_t> spatial = spatial_of(x);
  const Window w = window_of(c, spatial);
  if (!c.wants(1)) return {{x.max_pool2d(w.kernel, pool_options(c, w)), c.type(0)}};
  const auto [values, at] = x.max_pool2d_with_indices(w.kernel, pool_options(c, w));
  const Tensor place = c.attr_flag("storage_order") ? column_major(at, spatial) : at;
  const int64_t planes = (x.size(0) * x.size(1)).value(),
                volume = x.numel().value() / std::max<int64_t>(planes, 1);
  Shape by_plane(x.shape().size(), SInt(1));
  by_plane[0] = x.size(0);
  by_plane[1] = x.size(1);
  return {{values, c.type(0)}, positions(planes).mul(volume).reshape(by_plane).add(place)};
}

Tensor lp_pool(const Call& c) {
  const Window w = window_of(c, spatial_of(c[0]));
  const auto p = static_cast<double>(c.attr_int("p", 2));
  const PoolOptions options = pool_options(c, w);
  // Zeros behind the end let the windows of ceil mode reach out; a pool of maxima has as many windows.
  Ints pads = w.flat_pads();
  for (size_t i = 0; options.ceil_mode && i < w.kernel.size(); i++)
    pads[2 * i + 1] += w.stride[w.kernel.size() - 1 - i] - 1;
  const Tensor windows = c[0].abs().pow(p).pad(Padding(pads)).pool(w.kernel, w.stride, w.dilation);
  return windows.sum(axes_between(c[0].ndim(), windows.ndim()))
      .shrink_to(c[0].max_pool2d(w.kernel, options).shape())
      .pow(1 / p);
}

Axes spatial_axes(const Tensor& x) { return axes_between(2, x.ndim()); }

// The inverse of a max pool. Positions count through batch and channels, and are those of the tensor that was
// pooled; a larger output shape only adds room around it.
Tensor max_unpool(const Call& c) {
  const std::vector<int64_t> spatial = spatial_of(c[0]);
  const Window w = window_of(c, spatial);
  int64_t volume = 1;
  for (size_t i = 0; i < spatial.size(); i++)
    volume *= (spatial[i] - 1) * w.stride[i] + w.kernel[i] - w.before[i] - w.after[i];
  if (volume < 1) value_error("unpooling to {} elements", volume);
  const Tensor y =
      c[0].max_unpool2d(c[1].mod(Tensor(volume)), w.kernel, {.stride = w.stride, .padding = w.flat_pads()});
  return c.has(2) ? y.pad_to(to_shape(c.integers(2))) : y;
}

// Sums of columns at the places of the image where a window stood.
Tensor col2im(const Call& c) {
  const std::vector<int64_t> image = c.integers(1), block = c.integers(2);
  const size_t n = image.size();
  const Window w = window_of(c, image, block);
  const Tensor& x = c[0];
  const int64_t block_size = product(block);
  const SInt batch = x.size(0), channels = x.size(1).value() / block_size;
  // As a transposed convolution with one channel for each place in the block and a kernel that is 1 there.
  Shape split{batch * channels, SInt(block_size)}, kernel{SInt(block_size), SInt(1)}, to{batch, channels};
  std::vector<int64_t> extra(n);
  for (size_t i = 0; i < n; i++) {
    const int64_t reach = (block[i] - 1) * w.dilation[i] + 1, total = image[i] + w.before[i] + w.after[i];
    const int64_t count = (total - reach) / w.stride[i] + 1;
    extra[i] = total - ((count - 1) * w.stride[i] + reach);
    split.push_back(SInt(count));
    kernel.push_back(SInt(block[i]));
    to.push_back(SInt(image[i]));
  }
  return x.reshape(split)
      .conv_transpose2d(Tensor::eye(block_size, block_size, {x.dtype()}).reshape(kernel), std::nullopt,
                        {.stride = w.stride,
                         .padding = w.flat_pads(),
                         .dilation = w.dilation,
                         .groups = 1,
                         .output_padding = extra})
      .reshape(to);
}

constexpr OpRow kRows[] = {
    {"AveragePool", [](const Call& c) { return average_pool(c, c[0]); }},
    {"Col2Im", of<col2im>},
    {"Conv", [](const Call& c) { return convolve(c, c[0], c[1], c.optional(2)); }},
    {"ConvTranspose", of<conv_transpose>},
    {"GlobalAveragePool", [](const Call& c) { return c[0].mean(spatial_axes(c[0]), true); }},
    {"GlobalLpPool",
     [](const Call& c) {
       const auto p = static_cast<double>(c.attr_int("p", 2));
       return c[0].abs().pow(p).sum(spatial_axes(c[0]), true).pow(1 / p);
     }},
    {"GlobalMaxPool", [](const Call& c) { return c[0].max(spatial_axes(c[0]), true); }},
    {"LpPool", of<lp_pool>},
    {"MaxPool", of<max_pool>},
    {"MaxUnpool", of<max_unpool>},
};

}  // namespace

std::span<const OpRow> window_ops() { return kRows; }

}  // namespace lathe::onnx
