// Rules that hold at every level.
#include "uop/spec_rules.h"

#include "uop/arg_kind.h"
#include "uop/derive.h"
#include "uop/image.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr OpSet all_ops() {
  OpSet s;
  for (int i = 0; i < kNumOps; i++) s.insert(static_cast<Op>(i));
  return s;
}

constexpr OpSet without(OpSet s, const OpSet& o) {
  s.words[0] &= ~o.words[0];
  s.words[1] &= ~o.words[1];
  return s;
}

constexpr OpSet kComparisons = ops_with(kComparison);
constexpr OpSet kShifts = {Op::Shl, Op::Shr};
constexpr OpSet kArithmetic = without(kAluOps, kComparisons | kShifts);

bool payload_exists(const UOp& u) {
  const ArgRule rule = arg_rule(u.op());
  const ArgKind kind = kind_of(u.arg());
  if (kind != rule.kind && (rule.required || kind != ArgKind::None)) return false;
  if (const auto* p = std::get_if<ParamPtr>(&u.arg())) return *p != nullptr;
  if (const auto* k = std::get_if<KernelPtr>(&u.arg())) return *k != nullptr;
  return true;
}

bool source_count(const UOp& u) {
  const auto least = static_cast<size_t>(min_sources(u.op()));
  return info(u.op()).arity < 0 ? u.n_srcs() >= least : u.n_srcs() == least;
}

bool dtype_follows(const UOp& u) {
  return info(u.op()).dtype_rule == DTypeRule::Arg || derive_dtype(u.op(), u.srcs(), u.arg()) == u.dtype();
}

bool const_fits(const UOp& u) {
  if (u.dtype() == DType::Void) return false;
  return u.is_invalid() ? u.dtype() == DType::Bool : cast_scalar(u.value(), u.dtype()) == u.value();
}

// `x` may stand where a value of `d` is wanted.
bool agrees(const UOp& x, DType d) { return x.dtype() == d || is_weak(x.dtype()) || x.is_invalid(); }

bool lanes_agree(const UOp& u) {
  for (const UOp& lane : u.srcs())
    if (!lane.has_shape() || lane.node()->shape != u.src(0).node()->shape || !agrees(lane, u.dtype()))
      return false;
  return true;
}

bool operands_agree(const UOp& u) {
  for (size_t i = u.op() == Op::Where; i < u.n_srcs(); i++)
    if (!agrees(u.src(i), u.dtype())) return false;
  return true;
}

bool compared_agree(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  const DType d = a.is_invalid() ? b.dtype() : b.is_invalid() ? a.dtype() : join(a.dtype(), b.dtype());
  return agrees(a, d) && agrees(b, d);
}

bool condition_is_bool(const UOp& u) { return u.src(0).dtype() == DType::Bool; }

bool any_invalid(const UOp& u) {
  return std::any_of(u.srcs().begin(), u.srcs().end(), [](const UOp& s) { return s.is_invalid(); });
}

bool not_float(const UOp& u) { return !is_float(u.dtype()); }
bool is_integer(const UOp& u) { return is_int(u.dtype()) || any_invalid(u); }

bool shift_count(const UOp& u) {
  const UOp& n = u.src(1);
  return n.dtype() == u.dtype() || n.dtype() == DType::UInt32 || n.dtype() == DType::WeakInt ||
         n.is_invalid();
}

bool coordinates_are_ints(const UOp& u) {
  for (const UOp& i : u.srcs().subspan(1))
    if (!is_int(i.dtype()) && !i.is_invalid()) return false;
  return true;
}

bool ranges_follow(const UOp& u) {
  for (const UOp& r : u.srcs().subspan(1))
    if (r.op() != Op::Range) return false;
  return true;
}

bool end_is_int(const UOp& u) {
  return is_int(u.src(0).dtype()) && u.src(0).has_shape() && u.src(0).shape().empty();
}

constexpr OpSet kAfterTargets = kMovementOps | OpSet{Op::Param, Op::Buffer,  Op::Contiguous, Op::Index,
                                                     Op::After, Op::Bitcast, Op::Stage,      Op::Copy};
bool after_target(const UOp& u) { return kAfterTargets.contains(u.src(0).op()); }

bool effects_only(const UOp& u) {
  return std::all_of(u.srcs().begin(), u.srcs().end(), [](const UOp& s) { return s.dtype() == DType::Void; });
}

bool has_value(const UOp& u) { return u.dtype() != DType::Void && u.src(0).dtype() != DType::Void; }
bool has_bits(const UOp& u) { return has_value(u) && !is_weak(u.dtype()) && !is_weak(u.src(0).dtype()); }

bool load_form(const UOp& u) {
  if (u.n_srcs() == 1) return true;
  return u.n_srcs() == 3 && agrees(u.src(1), u.dtype()) && u.src(2).dtype() == DType::Bool;
}

bool store_form(const UOp& u) {
  if (u.n_srcs() > 3 || !agrees(u.src(1), u.src(0).dtype())) return false;
  return u.n_srcs() == 2 || u.src(2).dtype() == DType::Bool;
}

bool reduce_form(const UOp& u) {
  const auto& arg = u.arg_as<ReduceArg>();
  if (!has_flag(arg.op, kReduceOp) || arg.n_axes < 0) return false;
  return arg.n_axes == 0 ? u.n_srcs() > 1 && ranges_follow(u) : u.n_srcs() == 1;
}

bool axes_form(const UOp& u) {
  const auto axes = u.arg_as<AxesArg>().span();
  if (!u.src(0).has_shape() || axes.size() != u.src(0).shape().size()) return false;
  uint32_t seen = 0;
  for (const int8_t a : axes) {
    if (a < 0 || static_cast<size_t>(a) >= std::max<size_t>(axes.size(), 2)) return false;
    if (u.op() == Op::Flip && a > 1) return false;
    if (u.op() == Op::Permute && (seen >> a & 1)) return false;
    seen |= 1u << a;
  }
  return true;
}

bool shapes_are_stacks(const UOp& u) {
  const size_t first = u.op() == Op::Param || u.op() == Op::Buffer ? 0 : 1;
  for (const UOp& shape : u.srcs().subspan(first)) {
    if (shape.op() != Op::Stack) return false;
    for (const UOp& size : shape.srcs())
      if (!is_int(size.dtype())) return false;
  }
  return true;
}

bool storage_form(const UOp& u) {
  const ParamArg& p = u.param();
  if (p.dtype != u.dtype()) return is_image(u);
  if (p.space == AddrSpace::Alu) return !p.name.empty() && u.has_shape() && u.shape().empty();
  return p.dtype != DType::Void && !is_weak(p.dtype);
}

bool closes_if(const UOp& u) { return u.src(0).op() == Op::If; }

// Rules below the first three may take their payload, their sources and their dtype for granted.
const SpecRule kShared[] = {
    {all_ops(), "the payload is the one of the op", payload_exists},
    {all_ops(), "the number of sources is the one of the op", source_count},
    {all_ops(), "the dtype follows from the sources", dtype_follows},
    {{Op::Const}, "a constant is a value of its dtype; Invalid is bool", const_fits},
    {{Op::Stack},
     "lanes have one shape, and the dtype of the Stack unless they are weak or Invalid",
     lanes_agree},
    {kArithmetic, "operands have the dtype of the result unless they are weak or Invalid", operands_agree},
    {kComparisons, "compared operands have one dtype unless they are weak or Invalid", compared_agree},
    {{Op::Where, Op::If}, "the condition is bool", condition_is_bool},
    {ops_with(kNoFloat), "bit operations are not for floats", not_float},
    {ops_with(kIntOnly), "the operation is for integers only", is_integer},
    {kShifts, "a shift count has the dtype of the shifted value, uint or weakint", shift_count},
    {{Op::Index}, "coordinates are integers or Invalid", coordinates_are_ints},
    {{Op::End, Op::Stage}, "sources 1.. are Ranges", ranges_follow},
    {{Op::Range, Op::Special}, "the end is a scalar integer", end_is_int},
    {{Op::Group}, "a Group holds effects", effects_only},
    {{Op::Cast}, "a cast is from a value to a value", has_value},
    {{Op::Bitcast}, "a bitcast is between dtypes that have bits", has_bits},
    {{Op::Load},
     "a Load has an address, and both or none of an alternative of its dtype and a bool gate",
     load_form},
    {{Op::Store},
     "a Store has an address, a value of the address's dtype, and at most a bool gate",
     store_form},
    {{Op::Reduce},
     "a Reduce folds with Add, Mul or Max over leading axes or over Ranges, not both",
     reduce_form},
    {{Op::Permute, Op::Flip}, "one axis number or flag an axis", axes_form},
    {{Op::Param, Op::Buffer, Op::Reshape, Op::Expand, Op::Pad, Op::Shrink},
     "shapes are Stacks of integers",
     shapes_are_stacks},
    {{Op::Param, Op::Buffer},
     "memory has a strong dtype, that of its payload; a variable is a named scalar",
     storage_form},
    {{Op::EndIf}, "an EndIf names its If", closes_if},
};

// ---- tensor

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

bool names_device(const UOp& u) { return !u.arg_as<DeviceArg>().device->empty(); }

bool callable(const UOp& u) {
  const Op body = u.src(0).op();
  return body == Op::Sink || body == Op::Linear || body == Op::Copy;
}

const SpecRule kTensor[] = {
    {{Op::Pad, Op::Shrink}, "the smaller box lies inside the larger one", boxes_fit},
    {{Op::Copy}, "a Copy names its device", names_device},
    {{Op::Call}, "the body of a Call is a Sink, a Linear or a Copy", callable},
    {{Op::After}, "only memory, views of it and addresses wait for effects", after_target},
};

// ---- kernel

bool is_flat_value(const UOp& u) {
  if (!u.has_shape() || u.dtype() == DType::Void) return true;
  return u.shape().empty() || (u.shape().size() == 1 && u.shape()[0].is_const());
}

bool is_flat_memory(const UOp& u) {
  return u.param().space == AddrSpace::Alu || u.shape().size() == 1 || is_image(u);
}

bool same_lanes(const UOp& u) {
  for (const UOp& s : u.srcs())
    if (!s.has_shape() || (!s.shape().empty() && s.node()->shape != u.node()->shape)) return false;
  return true;
}

bool has_coordinates(const UOp& u) {
  const Node* n = u.src(0).node();
  while (n->op == Op::After) n = n->src_begin()->node();
  if (!is_image(UOp(n))) return u.n_srcs() == 2;
  return u.n_srcs() == 3 && u.src(1).shape().empty() && u.src(2).shape().empty();
}

bool through_address(const UOp& u) { return spec_is_address(u.src(0)); }

bool accessed_lanes(const UOp& u) {
  for (const UOp& s : u.srcs().subspan(1))
    if (!s.has_shape() || (!s.shape().empty() && s.node()->shape != u.src(0).node()->shape)) return false;
  return true;
}

// While a Vector Range is left, what depends on it is still written as a scalar, and stands for as many
// lanes.
bool accessed_lanes_or_vector_range(const UOp& u) {
  if (accessed_lanes(u)) return true;
  const RangeSet& open = u.src(0).ranges();
  return u.src(0).shape().empty() && std::any_of(open.begin(), open.end(), [](const Node* r) {
           return std::get<RangeArg>(r->arg).type == AxisType::Vector;
         });
}

// Shrink occurs only as the address of contiguous elements.
bool address_form(const UOp& u) {
  return spec_is_memory(u.src(0)) && u.src(1).n_srcs() == 1 && u.src(2).n_srcs() == 1 &&
         u.src(2).src(0).is_const() && u.src(2).src(0).value().as_int() > 0;
}

bool over_ranges(const UOp& u) { return u.arg_as<ReduceArg>().n_axes == 0; }

constexpr OpSet kValueOps = kAluOps | OpSet{Op::Index, Op::Load,    Op::Cast,  Op::Bitcast,
                                            Op::Range, Op::Special, Op::Const, Op::Reduce};

const SpecRule kKernel[] = {
    {kValueOps, "values are scalars or vectors of constant length", is_flat_value},
    {{Op::Param, Op::Buffer}, "memory is flat, or an image", is_flat_memory},
    {kAluOps, "operands are scalars or have as many lanes as the result", same_lanes},
    {{Op::Index}, "memory and vectors have one coordinate, images two", has_coordinates},
    {{Op::Load, Op::Store}, "memory is reached through an Index or a Shrink of it", through_address},
    {{Op::Load, Op::Store},
     "values and gates are scalars or have as many lanes as the address",
     accessed_lanes_or_vector_range},
    {{Op::Shrink}, "a Shrink is the address of a constant number of elements of memory", address_form},
    {{Op::Reduce}, "a Reduce in a kernel is over Ranges", over_ranges},
    {{Op::After}, "only memory, views of it and addresses wait for effects", after_target},
};

// ---- program

bool strong_sources(const UOp& u) {
  // A weak Stack is a shape or a size; where it is used as a value, its user fails.
  if (u.op() == Op::Stack && is_weak(u.dtype())) return true;
  for (size_t i = 0; i < u.n_srcs(); i++)
    if (is_weak(u.src(i).dtype()) && !is_compile_time_source(u, i)) return false;
  return true;
}

bool strong_result(const UOp& u) { return !is_weak(u.dtype()); }
bool no_invalid(const UOp& u) { return !u.is_invalid(); }

bool same_dtypes(const UOp& u) {
  if (u.op() == Op::Shl || u.op() == Op::Shr) return u.src(0).dtype() == u.dtype();
  if (has_flag(u.op(), kComparison)) return u.src(0).dtype() == u.src(1).dtype();
  for (size_t i = u.op() == Op::Where; i < u.n_srcs(); i++)
    if (u.src(i).dtype() != u.dtype()) return false;
  return true;
}

bool is_counter(DType d) { return d == DType::Int32 || d == DType::Int64; }

bool param_form(const UOp& u) {
  const ParamArg& p = u.param();
  if (u.op() == Op::Buffer) return p.space == AddrSpace::Reg || p.space == AddrSpace::Local;
  return p.space == AddrSpace::Global ? p.slot >= 0 : p.space == AddrSpace::Alu && is_counter(p.dtype);
}

bool range_counts(const UOp& u) { return is_counter(u.dtype()); }
bool special_counts(const UOp& u) { return u.dtype() == DType::Int32; }

bool index_form(const UOp& u) {
  if (spec_is_memory(u.src(0))) return is_int(u.src(1).dtype());
  return u.src(0).has_shape() && u.src(0).shape().size() == 1 && is_compile_time_source(u, 1);
}

bool scalar_condition(const UOp& u) { return u.src(0).has_shape() && u.src(0).shape().empty(); }

bool scalar_lanes(const UOp& u) {
  return std::all_of(u.srcs().begin(), u.srcs().end(), [](const UOp& s) { return s.shape().empty(); });
}

bool strong_value(const UOp& u) {
  return u.src(1).dtype() == (u.op() == Op::Store ? u.src(0).dtype() : u.dtype());
}
bool access_dtypes(const UOp& u) { return u.n_srcs() == 1 || strong_value(u); }

const SpecRule kProgram[] = {
    {all_ops(), "no weak dtype in a program: literals are typed constants", strong_sources},
    {kAluOps | OpSet{Op::Load, Op::Cast, Op::Range, Op::Special}, "no weak dtype in a program",
     strong_result},
    {{Op::Const}, "no Invalid in a program", no_invalid},
    {kValueOps, "values are scalars or vectors of constant length", is_flat_value},
    {{Op::Param, Op::Buffer}, "memory is flat, or an image", is_flat_memory},
    {{Op::Param, Op::Buffer},
     "arguments are Global memory with a slot or int and long variables; Buffers are Reg or Local",
     param_form},
    {kAluOps, "operands have the dtype of the result", same_dtypes},
    {kAluOps, "operands are scalars or have as many lanes as the result", same_lanes},
    {{Op::Stack}, "lanes are scalars", scalar_lanes},
    {{Op::Range}, "loops count in int or long", range_counts},
    {{Op::Special}, "a launch index is an int", special_counts},
    {{Op::If}, "the condition of an If is a scalar", scalar_condition},
    {{Op::Index}, "memory and vectors have one coordinate, images two", has_coordinates},
    {{Op::Index},
     "an Index is an address with integer coordinates, or picks constant lanes of a vector",
     index_form},
    {{Op::Shrink}, "a Shrink is the address of a constant number of elements of memory", address_form},
    {{Op::Load, Op::Store}, "memory is reached through an Index or a Shrink of it", through_address},
    {{Op::Load, Op::Store}, "values have the dtype of the memory", access_dtypes},
    {{Op::Load, Op::Store},
     "values and gates are scalars or have as many lanes as the address",
     accessed_lanes},
};

// ---- which ops occur

// Graphs have other forms for these (docs/ir.md); targets bring them back.
constexpr OpSet kLateOps = {Op::Sub, Op::Neg, Op::FDiv, Op::CDiv, Op::CMod, Op::CmpEq, Op::MulAcc};

constexpr OpSet kTensorOps =
    without(kAluOps, kLateOps) | kMovementOps |
    OpSet{Op::Buffer, Op::Param, Op::Const,  Op::Cast, Op::Bitcast,    Op::Stack,
          Op::Reduce, Op::After, Op::Store,  Op::Copy, Op::Contiguous, Op::ContiguousBackward,
          Op::Detach, Op::Call,  Op::Linear, Op::Sink, Op::Group,      Op::Noop,
          Op::Range,  Op::Index, Op::Stage,  Op::End};
// Late ops as well: actions and decompositions work here.
constexpr OpSet kKernelOps =
    kAluOps | OpSet{Op::Param, Op::Buffer, Op::Special, Op::Const, Op::Cast,    Op::Bitcast, Op::Stack,
                    Op::Index, Op::Shrink, Op::Load,    Op::Store, Op::Range,   Op::End,     Op::Reduce,
                    Op::After, Op::Group,  Op::Noop,    Op::Sink,  Op::Barrier, Op::If,      Op::EndIf};
constexpr OpSet kProgramOps = without(kKernelOps, {Op::Reduce});

}  // namespace

std::span<const SpecRule> shared_rules() { return kShared; }

std::span<const SpecRule> level_rules(SpecLevel level) {
  switch (level) {
    case SpecLevel::Tensor: return kTensor;
    case SpecLevel::Kernel: return kKernel;
    default: return kProgram;
  }
}

OpSet level_ops(SpecLevel level) {
  switch (level) {
    case SpecLevel::Tensor: return kTensorOps;
    case SpecLevel::Kernel: return kKernelOps;
    default: return kProgramOps;
  }
}

bool spec_is_memory(const UOp& u) {
  const Node* n = u.node();
  while (n->op == Op::After) n = n->src_begin()->node();
  if (n->op != Op::Param && n->op != Op::Buffer) return false;
  return std::get<ParamPtr>(n->arg)->space != AddrSpace::Alu;
}

bool spec_is_address(const UOp& u) {
  const Node* n = u.node();
  while (n->op == Op::After) n = n->src_begin()->node();
  return (n->op == Op::Index || n->op == Op::Shrink) && spec_is_memory(*n->src_begin());
}

bool is_compile_time_source(const UOp& u, size_t i) {
  switch (u.op()) {
    case Op::Param:
    case Op::Buffer: return i == 0;
    case Op::Shrink: return i == 2;
    case Op::Index: {
      if (i == 0 || spec_is_memory(u.src(0))) return false;
      const UOp& lane = u.src(i);
      return lane.is_const() ||
             (lane.op() == Op::Stack &&
              std::all_of(lane.srcs().begin(), lane.srcs().end(), [](const UOp& s) { return s.is_const(); }));
    }
    default: return false;
  }
}

}  // namespace lathe
