#include "uop/spec_rules.h"

#include "uop/arg_kind.h"
#include "uop/derive.h"
#include "uop/pattern.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr OpSet without(OpSet s, const OpSet& o) {
  for (int i = 0; i < 2; i++) s.words[i] &= ~o.words[i];
  return s;
}

constexpr OpSet kShifts = {Op::Shl, Op::Shr};
constexpr OpSet kArithmetic = without(kAluOps, ops_with(kComparison) | kShifts);
constexpr OpSet kValueOps = kAluOps | OpSet{Op::Index,   Op::Load,  Op::Cast,   Op::Bitcast, Op::Range,
                                            Op::Special, Op::Const, Op::Reduce, Op::Dot};
constexpr OpSet kAccesses = {Op::Load, Op::Store}, kStorage = {Op::Param, Op::Buffer};
constexpr OpSet kAfterTargets =
    kMovementOps | kStorage |
    OpSet{Op::Contiguous, Op::Index, Op::After, Op::Bitcast, Op::Stage, Op::Copy, Op::Multi};

bool each(std::span<const UOp> list, auto holds) { return std::all_of(list.begin(), list.end(), holds); }

// `x` may stand where a value of `d` is wanted.
bool agrees(const UOp& x, DType d) { return x.dtype() == d || is_weak(x.dtype()) || x.is_invalid(); }

bool is_scalar(const UOp& u) { return u.has_shape() && u.shape().empty(); }
bool is_range(const UOp& u) { return u.op() == Op::Range; }
bool is_counter(DType d) { return d == DType::Int32 || d == DType::Int64; }

// Scalars, or with the lanes of `like`.
bool have_lanes_of(std::span<const UOp> list, const UOp& like) {
  return each(list, [&](const UOp& s) {
    return is_scalar(s) || (s.has_shape() && s.node()->shape == like.node()->shape);
  });
}

bool payload_exists(const UOp& u) {
  const ArgKind kind = kind_of(u.arg());
  if (kind != info(u.op()).arg && (kind != ArgKind::None || !has_flag(u.op(), kOptionalArg))) return false;
  if (const auto* p = std::get_if<ParamPtr>(&u.arg())) return *p != nullptr;
  if (const auto* k = std::get_if<KernelPtr>(&u.arg())) return *k != nullptr;
  if (const auto* c = std::get_if<CallPtr>(&u.arg())) return *c != nullptr;
  return true;
}

bool compared_agree(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  const DType d = a.is_invalid() ? b.dtype() : b.is_invalid() ? a.dtype() : join(a.dtype(), b.dtype());
  return agrees(a, d) && agrees(b, d);
}

bool reduce_form(const UOp& u) {
  const auto& arg = u.arg_as<ReduceArg>();
  if (!has_flag(arg.op, kReduceOp) || arg.n_axes < 0) return false;
  // A Special stands for the work items that share the reduction.
  const auto is_loop = [](const UOp& r) { return is_range(r) || r.op() == Op::Special; };
  return arg.n_axes == 0 ? u.n_srcs() > 1 && each(u.srcs().subspan(1), is_loop) : u.n_srcs() == 1;
}

bool axes_form(const UOp& u) {
  const auto axes = u.arg_as<AxesArg>().span();
  if (!u.src(0).has_shape() || axes.size() != u.src(0).shape().size()) return false;
  const int most = u.op() == Op::Flip ? 1 : static_cast<int>(axes.size()) - 1;
  uint32_t seen = 0;
  for (const int8_t a : axes) {
    if (a < 0 || a > most || (u.op() == Op::Permute && (seen >> a & 1))) return false;
    seen |= 1u << a;
  }
  return true;
}

bool storage_form(const UOp& u) {
  const ParamArg& p = u.param();
  if (p.dtype != u.dtype()) return false;
  if (p.space == AddrSpace::Alu) return !p.name.empty() && is_scalar(u);
  return p.dtype != DType::Void && !is_weak(p.dtype);
}

bool boxes_fit(const UOp& u) {
  const Shape& in = u.src(0).shape();
  const Shape offset = shape_from_node(u.src(1)), size = shape_from_node(u.src(2));
  if (offset.size() != in.size() || size.size() != in.size()) return false;
  for (size_t i = 0; i < in.size(); i++) {
    if (!in[i].is_const() || !offset[i].is_const() || !size[i].is_const()) continue;
    const int64_t inner = u.op() == Op::Pad ? in[i].value() : size[i].value();
    const int64_t outer = u.op() == Op::Pad ? size[i].value() : in[i].value();
    if (offset[i].value() < 0 || inner < 0 || offset[i].value() > outer - inner) return false;
  }
  return true;
}

// Which numbers an operand holds; bfloat16 may be there by its bits.
bool dot_form(const UOp& u) {
  const DType a = u.src(1).dtype(), b = u.src(2).dtype();
  const bool integers = (a == DType::UInt8 && b == DType::Int8) || (a == DType::Int16 && b == DType::Int16);
  const bool floats = a == b && (a == DType::BFloat16 || a == DType::UInt16);
  if (u.dtype() != (integers ? DType::Int32 : DType::Float32) || !(integers || floats)) return false;
  if (!each(u.srcs().subspan(3), is_range)) return false;
  const int64_t group = 32 / bit_width(a), lanes = is_scalar(u) ? 1 : u.shape()[0].value();
  return (is_scalar(u.src(0)) || u.src(0).node()->shape == u.node()->shape) &&
         each(u.srcs().subspan(1, 2), [&](const UOp& s) {
           if (is_scalar(s)) return true;
           return s.shape()[0] == SInt(group) || s.shape()[0] == SInt(group * lanes);
         });
}

bool is_vector(const Node* range) { return std::get<RangeArg>(range->arg).type == AxisType::Vector; }

bool argument_form(const UOp& u) {
  const ParamArg& p = u.param();
  if (u.op() == Op::Buffer) return p.space == AddrSpace::Reg || p.space == AddrSpace::Local;
  return p.space == AddrSpace::Global ? p.slot >= 0 : p.space == AddrSpace::Alu && is_counter(p.dtype);
}

bool strong_sources(const UOp& u) {
  // A weak Stack is a shape or a size; where it is used as a value, its user fails.
  if (u.op() == Op::Stack && is_weak(u.dtype())) return true;
  for (size_t i = 0; i < u.n_srcs(); i++)
    if (is_weak(u.src(i).dtype()) && !is_compile_time_source(u, i)) return false;
  return true;
}

using U = const UOp&;
constexpr OpSet of(std::same_as<Op> auto... ops) { return {ops...}; }
constexpr uint8_t kT = 1 << static_cast<int>(SpecLevel::Tensor),
                  kK = 1 << static_cast<int>(SpecLevel::Kernel),
                  kP = 1 << static_cast<int>(SpecLevel::Program), kAll = kT | kK | kP;

// Rules below the first three may take the payload, the sources and the dtype of the node for granted.
const SpecRule kRules[] = {
    {kAll, pat::kEveryOp, "the payload is the one of the op", payload_exists},
    {kAll, pat::kEveryOp, "the number of sources is the one of the op",
     [](U u) {
       const auto least = static_cast<size_t>(min_sources(u.op()));
       return info(u.op()).arity < 0 ? u.n_srcs() >= least : u.n_srcs() == least;
     }},
    {kAll, pat::kEveryOp, "the dtype follows from the sources",
     [](U u) {
       return info(u.op()).dtype_rule == DTypeRule::Arg ||
              derive_dtype(u.op(), u.srcs(), u.arg()) == u.dtype();
     }},
    {kAll, of(Op::Const), "a constant is a value of its dtype; Invalid is bool",
     [](U u) {
       if (u.is_invalid()) return u.dtype() == DType::Bool;
       return u.dtype() != DType::Void && cast_scalar(u.value(), u.dtype()) == u.value();
     }},
    {kAll, of(Op::Stack), "lanes have one shape, and the dtype of the Stack unless they are weak or Invalid",
     [](U u) {
       return each(u.srcs(), [&](U s) {
         return s.has_shape() && s.node()->shape == u.src(0).node()->shape && agrees(s, u.dtype());
       });
     }},
    {kAll, kArithmetic, "operands have the dtype of the result unless they are weak or Invalid",
     [](U u) {
       return each(u.srcs().subspan(u.op() == Op::Where), [&](U s) { return agrees(s, u.dtype()); });
     }},
    {kAll, ops_with(kComparison), "compared operands have one dtype unless they are weak or Invalid",
     compared_agree},
    {kAll, of(Op::Where, Op::If), "the condition is bool", [](U u) { return is_bool(u.src(0).dtype()); }},
    {kAll, ops_with(kNoFloat), "bit operations are not for floats", [](U u) { return !is_float(u.dtype()); }},
    {kAll, ops_with(kIntOnly), "the operation is for integers only",
     [](U u) { return is_int(u.dtype()) || !each(u.srcs(), [](U s) { return !s.is_invalid(); }); }},
    {kAll, kShifts, "a shift count has the dtype of the shifted value, uint or weakint",
     [](U u) {
       const UOp& n = u.src(1);
       return n.dtype() == u.dtype() || n.dtype() == DType::UInt32 || n.dtype() == DType::WeakInt ||
              n.is_invalid();
     }},
    {kAll, of(Op::Index), "coordinates are integers or Invalid",
     [](U u) { return each(u.srcs().subspan(1), [](U i) { return is_int(i.dtype()) || i.is_invalid(); }); }},
    {kAll, of(Op::End, Op::Stage), "sources 1.. are Ranges",
     [](U u) { return each(u.srcs().subspan(1), is_range); }},
    {kAll, of(Op::Range, Op::Special), "the end is a scalar integer",
     [](U u) { return is_int(u.src(0).dtype()) && is_scalar(u.src(0)); }},
    {kAll, of(Op::Group), "a Group holds effects",
     [](U u) { return each(u.srcs(), [](U s) { return s.dtype() == DType::Void; }); }},
    {kAll, of(Op::Cast, Op::Bitcast), "a cast is from a value to a value",
     [](U u) { return u.dtype() != DType::Void && u.src(0).dtype() != DType::Void; }},
    {kAll, of(Op::Bitcast), "a bitcast is between dtypes that have bits",
     [](U u) { return !is_weak(u.dtype()) && !is_weak(u.src(0).dtype()); }},
    {kAll, of(Op::Load),
     "a Load has an address, and both or none of an alternative of its dtype and a bool gate",
     [](U u) {
       return u.n_srcs() == 1 ||
              (u.n_srcs() == 3 && agrees(u.src(1), u.dtype()) && is_bool(u.src(2).dtype()));
     }},
    {kAll, of(Op::Store), "a Store has an address, a value of the address's dtype, and at most a bool gate",
     [](U u) {
       return agrees(u.src(1), u.src(0).dtype()) &&
              (u.n_srcs() == 2 || (u.n_srcs() == 3 && is_bool(u.src(2).dtype())));
     }},
    {kAll, of(Op::Reduce), "a Reduce folds with Add, Mul or Max over leading axes or over Ranges, not both",
     reduce_form},
    {kAll, of(Op::Permute, Op::Flip), "one axis number or flag an axis", axes_form},
    {kAll, kStorage | OpSet{Op::Reshape, Op::Expand, Op::Pad, Op::Shrink}, "shapes are Stacks of integers",
     [](U u) {
       return each(u.srcs().subspan(kStorage.contains(u.op()) ? 0 : 1), [](U shape) {
         return shape.op() == Op::Stack && each(shape.srcs(), [](U size) { return is_int(size.dtype()); });
       });
     }},
    {kAll, kStorage, "memory has a strong dtype, that of its payload; a variable is a named scalar",
     storage_form},
    {kAll, of(Op::EndIf), "an EndIf names its If", [](U u) { return u.src(0).op() == Op::If; }},
    {kAll, of(Op::After), "only memory, views of it and addresses wait for effects",
     [](U u) { return kAfterTargets.contains(u.src(0).op()); }},

    {kT, of(Op::Pad, Op::Shrink), "the smaller box lies inside the larger one", boxes_fit},
    {kT, of(Op::Copy), "a Copy names its device", [](U u) { return !u.arg_as<DeviceArg>().device->empty(); }},
    {kT, of(Op::Call), "the body of a Call is a Sink", [](U u) { return u.src(0).op() == Op::Sink; }},
    {kT, of(Op::Result), "a Result has the dtype of the value that it stands for",
     [](U u) { return u.src(0).src(0).src(static_cast<size_t>(u.value().as_i64())).dtype() == u.dtype(); }},
    {kT, of(Op::Multi),
     "parts have one shape and dtype, a device each, and are split along one of their axes",
     [](U u) {
       const auto axes = u.arg_as<AxesArg>().span();
       if (axes.size() > 1 || (axes.size() == 1 && (axes[0] < 0 || axes[0] >= u.ndim()))) return false;
       return each(u.srcs(), [&](U s) {
         return s.node()->shape == u.src(0).node()->shape && s.dtype() == u.dtype() && !s.device().empty() &&
                !names_several(s.device());
       });
     }},

    {kP, pat::kEveryOp, "no weak dtype in a program: literals are typed constants", strong_sources},
    {kP, kAluOps | OpSet{Op::Load, Op::Cast, Op::Range, Op::Special},
     "no weak dtype in a program: literals are typed constants", [](U u) { return !is_weak(u.dtype()); }},
    {kP, of(Op::Const), "no Invalid in a program", [](U u) { return !u.is_invalid(); }},
    {kK | kP, kValueOps, "values are scalars or vectors of constant length",
     [](U u) {
       if (!u.has_shape() || u.dtype() == DType::Void) return true;
       return u.shape().empty() || (u.shape().size() == 1 && u.shape()[0].is_const());
     }},
    {kK | kP, kStorage, "memory is flat",
     [](U u) { return u.param().space == AddrSpace::Alu || u.shape().size() == 1; }},
    {kP, kStorage,
     "arguments are Global memory with a slot or int and long variables; Buffers are Reg or Local",
     argument_form},
    {kK | kP, kAluOps, "operands are scalars or have as many lanes as the result",
     [](U u) { return have_lanes_of(u.srcs(), u); }},
    {kP, of(Op::Stack), "lanes are scalars", [](U u) { return each(u.srcs(), is_scalar); }},
    {kP, of(Op::Range), "loops count in int or long", [](U u) { return is_counter(u.dtype()); }},
    {kP, of(Op::Special), "a launch index is an int", [](U u) { return u.dtype() == DType::Int32; }},
    {kP, of(Op::If), "the condition of an If is a scalar", [](U u) { return is_scalar(u.src(0)); }},
    {kK | kP, of(Op::Index), "memory and vectors have one coordinate", [](U u) { return u.n_srcs() == 2; }},
    {kP, of(Op::Index),
     "an Index is an address with integer coordinates, or picks constant lanes of a vector",
     [](U u) {
       if (is_memory(u.src(0))) return is_int(u.src(1).dtype());
       return u.src(0).has_shape() && u.src(0).shape().size() == 1 && is_compile_time_source(u, 1);
     }},
    {kK | kP, of(Op::Shrink), "a Shrink is the address of a constant number of elements of memory",
     [](U u) {
       return is_memory(u.src(0)) && u.src(1).n_srcs() == 1 && u.src(2).n_srcs() == 1 &&
              u.src(2).src(0).is_const() && u.src(2).src(0).value().as_int() > 0;
     }},
    {kK | kP, kAccesses, "memory is reached through an Index or a Shrink of it",
     [](U u) { return is_address(u.src(0)); }},
    // While a Vector Range is left, what depends on it is still written as a scalar, and stands for as many
    // lanes.
    {kK, kAccesses, "values and gates are scalars or have as many lanes as the address",
     [](U u) {
       const RangeSet& open = u.src(0).ranges();
       return have_lanes_of(u.srcs().subspan(1), u.src(0)) ||
              (is_scalar(u.src(0)) && std::any_of(open.begin(), open.end(), is_vector));
     }},
    {kP, kAccesses, "values and gates are scalars or have as many lanes as the address",
     [](U u) { return have_lanes_of(u.srcs().subspan(1), u.src(0)); }},
    {kK, of(Op::Reduce), "a Reduce in a kernel is over Ranges",
     [](U u) { return u.arg_as<ReduceArg>().n_axes == 0; }},
    {kK | kP, of(Op::Dot),
     "operands of a Dot are uint8 and int8, both int16 or both bfloat16, a group of them a lane", dot_form},
    {kP, of(Op::Dot), "the groups of a Dot are lanes", [](U u) { return u.n_srcs() == 3; }},
    {kK, of(Op::Sink), "every loop is closed, except one that becomes lanes",
     [](U u) { return std::all_of(u.ranges().begin(), u.ranges().end(), is_vector); }},
};

// Graphs have other forms for the late ops (docs/ir.md); targets bring them back.
constexpr OpSet kTensorOps = without(kAluOps, kLateOps) | kMovementOps | kStorage |
                             OpSet{Op::Const,  Op::Cast,  Op::Bitcast, Op::Stack,      Op::Reduce,
                                   Op::After,  Op::Store, Op::Copy,    Op::Contiguous, Op::ContiguousBackward,
                                   Op::Detach, Op::Call,  Op::Result,  Op::Linear,     Op::Sink,
                                   Op::Group,  Op::Noop,  Op::Range,   Op::Index,      Op::Stage,
                                   Op::End,    Op::Multi};
// Late ops as well: actions and decompositions work here.
constexpr OpSet kKernelOps = kAluOps | kStorage | kAccesses |
                             OpSet{Op::Special, Op::Const, Op::Cast, Op::Bitcast, Op::Stack, Op::Index,
                                   Op::Shrink,  Op::Range, Op::End,  Op::Reduce,  Op::After, Op::Group,
                                   Op::Dot,     Op::Noop,  Op::Sink, Op::Barrier, Op::If,    Op::EndIf};

}  // namespace

std::span<const SpecRule> spec_rules() { return kRules; }

OpSet level_ops(SpecLevel level) {
  if (level == SpecLevel::Tensor) return kTensorOps;
  return level == SpecLevel::Kernel ? kKernelOps : without(kKernelOps, {Op::Reduce});
}

const UOp& strip_after(const UOp& u) {
  const UOp* p = &u;
  while (p->op() == Op::After) p = &p->src(0);
  return *p;
}

bool is_memory(const UOp& u) {
  const UOp& base = strip_after(u);
  return (base.op() == Op::Buffer || base.op() == Op::Param) && base.param().space != AddrSpace::Alu;
}

bool is_address(const UOp& u) {
  const UOp& base = strip_after(u);
  return (base.op() == Op::Index || base.op() == Op::Shrink) && is_memory(base.src(0));
}

bool is_compile_time_source(const UOp& u, size_t i) {
  switch (u.op()) {
    case Op::Param:
    case Op::Buffer: return i == 0;
    case Op::Shrink: return i == 2;
    case Op::Index: {
      if (i == 0 || is_memory(u.src(0))) return false;
      const UOp& lane = u.src(i);
      return lane.is_const() ||
             (lane.op() == Op::Stack &&
              std::all_of(lane.srcs().begin(), lane.srcs().end(), [](const UOp& s) { return s.is_const(); }));
    }
    default: return false;
  }
}

}  // namespace lathe
