// Which kind of payload an op carries, and the names of the enums inside payloads.
#pragma once
#include "uop/arg.h"

#include <optional>
#include <string_view>

namespace lathe {

static_assert(std::variant_size_v<Arg> == static_cast<size_t>(ArgKind::Call) + 1);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Param), Arg>, ParamPtr>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(ArgKind::Stage), Arg>, StageArg>);

inline ArgKind kind_of(const Arg& a) { return static_cast<ArgKind>(a.index()); }

inline constexpr std::string_view kAddrSpaceNames[] = {"Global", "Local", "Reg", "Alu"};
static_assert(static_cast<size_t>(AddrSpace::Alu) + 1 == std::size(kAddrSpaceNames));

inline constexpr std::string_view kActionKindNames[] = {
#define ACTION(name) #name,
#include "uop/actions.def"
};

constexpr std::string_view addr_space_name(AddrSpace s) { return kAddrSpaceNames[static_cast<size_t>(s)]; }
constexpr std::string_view action_kind_name(ActionKind k) { return kActionKindNames[static_cast<size_t>(k)]; }

template <class E, size_t N>
constexpr std::optional<E> find_name(const std::string_view (&names)[N], std::string_view name) {
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
