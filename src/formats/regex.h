// Regular expressions.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace lathe {

// A pattern in the syntax of PCRE2, which has that of RE2 in it, compiled once; over UTF-8. ValueError for
// what is no pattern.
class Regex {
 public:
  explicit Regex(const std::string& pattern);
  // Whether the pattern is the text from end to end; text that is not UTF-8 is matched by none. RuntimeError
  // when that takes more steps than PCRE2 allows.
  bool matches_all(std::string_view text) const;

 private:
  std::string pattern_;
  std::shared_ptr<const void> code_;
};

}  // namespace lathe
