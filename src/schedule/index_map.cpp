#include "schedule/index_map.h"

#include "uop/comparison.h"
#include "uop/simplify.h"

namespace lathe {

Gated split_gate(const UOp& i) {
  if (i.op() == Op::Where && i.src(2).is_invalid()) return {i.src(1), i.src(0)};
  return {i, {}};
}

UOp join_gate(const UOp& index, const UOp& gate) { return gate ? where(gate, index, invalid()) : index; }

namespace {

// Coordinates across one group of axes whose products agree: flatten, then divide out.
void regroup(std::span<const UOp> out, std::span<const SInt> out_sizes, std::span<const SInt> in_sizes,
             Coords& in) {
  const Gated flat = split_gate(flat_index(out, out_sizes));
  const size_t first = in.size();
  in.resize(first + in_sizes.size());
  SInt below = 1;
  for (size_t k = in_sizes.size(); k-- > 0;) {
    UOp c = flat.index;
    if (!(below == SInt(1))) c = c / below.uop();
    if (k > 0) c = c % in_sizes[k].uop();
    if (in_sizes[k] == SInt(1)) c = constant(0);
    in[first + k] = join_gate(simplify(c), flat.gate);
    below = below * in_sizes[k];
  }
}

Coords reshape_coords(const Shape& in_shape, const Shape& out_shape, const Coords& out) {
  if (prod(in_shape) == SInt(0)) return Coords(in_shape.size(), constant(0));  // no element has coordinates
  Coords in;
  size_t i = 0, o = 0;
  while (i < in_shape.size() || o < out_shape.size()) {
    // Size-1 axes first: they never need arithmetic.
    if (o < out_shape.size() && out_shape[o] == SInt(1)) {
      o++;
      continue;
    }
    if (i < in_shape.size() && in_shape[i] == SInt(1)) {
      in.push_back(constant(0));
      i++;
      continue;
    }
    if (i < in_shape.size() && o < out_shape.size() && in_shape[i] == out_shape[o]) {
      in.push_back(out[o]);
      i++;
      o++;
      continue;
    }
    // The smallest group with equal products; symbolic sizes take all that is left.
    size_t ie = i, oe = o;
    SInt ip = 1, op = 1;
    do {
      const bool symbolic = !ip.is_const() || !op.is_const();
      if (symbolic) {
        while (ie < in_shape.size()) ip = ip * in_shape[ie++];
        while (oe < out_shape.size()) op = op * out_shape[oe++];
        break;
      }
      if ((ip.value() <= op.value() && ie < in_shape.size()) || oe == out_shape.size())
        ip = ip * in_shape[ie++];
      else
        op = op * out_shape[oe++];
    } while (!(ip == op));
    regroup({out.data() + o, oe - o}, {out_shape.data() + o, oe - o}, {in_shape.data() + i, ie - i}, in);
    i = ie;
    o = oe;
  }
  return in;
}

// Condition and shifted coordinate of one padded axis.
Gated pad_axis(const UOp& c, const SInt& before, const SInt& inner, const SInt& total) {
  const Gated g = split_gate(c);
  if (inner == total) return {g.index, g.gate};
  UOp ok;
  if (!(before == SInt(0))) ok = ge(g.index, before.uop());
  if (!(before + inner == total)) ok = and_gates(ok, lt(g.index, (before + inner).uop()));
  ok = ok ? simplify(ok) : ok;
  return {simplify(g.index - before.uop()), and_gates(g.gate, ok)};
}

// Whether a part of a symbolic place or size is outside of the axis for some values of its variables.
bool may_leave(const SInt& offset, const SInt& size, const SInt& whole) {
  if (offset.is_const() && size.is_const() && whole.is_const()) return false;
  const UOp room = (whole - offset - size).uop(), before = offset.uop();
  return room.bounds().lo.less(Scalar(0)) || before.bounds().lo.less(Scalar(0));
}

// The index of a coordinate changed, under the same gate.
template <class Change>
UOp moved(const UOp& coordinate, Change change) {
  const Gated g = split_gate(coordinate);
  return join_gate(simplify(change(g.index)), g.gate);
}

}  // namespace

Coords movement_coords(const UOp& op, const Coords& out) {
  const Shape& in_shape = op.src(0).shape();
  CHECK(out.size() == op.shape().size(), "{} coordinates for shape {}", out.size(), op.shape());
  Coords in(in_shape.size());
  switch (op.op()) {
    case Op::Reshape: return reshape_coords(in_shape, op.shape(), out);
    case Op::Permute: {
      const auto order = op.arg_as<AxesArg>().span();
      for (size_t i = 0; i < out.size(); i++) in[static_cast<size_t>(order[i])] = out[i];
      return in;
    }
    case Op::Expand: return Coords(out.end() - static_cast<ptrdiff_t>(in_shape.size()), out.end());
    case Op::Flip: {
      const auto flags = op.arg_as<AxesArg>().span();
      for (size_t i = 0; i < out.size(); i++)
        in[i] = flags[i] ? moved(out[i], [&](const UOp& c) { return (in_shape[i] - SInt(1)).uop() - c; })
                         : out[i];
      return in;
    }
    case Op::Shrink: {
      const Shape offset = shape_from_node(op.src(1));
      for (size_t i = 0; i < out.size(); i++) {
        in[i] =
            offset[i] == SInt(0) ? out[i] : moved(out[i], [&](const UOp& c) { return c + offset[i].uop(); });
        if (!may_leave(offset[i], op.shape()[i], in_shape[i])) continue;
        const Gated g = split_gate(in[i]);
        const UOp inside = ge(g.index, constant(0)) & lt(g.index, in_shape[i].uop());
        in[i] = join_gate(g.index, and_gates(g.gate, simplify(inside)));
      }
      return in;
    }
    case Op::Pad: {
      const Shape before = shape_from_node(op.src(1));
      for (size_t i = 0; i < out.size(); i++) {
        const Gated g = pad_axis(out[i], before[i], in_shape[i], op.shape()[i]);
        in[i] = join_gate(g.index, g.gate);
      }
      return in;
    }
    default: break;
  }
  CHECK(false, "{} is not a movement op", op.op());
  return in;
}

UOp pad_condition(const UOp& op, const Coords& out) {
  const Shape before = shape_from_node(op.src(1));
  UOp ok;
  for (size_t i = 0; i < out.size(); i++) {
    const UOp bare = split_gate(out[i]).index;
    ok = and_gates(ok, pad_axis(bare, before[i], op.src(0).shape()[i], op.shape()[i]).gate);
  }
  return ok;
}

UOp flat_index(std::span<const UOp> coords, std::span<const SInt> shape) {
  UOp flat, gate;
  SInt stride = 1;
  for (size_t k = coords.size(); k-- > 0;) {
    const Gated g = split_gate(coords[k]);
    gate = and_gates(gate, g.gate);
    if (!g.index.is_const(0)) {
      const UOp term = stride == SInt(1) ? g.index : g.index * stride.uop();
      flat = flat ? term + flat : term;
    }
    stride = stride * shape[k];
  }
  return join_gate(flat ? flat : constant(0), gate);
}

UOp element(const UOp& memory, const Coords& coords) {
  std::vector<UOp> srcs{memory};
  srcs.insert(srcs.end(), coords.begin(), coords.end());
  return UOp::make(Op::Index, DType::Void, srcs);
}

UOp at_coords(const UOp& value, const Coords& from, const Coords& to) {
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t i = 0; i < from.size(); i++)
    if (from[i].op() == Op::Range && !(from[i] == to[i])) map.emplace_back(from[i], to[i]);
  return map.empty() ? value : substitute(value, map);
}

Coords operand_coords(const Coords& out, const Shape& operand) {
  const size_t skip = out.size() - operand.size();
  Coords in(operand.size());
  for (size_t i = 0; i < operand.size(); i++) in[i] = operand[i] == SInt(1) ? constant(0) : out[skip + i];
  return in;
}

}  // namespace lathe
