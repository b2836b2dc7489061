#pragma once

#include "base/error.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lathe {

// Where and why a reader gave up.
struct ParseError {
  std::string text;        // what is wrong, with the offending value
  std::size_t offset = 0;  // bytes from the start of the input
  std::string where;       // the input's name: a path, "chat template", "request body"
  std::string message() const {
    return fmt::format("{}: offset {}: {}", where.empty() ? "input" : where, offset, text);
  }
};

// The outcome of reading bytes that nobody vouched for: a value, or a ParseError.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(ParseError error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }

  ParseError& error() {
    CHECK(!ok(), "the result holds a value");
    return *std::get_if<1>(&state_);
  }
  const ParseError& error() const { return const_cast<Result*>(this)->error(); }

  // The value, or a UserError of kind Value that names the input, the offset and the reason.
  T or_throw() && {
    if (!ok()) value_error("{}", error().message());
    return std::move(*std::get_if<0>(&state_));
  }
  T or_throw() const& {
    if (!ok()) value_error("{}", error().message());
    return *std::get_if<0>(&state_);
  }

 private:
  T& checked() {
    CHECK(ok(), "{}", error().message());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, ParseError> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(ParseError error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  ParseError& error() {
    CHECK(!ok(), "the result holds no error");
    return *error_;
  }
  const ParseError& error() const { return const_cast<Result*>(this)->error(); }
  void or_throw() const {
    if (!ok()) value_error("{}", error_->message());
  }

 private:
  std::optional<ParseError> error_;
};

}  // namespace lathe

// `LATHE_TRY(var, expr);` declares `var` from a Result, or returns its error from the enclosing function.
#define LATHE_TRY(var, ...)                                       \
  auto var##_result = (__VA_ARGS__);                              \
  if (!var##_result.ok()) return std::move(var##_result.error()); \
  [[maybe_unused]] auto& var = var##_result.value()

// The same for a Result<void>, or where the value is not wanted.
#define LATHE_TRY_DO(...)                                                                              \
  do {                                                                                                 \
    if (auto lathe_result = (__VA_ARGS__); !lathe_result.ok()) return std::move(lathe_result.error()); \
  } while (false)
