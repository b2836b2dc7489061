// Checks of numbers in options, with errors in plain words.
#pragma once
#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace lathe::command {

inline CLI::Validator number_check(bool may_be_zero) {
  const auto check = [may_be_zero](const std::string& text) -> std::string {
    double x = 0;
    const bool is_good =
        CLI::detail::lexical_cast(text, x) && std::isfinite(x) && (x > 0 || (may_be_zero && x == 0));
    return is_good ? "" : text + (may_be_zero ? " is not 0 or a number above" : " is not a number above 0");
  };
  return {check, may_be_zero ? "NONNEGATIVE" : "POSITIVE", may_be_zero ? "nonnegative" : "positive"};
}
inline CLI::Validator positive() { return number_check(false); }
inline CLI::Validator not_negative() { return number_check(true); }

}  // namespace lathe::command
