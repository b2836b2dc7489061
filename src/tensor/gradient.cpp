#include "tensor/gradient.h"

#include "schedule/shard.h"
#include "tensor/promote.h"
#include "tensor/view.h"
#include "uop/matcher.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

using List = std::vector<UOp>;

// What the rules get besides the node. They give one gradient a source, with an empty handle where there is
// none; it may be wider than the source where that was broadcast.
struct Incoming {
  UOp gradient;
};
const UOp& incoming(const Match& m) { return m.ctx<Incoming>().gradient; }

UOp zero_like(const UOp& x) { return weak_literal(Scalar(0), x.dtype()); }
UOp number(double v) { return constant(Scalar(v)); }

List grad_reciprocal(const Match& m) { return {incoming(m) * number(-1) * m.root() * m.root()}; }
List grad_sin(const Match& m) {
  return {incoming(m) * alu(Op::Sin, {number(std::numbers::pi / 2) - m.root().src(0)})};
}
List grad_log2(const Match& m) {
  return {incoming(m) * alu(Op::Reciprocal, {m.root().src(0) * number(std::numbers::ln2)})};
}
List grad_exp2(const Match& m) { return {incoming(m) * m.root() * number(std::numbers::ln2)}; }
List grad_sqrt(const Match& m) { return {incoming(m) * alu(Op::Reciprocal, {m.root() * number(2)})}; }
List grad_neg(const Match& m) { return {incoming(m) * number(-1)}; }
List grad_identity(const Match& m) { return {incoming(m)}; }

List grad_add(const Match& m) { return {incoming(m), incoming(m)}; }
List grad_sub(const Match& m) { return {incoming(m), incoming(m) * number(-1)}; }
List grad_mul(const Match& m) { return {m.root().src(1) * incoming(m), m.root().src(0) * incoming(m)}; }
List grad_mulacc(const Match& m) {
  return {m.root().src(1) * incoming(m), m.root().src(0) * incoming(m), incoming(m)};
}
List grad_fdiv(const Match& m) {
  const UOp inverse = alu(Op::Reciprocal, {m.root().src(1)});
  return {incoming(m) * inverse, incoming(m) * number(-1) * m.root() * inverse};
}

// To the larger operand, half to each where they are equal.
List grad_max(const Match& m) {
  const UOp &a = m.root().src(0), &b = m.root().src(1), &g = incoming(m);
  const UOp zero = zero_like(g);
  const auto share = [&](const UOp& own, const UOp& other) {
    return where(lt(own, other), zero, where(eq(own, other), g * number(0.5), g));
  };
  return {share(a, b), share(b, a)};
}

List grad_pow(const Match& m) {
  const UOp &y = m.root(), &b = y.src(0), &e = y.src(1), &g = incoming(m);
  const UOp zero = number(0), inf = number(-INFINITY);
  const UOp base = g * where(eq(e, zero), e, e * alu(Op::Pow, {b, e + number(-1)}));
  const UOp log_b = alu(Op::Log2, {b}) * number(std::numbers::ln2);
  const UOp exponent = g * where(eq(b, zero), where(lt(e, zero), inf, number(0)), y * log_b);
  return {base, exponent};
}

List grad_where(const Match& m) {
  const UOp &c = m.root().src(0), &g = incoming(m), zero = zero_like(g);
  return {{}, where(c, g, zero), where(c, zero, g)};
}

List grad_reduce(const Match& m) {
  const UOp &y = m.root(), &x = y.src(0), &g = incoming(m);
  const auto [op, n] = y.arg_as<ReduceArg>();
  const Shape folded(x.shape().begin(), x.shape().begin() + n);
  const UOp wide = prepend(g, folded), result = prepend(y, folded);
  const auto fold = [&](const UOp& v, Op by) { return UOp::make(Op::Reduce, {v}, ReduceArg{by, n}); };
  if (op == Op::Add) return {wide};
  if (op == Op::Max) {
    // Split equally among the maxima.
    const UOp hit = eq(x, result);
    const UOp count = prepend(fold(cast(hit, y.dtype()), Op::Add), folded);
    return {where(hit, wide * alu(Op::Reciprocal, {count}), zero_like(g))};
  }
  CHECK(op == Op::Mul, "no gradient of a reduction by {}", op);
  // y / x, but the product of the others at the only zero, and 0 elsewhere when there are zeros.
  const UOp is_zero = eq(x, number(0)), one = weak_literal(Scalar(1), x.dtype());
  const UOp zeros = prepend(fold(cast(is_zero, y.dtype()), Op::Add), folded);
  const UOp others = prepend(fold(where(is_zero, one, x), Op::Mul), folded);
  const UOp none_zero = eq(zeros, number(0)), is_only_zero = eq(zeros, number(1)) & is_zero;
  const UOp rest = where(is_only_zero, others, zero_like(g));
  return {wide * where(none_zero, result * alu(Op::Reciprocal, {where(is_zero, one, x)}), rest)};
}

List grad_movement(const Match& m) { return {invert_movement(m.root(), incoming(m))}; }

List grad_expand(const Match& m) {
  const UOp &y = m.root(), &g = incoming(m);
  const int32_t n = static_cast<int32_t>(y.src(1).n_srcs());
  const UOp total = UOp::make(Op::Reduce, {cast(g, sum_dtype(g.dtype()))}, ReduceArg{Op::Add, n});
  return {cast(total, g.dtype())};
}

List grad_stack(const Match& m) {
  List out;
  for (size_t i = 0; i < m.root().n_srcs(); i++) {
    const UOp& lane = m.root().src(i);
    Shape offset(incoming(m).shape().size(), SInt(0)), size = incoming(m).shape();
    offset[0] = static_cast<int64_t>(i);
    size[0] = 1;
    out.push_back(reshape(shrink(incoming(m), offset, size), lane.shape()));
  }
  return out;
}

List grad_copy(const Match& m) {
  const std::string& home = m.root().src(0).device();
  return {home.empty() ? incoming(m) : copy_to(incoming(m), home)};
}

// Pieces get theirs. Of copies of one value the first stands for all.
List grad_multi(const Match& m) {
  const UOp &y = m.root(), &g = incoming(m);
  const std::optional<int> axis = multi_axis(y);
  List out(y.n_srcs());
  for (size_t i = 0; i < (axis ? y.n_srcs() : 1); i++) {
    const UOp piece = axis ? shard_piece(g, *axis, i, y.n_srcs()) : g;
    out[i] = copy_to(piece, y.src(i).device());
  }
  return out;
}

List grad_contiguous_backward(const Match& m) { return {UOp::make(Op::Contiguous, {incoming(m)})}; }

// What an assignment stored gets the gradient of the part it wrote; the memory before it gets the rest.
List grad_after(const Match& m) {
  const UOp &y = m.root(), &base = y.src(0), &written = y.src(1);
  if (written.op() != Op::Store) return {incoming(m)};  // it only waits
  const UOp& view = written.src(0);
  List out(y.n_srcs());
  out[1] = apply_view(view, base, incoming(m));
  if (!covers_base(view, base)) out[0] = where(view_mask(view, base), zero_like(incoming(m)), incoming(m));
  return out;
}
List grad_store(const Match& m) { return {{}, incoming(m)}; }

constexpr OpSet kInvertible = {Op::Reshape, Op::Permute, Op::Flip, Op::Pad, Op::Shrink};
constexpr auto kGradient =
    rules_for<List>(rule(any_op<OpSet{Op::Cast, Op::Contiguous}>(), fn(grad_identity)),  //
                    rule(op<Op::ContiguousBackward>(), fn(grad_contiguous_backward)),    //
                    rule(op<Op::Copy>(), fn(grad_copy)),                                 //
                    rule(op<Op::Multi>(), fn(grad_multi)),                               //
                    rule(op<Op::After>(), fn(grad_after)),                               //
                    rule(op<Op::Store>(), fn(grad_store)),                               //
                    rule(op<Op::Reciprocal>(), fn(grad_reciprocal)),                     //
                    rule(op<Op::Sin>(), fn(grad_sin)),                                   //
                    rule(op<Op::Log2>(), fn(grad_log2)),                                 //
                    rule(op<Op::Exp2>(), fn(grad_exp2)),                                 //
                    rule(op<Op::Sqrt>(), fn(grad_sqrt)),                                 //
                    rule(op<Op::Neg>(), fn(grad_neg)),                                   //
                    rule(op<Op::Add>(), fn(grad_add)),                                   //
                    rule(op<Op::Sub>(), fn(grad_sub)),                                   //
                    rule(op<Op::Mul>(), fn(grad_mul)),                                   //
                    rule(op<Op::FDiv>(), fn(grad_fdiv)),                                 //
                    rule(op<Op::MulAcc>(), fn(grad_mulacc)),                             //
                    rule(op<Op::Max>(), fn(grad_max)),                                   //
                    rule(op<Op::Pow>(), fn(grad_pow)),                                   //
                    rule(op<Op::Where>(), fn(grad_where)),                               //
                    rule(op<Op::Reduce>(), fn(grad_reduce)),                             //
                    rule(any_op<kInvertible>(), fn(grad_movement)),                      //
                    rule(op<Op::Expand>(), fn(grad_expand)),                             //
                    rule(op<Op::Stack>(), fn(grad_stack)));

// Integers, comparisons, leaves, steps and what stops gradients by its meaning.
constexpr OpSet kNoGradient = {Op::Special,  Op::Buffer,   Op::Param, Op::Const, Op::Range, Op::Bitcast,
                               Op::Trunc,    Op::Shl,      Op::Shr,   Op::CDiv,  Op::CMod,  Op::FloorDiv,
                               Op::FloorMod, Op::CmpLt,    Op::CmpNe, Op::CmpEq, Op::Xor,   Op::Or,
                               Op::And,      Op::Threefry, Op::Detach};
// Ops of kernels and programs.
constexpr OpSet kRefused = {Op::Noop,    Op::Linear, Op::Sink, Op::Group, Op::Index, Op::Load,
                            Op::Barrier, Op::If,     Op::End,  Op::EndIf, Op::Stage, Op::Dot};

constexpr OpSet ops_with_rule() {
  OpSet ops;
  for (const auto& entry : kGradient.rules) ops = ops | kGradient.nodes[entry.info.left].ops;
  return ops;
}
// What Calls make is gathered before the Calls themselves.
constexpr OpSet kWithRule = ops_with_rule() | OpSet{Op::Call, Op::Result};

// Nodes through which the root depends on a target, differentiably.
std::unordered_set<const Node*> nodes_on_path(const std::vector<UOp>& order, std::span<const UOp> targets) {
  std::unordered_set<const Node*> on_path;
  for (const UOp& t : targets) on_path.insert(t.node());
  for (const UOp& u : order) {
    if (kNoGradient.contains(u.op()) || !(is_float(u.dtype()) || u.op() == Op::Store || u.op() == Op::Call))
      continue;
    for (const UOp& s : u.srcs()) {
      if (!on_path.count(s.node())) continue;
      on_path.insert(u.node());
      break;
    }
  }
  return on_path;
}

// A gradient with the shape and dtype of the value it belongs to: broadcast axes are folded.
UOp fit_to(const UOp& g, const UOp& value) {
  UOp out = g;
  const Shape &from = g.shape(), &to = value.shape();
  if (!(from == to)) {
    const size_t lead = from.size() > to.size() ? from.size() - to.size() : 0;
    std::vector<int> folded;
    for (size_t i = 0; i < from.size(); i++)
      if (i < lead || (to[i - lead] == SInt(1) && !(from[i] == SInt(1))))
        folded.push_back(static_cast<int>(i));
    if (!folded.empty()) {
      out = reduce(cast(out, sum_dtype(strong(out.dtype()))), Op::Add, folded);
      Shape kept;
      for (size_t i = 0; i < to.size(); i++) kept.push_back(lead + i < from.size() ? to[i] : SInt(1));
      out = reshape(out, kept);
    }
    out = broadcast_to(out, to);  // a literal's gradient may be narrower than the value
  }
  return cast(out, value.dtype());
}

// The Call that makes `u`, or null.
const UOp* call_behind(const UOp& u) {
  if (u.op() == Op::Result) return &u.src(0);
  return u.op() == Op::After && u.src(1).op() == Op::Call ? &u.src(1) : nullptr;
}
size_t position_in_call(const UOp& u, const UOp& call) {
  if (u.op() == Op::Result) return static_cast<size_t>(u.value().as_i64());
  return static_cast<size_t>(std::ranges::find(call.srcs().subspan(1), u.src(0)) - call.srcs().begin()) - 1;
}

// The gradient of a function is a function, of the arguments and of what flows into its values.
List function_gradient(const UOp& u, const List& into, const std::unordered_set<const Node*>& on_path) {
  const CallArg& arg = *u.arg_as<CallPtr>();
  const UOp& body = u.src(0);
  List arguments(u.srcs().begin() + 1, u.srcs().end()), roots, seeds, targets, values, after(1);
  const auto source_of = [](const UOp& p) { return static_cast<size_t>(p.param().slot) + 1; };
  for (const UOp& p : toposort(body))
    if (p.op() == Op::Param && p.param().space == AddrSpace::Global &&
        on_path.count(u.src(source_of(p)).node()))
      targets.push_back(p);
  for (size_t i = 0; i < body.n_srcs(); i++) {
    if (!into[i]) continue;
    const UOp& v = body.src(i);
    roots.push_back(v);
    seeds.push_back(param(static_cast<int>(arguments.size()), v.shape(), v.dtype(), v.device()));
    arguments.push_back(into[i]);
    if (!into[i].device().empty()) after.push_back(into[i]);
  }
  // Arguments of their own keep the values of the body from being those of the forward pass.
  for (size_t i = 0; arg.recompute && after.size() > 1 && i + 1 < u.n_srcs(); i++) {
    List waits{view_base(arguments[i])};
    const std::string& home = waits[0].device();
    for (const UOp& g : std::span(after).subspan(1))
      if (g.device() == home || !(names_several(home) || names_several(g.device()))) waits.push_back(g);
    if (!home.empty() && waits.size() > 1)
      arguments[i] = substitute(arguments[i], {{waits[0], UOp::make(Op::After, DType::Void, waits)}});
  }
  const List found = gradients(roots, seeds, targets);
  for (const UOp& g : found)
    if (g) values.push_back(g);
  List out(u.n_srcs());
  const UOp made =
      call(sink(values), arguments, {.name = arg.name + "_gradient", .precompile = arg.precompile});
  size_t n = 0;
  for (size_t i = 0; i < found.size(); i++)
    if (found[i]) out[source_of(targets[i])] = call_result(made, n++);
  return out;
}

// One gradient a source of the Call, the first of which is its body.
List call_gradient(const UOp& u, List& into, const std::unordered_set<const Node*>& on_path) {
  const CallArg& arg = *u.arg_as<CallPtr>();
  const bool is_kernel = std::holds_alternative<KernelPtr>(u.src(0).arg());
  if (!arg.gradient) {
    if (is_kernel)
      user_runtime_error("failed to compute gradient for Call: the kernel {} was given no gradient",
                         arg.name);
    return function_gradient(u, into, on_path);
  }
  into.resize(is_kernel ? static_cast<size_t>(arg.n_written) : u.src(0).n_srcs());
  for (size_t i = 0; i < into.size(); i++) {
    const UOp& v = is_kernel ? u.src(1 + i) : u.src(0).src(i);
    if (!into[i]) into[i] = broadcast_to(constant(v.dtype(), Scalar(0)), v.shape());
  }
  List out = arg.gradient->of_arguments(u, into);
  if (out.size() + 1 != u.n_srcs())
    value_error("the gradient of {} has {} parts for {} arguments", arg.name, out.size(), u.n_srcs() - 1);
  out.insert(out.begin(), UOp());
  return out;
}

}  // namespace

GradientKind gradient_kind(Op op) {
  if (kWithRule.contains(op)) return GradientKind::Rule;
  if (kNoGradient.contains(op)) return GradientKind::None;
  CHECK(kRefused.contains(op), "{} has no entry for gradients", op);
  return GradientKind::Refused;
}

std::vector<UOp> gradients(std::span<const UOp> roots, std::span<const UOp> root_grads,
                           std::span<const UOp> targets) {
  static const Matcher<List> matcher(kGradient);
  const NodeList order = toposort(sink(roots));
  const std::unordered_set<const Node*> on_path = nodes_on_path(order, targets);
  std::unordered_map<const Node*, UOp> grads;
  std::unordered_map<const Node*, List> into_calls;  // what flows into the values that each makes
  const auto add = [&](const UOp& g, UOp& to) { to = to ? to + g : g; };
  for (size_t i = 0; i < roots.size(); i++)
    if (on_path.count(roots[i].node())) add(fit_to(root_grads[i], roots[i]), grads[roots[i].node()]);
  for (size_t i = order.size(); i-- > 0;) {
    const UOp& u = order[i];
    const auto own = grads.find(u.node());
    const auto calls = into_calls.find(u.node());
    if ((own == grads.end() && calls == into_calls.end()) || u.n_srcs() == 0 || kNoGradient.contains(u.op()))
      continue;
    if (std::ranges::none_of(u.srcs(), [&](const UOp& s) { return on_path.count(s.node()) != 0; })) continue;
    List list;
    if (const UOp* call = call_behind(u)) {
      List& values = into_calls[call->node()];
      values.resize(std::max<size_t>(call->src(0).n_srcs(), call->n_srcs()));
      add(own->second, values[position_in_call(u, *call)]);
      continue;
    }
    if (u.op() == Op::Call) {
      list = call_gradient(u, calls->second, on_path);
    } else {
      Incoming context{own->second};
      list = matcher.rewrite(u, context);
    }
    if (list.empty()) user_runtime_error("failed to compute gradient for {}", u.op());
    for (size_t k = 0; k < list.size(); k++) {
      const UOp& s = u.src(k);
      if (!list[k] || !on_path.count(s.node())) continue;
      // A Store stands for the value that it writes.
      add(s.op() == Op::Store ? list[k] : fit_to(list[k], s), grads[s.node()]);
    }
  }
  std::vector<UOp> out;
  for (const UOp& t : targets) {
    const auto found = grads.find(t.node());
    out.push_back(found == grads.end() ? UOp() : found->second);
  }
  return out;
}

}  // namespace lathe
