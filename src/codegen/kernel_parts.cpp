#include "codegen/kernel_parts.h"

#include <algorithm>

namespace lathe {
namespace {

SmallVec<UOp, 8> joined(const UOp& first, std::span<const UOp> rest) {
  SmallVec<UOp, 8> out{first};
  for (const UOp& u : rest) out.push_back(u);
  return out;
}

}  // namespace

bool is_open(const UOp& u, const UOp& range) {
  return std::ranges::find(u.ranges(), range.node()) != u.ranges().end();
}

UOp open_axis(const UOp& u, AxisType t) {
  for (const Node* r : u.ranges())
    if (std::get<RangeArg>(r->arg).type == t) return UOp(r);
  return {};
}

double trips_of(const UOp& u) {
  double n = 1;
  for (const Node* r : u.ranges()) n *= UOp(r).bounds().hi.as_double() + 1;
  return n;
}

UOp after(const UOp& x, std::span<const UOp> deps) {
  return deps.empty() ? x : UOp::make(Op::After, x.dtype(), joined(x, deps));
}

UOp close_loops(const UOp& effect, std::span<const UOp> loops) {
  return loops.empty() ? effect : UOp::make(Op::End, DType::Void, joined(effect, loops));
}

UOp scratch_buffer(int64_t slot, DType dtype, int64_t n, std::string name) {
  auto arg = std::make_shared<ParamArg>();
  arg->slot = slot;
  arg->dtype = dtype;
  arg->space = AddrSpace::Reg;
  arg->name = std::move(name);
  return UOp::make(Op::Buffer, {shape_node({SInt(n)})}, ParamPtr(std::move(arg)));
}

UOp first_elements(const UOp& memory, int64_t lanes, const UOp& zero) {
  if (!lanes) return index(memory, zero);
  const UOp n = constant(Scalar(lanes));
  return UOp::make(Op::Shrink, {memory, stack({&zero, 1}), stack({&n, 1})});
}

UOp fold_lanes(Op op, UOp v) {
  int64_t lanes = v.shape()[0].value();
  const auto pick = [&](int64_t first, int64_t n) {
    std::vector<UOp> at;
    for (int64_t i = 0; i < n; i++) at.push_back(constant(Scalar(first + i)));
    return n == 1 ? index(v, at[0]) : index(v, stack(at));
  };
  for (; lanes > 1 && lanes % 2 == 0; lanes /= 2)
    v = alu(op, {pick(0, lanes / 2), pick(lanes / 2, lanes / 2)});
  if (!v.ndim()) return v;
  UOp out = pick(0, 1);
  for (int64_t i = 1; i < lanes; i++) out = alu(op, {out, pick(i, 1)});
  return out;
}

Scalar neutral_element(Op op, DType d) {
  return op == Op::Max ? min_value(d) : Scalar(op == Op::Mul ? 1 : 0);
}

}  // namespace lathe
