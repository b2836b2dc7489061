// Ranges of numbers as grammars of their digits.
#include "llm/grammar/json_schema.h"

#include <fmt/format.h>

namespace lathe {
namespace {

constexpr size_t kMostDigits = 16;  // of a number without a bound

std::string digit_class(char low, char high) {
  return low == high ? fmt::format("\"{}\"", low) : fmt::format("[{}-{}]", low, high);
}

std::string any_digits(size_t least, size_t most) {
  if (most == 0) return "";
  if (least == most) return most == 1 ? " [0-9]" : fmt::format(" [0-9]{{{}}}", most);
  return fmt::format(" [0-9]{{{},{}}}", least, most);
}

// Of numbers of as many digits as both have: those that begin as the lowest, as the highest, and between them
// with any further digits.
std::string same_length(std::string_view low, std::string_view high) {
  const size_t rest = low.size() - 1;
  if (rest == 0) return digit_class(low[0], high[0]);
  if (low[0] == high[0])
    return fmt::format("{} ({})", digit_class(low[0], low[0]), same_length(low.substr(1), high.substr(1)));
  const std::string zeros(rest, '0'), nines(rest, '9');
  const bool cut_low = low.substr(1) != zeros, cut_high = high.substr(1) != nines;
  std::vector<std::string> parts;
  if (cut_low) parts.push_back(fmt::format("\"{}\" ({})", low[0], same_length(low.substr(1), nines)));
  const char first = static_cast<char>(low[0] + cut_low), last = static_cast<char>(high[0] - cut_high);
  if (first <= last) parts.push_back(digit_class(first, last) + any_digits(rest, rest));
  if (cut_high) parts.push_back(fmt::format("\"{}\" ({})", high[0], same_length(zeros, high.substr(1))));
  return fmt::format("{}", fmt::join(parts, " | "));
}

}  // namespace

std::string digits_between(int64_t low, std::optional<int64_t> high) {
  std::vector<std::string> parts;
  const std::string lowest = std::to_string(low), highest = high ? std::to_string(*high) : "";
  const size_t longest = high ? highest.size() : lowest.size();
  for (size_t n = lowest.size(); n <= longest; n++) {
    const std::string from = n == lowest.size() ? lowest : "1" + std::string(n - 1, '0');
    parts.push_back(same_length(from, high && n == longest ? highest : std::string(n, '9')));
  }
  if (!high && longest < kMostDigits) parts.push_back("[1-9]" + any_digits(longest, kMostDigits - 1));
  return fmt::format("({})", fmt::join(parts, " | "));
}

}  // namespace lathe
