// Which kind of payload an op carries.
#pragma once
#include "uop/arg.h"

namespace lathe {

// The alternatives of Arg, in its order.
enum class ArgKind : uint8_t { None, Scalar, Range, Reduce, Axes, Param, Kernel, Text, Device, Stage };
static_assert(std::variant_size_v<Arg> == static_cast<size_t>(ArgKind::Stage) + 1);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Param), Arg>, ParamPtr>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Stage), Arg>, StageArg>);

inline ArgKind kind_of(const Arg& a) { return static_cast<ArgKind>(a.index()); }

struct ArgRule {
  ArgKind kind;
  bool required;
};
constexpr ArgRule arg_rule(Op op) {
  switch (op) {
    case Op::Const: return {ArgKind::Scalar, true};
    case Op::Range: return {ArgKind::Range, true};
    case Op::Reduce: return {ArgKind::Reduce, true};
    case Op::Permute:
    case Op::Flip: return {ArgKind::Axes, true};
    case Op::Param:
    case Op::Buffer: return {ArgKind::Param, true};
    case Op::Copy: return {ArgKind::Device, true};
    case Op::Stage: return {ArgKind::Stage, true};
    case Op::Special: return {ArgKind::Text, true};
    case Op::Noop: return {ArgKind::Text, false};
    case Op::Sink: return {ArgKind::Kernel, false};
    default: return {ArgKind::None, true};
  }
}

// Fewest sources of an op; the exact number where the op table states one.
constexpr int min_sources(Op op) {
  if (info(op).arity >= 0) return info(op).arity;
  switch (op) {
    case Op::Store: return 2;
    case Op::Call:
    case Op::After:
    case Op::Index:
    case Op::Load:
    case Op::Range:
    case Op::End:
    case Op::Stage:
    case Op::Reduce: return 1;
    default: return 0;
  }
}

}  // namespace lathe
