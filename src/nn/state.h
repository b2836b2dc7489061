// The tensors of a model by name.
#pragma once
#include "tensor/named_tensors.h"

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace lathe::nn {

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

// All tensors of a model by name, buffers such as running statistics among them.
template <class T>
NamedTensors state_dict(const T& model, const std::string& prefix = "") {
  NamedTensors out;
  visit_tensors(model, prefix, [&](const std::string& name, const Tensor& t) { out.emplace_back(name, t); });
  return out;
}

// The same without names, for an optimiser: it updates what is flagged as a parameter and realises the rest.
template <class T>
std::vector<Tensor> parameters(const T& model) {
  std::vector<Tensor> out;
  visit_tensors(model, "", [&](const std::string&, const Tensor& t) { out.push_back(t); });
  return out;
}

struct LoadOptions {
  bool strict =
      true;  // tensors without a value and values without a tensor are an error, else a line of the log
  bool realize = true;  // at once
};

// Gives each tensor of `state` the value of the same name, on the tensor's own device; where that is the
// value's device too, both share memory. The dtype becomes that of the value. Nothing is changed unless
// everything fits: ValueError for shapes that differ (() and (1,) count as equal), else IndexError for names
// that only one side has. The error lists all of these names, up to five of a kind.
void load_state(const NamedTensors& state, const NamedTensors& values, const LoadOptions& options = {});

template <class T>
void load_state_dict(const T& model, const NamedTensors& values, const LoadOptions& options = {}) {
  load_state(state_dict(model), values, options);
}

}  // namespace lathe::nn
