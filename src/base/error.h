#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#ifdef DOCTEST_LIBRARY_INCLUDED
#error "include <doctest/doctest.h> after every lathe header: both define CHECK, and a test wants doctest's"
#endif

namespace lathe {

// The message of every error already carries the context frames that were open where it was thrown.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller asked for something that cannot be done.
class UserError : public Error {
 public:
  enum class Kind { Value, Type, Index, Runtime, Overflow, Zero };
  UserError(Kind kind, const std::string& text) : Error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

std::string_view to_string(UserError::Kind kind);

// A broken invariant of this library.
class InternalError : public Error {
 public:
  using Error::Error;
};

// A device, driver or system compiler refused.
class DeviceError : public Error {
 public:
  using Error::Error;
};

namespace detail {

// A frame lives on the stack of the thread that opened it; open frames form a list through `outer`.
class ErrorFrame {
 public:
  using Describe = std::string (*)(const ErrorFrame*);
  explicit ErrorFrame(Describe describe);
  ~ErrorFrame();
  ErrorFrame(const ErrorFrame&) = delete;
  ErrorFrame& operator=(const ErrorFrame&) = delete;

  std::string describe() const { return describe_(this); }
  const ErrorFrame* outer() const { return outer_; }

 private:
  Describe describe_;
  const ErrorFrame* outer_;
};

// `text` followed by one "  while ..." line for every open frame, innermost first.
std::string with_context(std::string text);

[[noreturn]] void throw_user_text(UserError::Kind kind, std::string text);
[[noreturn]] void throw_device_text(std::string text);
[[noreturn]] void check_failed_text(const char* file, int line, const char* condition,
                                    const std::string& text);

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
  check_failed_text(file, line, condition, {});
}

template <class... T>
[[noreturn, gnu::cold, gnu::noinline]] void check_failed(const char* file, int line, const char* condition,
                                                         fmt::format_string<T...> format, T&&... args) {
  check_failed_text(file, line, condition, fmt::format(format, std::forward<T>(args)...));
}

}  // namespace detail

// Says what is being done, for the message of any error thrown while it is open. Costs two stores unless an
// error is thrown: `ErrorContext context([&] { return fmt::format("loading {}", path); });`
template <class F>
class [[nodiscard]] ErrorContext : private detail::ErrorFrame {
 public:
  explicit ErrorContext(F describe) : ErrorFrame(&call), describe_(std::move(describe)) {}

 private:
  static std::string call(const ErrorFrame* frame) {
    return static_cast<const ErrorContext*>(frame)->describe_();
  }
  F describe_;
};

#define LATHE_USER_ERROR(function, kind)                                                           \
  template <class... T>                                                                            \
  [[noreturn]] void function(fmt::format_string<T...> format, T&&... args) {                       \
    detail::throw_user_text(UserError::Kind::kind, fmt::format(format, std::forward<T>(args)...)); \
  }
LATHE_USER_ERROR(value_error, Value)
LATHE_USER_ERROR(type_error, Type)
LATHE_USER_ERROR(index_error, Index)
LATHE_USER_ERROR(user_runtime_error, Runtime)
LATHE_USER_ERROR(overflow_error, Overflow)
LATHE_USER_ERROR(zero_error, Zero)
#undef LATHE_USER_ERROR

template <class... T>
[[noreturn]] void device_error(fmt::format_string<T...> format, T&&... args) {
  detail::throw_device_text(fmt::format(format, std::forward<T>(args)...));
}

}  // namespace lathe

// An invariant of ours; stays on in every build. The message is optional and is formatted only on failure.
#define CHECK(condition, ...)                                                                   \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::lathe::detail::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
