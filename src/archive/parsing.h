// What readers of bytes and texts share. Inside they throw the ParseError with which they give up; `parsed`
// makes a Result of that.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lathe {

template <class... T>
[[noreturn]] void throw_parse_error(std::string_view where, std::size_t offset,
                                    fmt::format_string<T...> format, T&&... args) {
  throw ParseError{fmt::format(format, std::forward<T>(args)...), offset, std::string(where)};
}

// Runs a reader: what it returns, or the error that it throws.
template <class F>
Result<std::invoke_result_t<F>> parsed(F&& read) {
  try {
    return std::forward<F>(read)();
  } catch (ParseError& error) {
    return std::move(error);
  }
}

// The value that another reader has found; its error is thrown on.
template <class T>
T or_fail(Result<T> result) {
  if (!result.ok()) throw std::move(result.error());
  return std::move(result).value();
}

// The value of a hexadecimal digit; -1 for another character.
constexpr int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

}  // namespace lathe
