// Several tensors into one, and back.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <algorithm>

namespace lathe {
namespace {

std::vector<UOp> promoted(const std::vector<Tensor>& tensors) {
  DType d = tensors[0].dtype();
  for (const Tensor& t : tensors) d = join(d, t.dtype());
  std::vector<UOp> out;
  for (const Tensor& t : tensors) out.push_back(promote(t.uop(), d));
  return out;
}

std::string shapes_text(const std::vector<Tensor>& tensors) {
  std::string out;
  for (const Tensor& t : tensors) out += (out.empty() ? "" : ", ") + to_string(t.shape());
  return "[" + out + "]";
}

}  // namespace

Tensor Tensor::stack(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.empty()) value_error("stack needs at least one tensor");
  for (const Tensor& t : tensors)
    if (!(t.shape() == tensors[0].shape()))
      value_error("all shapes must match for stack, got {}", shapes_text(tensors));
  const int axis = tensors[0].resolve_dim(dim, 1);
  const Tensor joined(lathe::stack(promoted(tensors)));
  Ints order;  // axis 0 of the Stack goes to `axis`
  for (int i = 1; i < joined.ndim(); i++) order.push_back(i);
  order.insert(order.begin() + axis, int64_t{0});
  return joined.permute(order);
}

Tensor Tensor::cat(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.empty()) value_error("cat needs at least one tensor");
  const Tensor& first = tensors[0];
  const int axis = first.resolve_dim(dim);
  const size_t at = static_cast<size_t>(axis);
  bool equal = true;
  SInt total = 0;
  for (const Tensor& t : tensors) {
    bool fits = t.ndim() == first.ndim() && t.ndim() > 0;
    for (size_t i = 0; fits && i < t.shape().size(); i++) fits = i == at || t.shape()[i] == first.shape()[i];
    if (!fits) value_error("all shapes must match off dim={} for cat, got {}", dim, shapes_text(tensors));
    equal = equal && t.shape()[at].is_const() && t.shape()[at] == first.shape()[at];
    total = total + t.shape()[at];
  }
  if (tensors.size() == 1) return first;
  if (equal) return stack(tensors, axis).flatten(axis, axis + 1);

  const std::vector<UOp> parts = promoted(tensors);
  UOp sum;
  SInt offset = 0;
  for (const UOp& part : parts) {
    Shape before(part.shape().size(), SInt(0)), size = part.shape();
    before[at] = offset;
    offset = offset + size[at];
    size[at] = total;
    const UOp padded = lathe::pad(part, before, size);
    sum = sum ? alu(Op::Add, {sum, padded}) : padded;
  }
  return Tensor(sum);
}

std::vector<Tensor> Tensor::split(const Ints& sizes, int64_t dim) const {
  const size_t axis = static_cast<size_t>(resolve_dim(dim));
  if (ndim() == 0) value_error("split needs at least one axis");
  const int64_t length = shape()[axis].value();
  Ints pieces = sizes;
  if (sizes.size() == 1) {
    if (sizes[0] <= 0) value_error("split size must be positive, got {}", sizes[0]);
    pieces = Ints();
    for (int64_t at = 0; at < length || pieces.empty(); at += sizes[0])
      pieces.push_back(std::min(sizes[0], length - at));
  }
  int64_t sum = 0;
  for (int64_t n : pieces) sum += n;
  if (sum != length)
    value_error("expect sizes to sum exactly to {}, but got {} for dim={} of shape {}", length, sum, dim,
                shape());
  std::vector<Tensor> out;
  int64_t at = 0;
  for (int64_t n : pieces) {
    AxisPairs bounds(shape().size(), none);
    bounds[axis] = {SInt(at), SInt(at + n)};
    out.push_back(shrink(bounds));
    at += n;
  }
  return out;
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim) const {
  if (chunks <= 0) value_error("expect chunks to be greater than 0, got: {}", chunks);
  const int64_t length = size(dim).value();
  if (length == 0) return std::vector<Tensor>(static_cast<size_t>(chunks), *this);
  return split(Ints((length + chunks - 1) / chunks), dim);
}

std::vector<Tensor> Tensor::meshgrid(const std::vector<Tensor>& tensors, bool xy) {
  Shape sizes;
  for (const Tensor& t : tensors) {
    if (t.ndim() > 1) user_runtime_error("meshgrid takes 0-D or 1-D tensors, got shape {}", t.shape());
    sizes.push_back(t.numel());
  }
  // Tensor i varies along axis i, but with `xy` the first two change places.
  const auto axis_of = [&](size_t i) { return xy && i < 2 && sizes.size() > 1 ? 1 - i : i; };
  Shape grid = sizes;
  for (size_t i = 0; i < sizes.size(); i++) grid[axis_of(i)] = sizes[i];
  std::vector<Tensor> out;
  for (size_t i = 0; i < tensors.size(); i++) {
    Shape own(grid.size(), SInt(1));
    own[axis_of(i)] = sizes[i];
    out.push_back(tensors[i].reshape(own).expand(grid));
  }
  return out;
}

}  // namespace lathe
