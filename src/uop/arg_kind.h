// Which kind of payload an op carries, and the names of the enums inside payloads.
#pragma once
#include "uop/arg.h"

#include <array>
#include <optional>
#include <string_view>

namespace lathe {

// The alternatives of Arg, in its order.
enum class ArgKind : uint8_t { None, Scalar, Range, Reduce, Axes, Param, Kernel, Text, Device, Stage, Call };
static_assert(std::variant_size_v<Arg> == static_cast<size_t>(ArgKind::Call) + 1);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Param), Arg>, ParamPtr>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Stage), Arg>, StageArg>);

inline ArgKind kind_of(const Arg& a) { return static_cast<ArgKind>(a.index()); }

struct ArgRule {
  ArgKind kind;
  bool required;
};
constexpr ArgRule arg_rule(Op op) {
  switch (op) {
    case Op::Result:
    case Op::Const: return {ArgKind::Scalar, true};
    case Op::Range: return {ArgKind::Range, true};
    case Op::Reduce: return {ArgKind::Reduce, true};
    case Op::Permute:
    case Op::Multi:
    case Op::Flip: return {ArgKind::Axes, true};
    case Op::Param:
    case Op::Buffer: return {ArgKind::Param, true};
    case Op::Copy: return {ArgKind::Device, true};
    case Op::Stage: return {ArgKind::Stage, true};
    case Op::Special: return {ArgKind::Text, true};
    case Op::Noop: return {ArgKind::Text, false};
    case Op::Sink: return {ArgKind::Kernel, false};
    case Op::Call: return {ArgKind::Call, false};
    default: return {ArgKind::None, true};
  }
}

// Fewest sources of an op; the exact number where the op table states one.
constexpr int min_sources(Op op) {
  if (info(op).arity >= 0) return info(op).arity;
  switch (op) {
    case Op::Dot: return 3;
    case Op::Multi:
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

inline constexpr std::array<std::string_view, 4> kAddrSpaceNames = {"Global", "Local", "Reg", "Alu"};
static_assert(static_cast<size_t>(AddrSpace::Alu) + 1 == kAddrSpaceNames.size());

inline constexpr std::array<std::string_view, 13> kActionKindNames = {
    "Upcast", "Unroll", "Vector", "Thread", "Local", "Group",     "Tile",
    "PadTo",  "Swap",   "Stage",  "Merge",  "Block", "TensorCore"};
static_assert(static_cast<size_t>(ActionKind::TensorCore) + 1 == kActionKindNames.size());

constexpr std::string_view addr_space_name(AddrSpace s) { return kAddrSpaceNames[static_cast<size_t>(s)]; }
constexpr std::string_view action_kind_name(ActionKind k) { return kActionKindNames[static_cast<size_t>(k)]; }

template <class E, size_t N>
constexpr std::optional<E> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; i++)
    if (names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}
constexpr std::optional<AddrSpace> parse_addr_space(std::string_view name) {
  return find_name<AddrSpace>(kAddrSpaceNames, name);
}
constexpr std::optional<ActionKind> parse_action_kind(std::string_view name) {
  return find_name<ActionKind>(kActionKindNames, name);
}

}  // namespace lathe
