// Names of the enums inside payloads, for the text form.
#pragma once
#include "uop/arg.h"

#include <array>
#include <optional>
#include <string_view>

namespace lathe {

inline constexpr std::array<std::string_view, 4> kAddrSpaceNames = {"Global", "Local", "Reg", "Alu"};
static_assert(static_cast<size_t>(AddrSpace::Alu) + 1 == kAddrSpaceNames.size());

inline constexpr std::array<std::string_view, 10> kActionKindNames = {
    "Upcast", "Unroll", "Vector", "Thread", "Local", "Group", "Tile", "PadTo", "Swap", "Stage"};
static_assert(static_cast<size_t>(ActionKind::Stage) + 1 == kActionKindNames.size());

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
