#include "schedule/passes.h"
#include "uop/variable.h"

namespace lathe {

const UOp& strip_states(const UOp& state) {
  const UOp* at = &state;
  while (at->op() == Op::After || is_view(*at)) at = &at->src(0);
  return *at;
}

bool is_buffer(const UOp& u) {
  return u.op() == Op::Buffer || (u.op() == Op::Param && u.param().space == AddrSpace::Global);
}

bool is_view(const UOp& u) {
  return is_movement(u.op()) || u.op() == Op::Detach ||
         (u.op() == Op::Bitcast && item_size(u.dtype()) == item_size(u.src(0).dtype()));
}

UOp strip_views(const UOp& u) {
  const UOp* base = &u;
  while (is_view(*base)) base = &base->src(0);
  return *base;
}

UOp new_memory(const Shape& shape, DType dtype, const std::string& device) {
  return shrink(new_buffer(max_shape(shape), dtype, device), Shape(shape.size(), SInt(0)), shape);
}

namespace {

// First element of a Shrink in its source, when what it keeps has no gaps: whole axes below the first axis of
// several elements.
std::optional<int64_t> first_of_shrink(const UOp& u) {
  const Shape &in = u.src(0).shape(), offset = shape_from_node(u.src(1)), size = shape_from_node(u.src(2));
  int64_t first = 0, stride = 1;
  bool cut = false;  // an axis further in is not whole
  for (size_t i = in.size(); i-- > 0;) {
    if (!in[i].is_const() || !offset[i].is_const() || !size[i].is_const()) return std::nullopt;
    if (cut && size[i].value() != 1) return std::nullopt;
    cut = cut || !(size[i] == in[i]);
    first += offset[i].value() * stride;
    stride *= in[i].value();
  }
  return first;
}

}  // namespace

std::optional<MemoryRun> memory_run(const UOp& view) {
  int64_t first = 0;
  const UOp* at = &view;
  for (; is_view(*at); at = &at->src(0)) {
    if (at->op() == Op::Reshape || !is_movement(at->op())) continue;
    const std::optional<int64_t> inner = at->op() == Op::Shrink ? first_of_shrink(*at) : std::nullopt;
    if (!inner) return std::nullopt;
    first += *inner;
  }
  const UOp& root = at->op() == Op::After ? strip_states(*at) : *at;
  return is_buffer(root) ? std::optional(MemoryRun{*at, first}) : std::nullopt;
}

}  // namespace lathe
