// The tensors in a struct, a container or a tree of them.
#pragma once
#include "tensor/tensor.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace lathe {

namespace detail {

// Stands for any visitor in the concept below.
struct AnyVisitor {
  void operator()(std::string_view, const auto&) const {}
};

template <class T>
inline constexpr bool kIsPointer = false;
template <class T>
inline constexpr bool kIsPointer<std::optional<T>> = true;
template <class T, class D>
inline constexpr bool kIsPointer<std::unique_ptr<T, D>> = true;
template <class T>
inline constexpr bool kIsPointer<std::shared_ptr<T>> = true;

template <class T>
inline constexpr bool kHasNoState = false;

}  // namespace detail

// A struct that lists its tensors, layers and containers of layers: `void each(auto&& visit) const` calls
// `visit("name", member)` for each.
template <class T>
concept Module = requires(const T& module) { module.each(detail::AnyVisitor{}); };

// Calls `visit(name, tensor)` for every tensor below `item`, in order. Names are joined by dots: members by
// their name, elements of vectors, arrays and tuples by position, of maps by key. Absent optionals and null
// pointers are passed over.
template <class T, class F>
void visit_tensors(const T& item, const std::string& name, F&& visit) {
  auto below = [&](std::string_view part, const auto& child) {
    visit_tensors(child, name.empty() ? std::string(part) : name + "." + std::string(part), visit);
  };
  if constexpr (std::is_same_v<T, Tensor>) {
    visit(name, item);
  } else if constexpr (detail::kIsPointer<T>) {
    if (item) visit_tensors(*item, name, visit);
  } else if constexpr (Module<T>) {
    item.each(below);
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (const auto& [key, child] : item) below(key, child);
  } else if constexpr (requires { item.begin() != item.end(); }) {
    size_t i = 0;
    for (const auto& child : item) below(std::to_string(i++), child);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(
        [&](const auto&... children) {
          size_t i = 0;
          (below(std::to_string(i++), children), ...);
        },
        item);
  } else {
    static_assert(detail::kHasNoState<T>, "not a tensor, a module with each() or a container of them");
  }
}

// A TypeError where copies of `item` share tensors behind pointers: they could not get tensors of their own.
template <class T>
void check_apart(const T& item, std::string_view what) {
  const T copy = item;
  std::unordered_set<const Tensor*> tensors;
  visit_tensors(copy, "", [&](const std::string&, const Tensor& t) { tensors.insert(&t); });
  visit_tensors(item, "", [&](const std::string& name, const Tensor& t) {
    if (tensors.count(&t))
      type_error("{} are copied, but copies of this one share the tensor `{}`: use a value", what, name);
  });
}

// `like` with other tensors, in the order of visit_tensors, or with none that holds memory.
template <class T>
T with_tensors(const T& like, const std::vector<Tensor>& tensors) {
  T out = like;
  size_t i = 0;
  visit_tensors(out, "", [&](const std::string&, const Tensor& t) {
    const_cast<Tensor&>(t) = tensors.empty() ? Tensor() : tensors[i++];  // `out` is not const
  });
  return out;
}

}  // namespace lathe
