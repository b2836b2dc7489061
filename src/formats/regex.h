// Regular expressions.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// A pattern in the syntax of PCRE2, which has that of RE2 in it, compiled once; over UTF-8. ValueError for
// what is no pattern. The methods throw a RuntimeError when matching takes more steps than PCRE2 allows.
class Regex {
 public:
  enum class Anchor { Whole, Free };
  explicit Regex(const std::string& pattern, Anchor anchor = Anchor::Whole);
  // Whether the pattern is the text from end to end; text that is not UTF-8 is matched by none. Of an
  // anchored pattern.
  bool matches_all(std::string_view text) const;
  // Appends the text cut into its matches, from left to right and none of them empty, and the gaps between
  // them. Bytes that are not UTF-8 match nothing, and no match reaches across them. Of a free pattern.
  void split(std::string_view text, std::vector<std::string_view>& out) const;

 private:
  std::string pattern_;
  std::shared_ptr<const void> code_;
};

}  // namespace lathe
