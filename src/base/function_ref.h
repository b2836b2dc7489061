#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace lathe {

template <class Signature>
class FunctionRef;

// A callable passed down the stack: two words, no allocation, and it must not outlive the callable.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& f) {
    using Target = std::remove_reference_t<F>;
    if constexpr (std::is_function_v<Target>) {
      object_ = reinterpret_cast<void*>(&f);
      call_ = [](void* object, Args... args) -> R {
        return std::invoke(*reinterpret_cast<Target*>(object), std::forward<Args>(args)...);
      };
    } else {
      object_ = const_cast<void*>(static_cast<const void*>(std::addressof(f)));
      call_ = [](void* object, Args... args) -> R {
        return std::invoke(*static_cast<Target*>(object), std::forward<Args>(args)...);
      };
    }
  }

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace lathe
