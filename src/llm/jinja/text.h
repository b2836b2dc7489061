#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::jinja {

// UTF-8 text that remembers which of its bytes came from a message, so that a prompt can be tokenised without
// taking what a user typed for a control token. Marks follow the bytes through joining, cutting and
// replacing.
class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, bool marked = false) { append(bytes, marked); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  // Escaped for HTML, or declared to be: what is added to it gets escaped too.
  bool is_safe() const { return is_safe_; }
  Text as_safe() const {
    Text out = *this;
    out.is_safe_ = true;
    return out;
  }
  bool is_marked(size_t i) const { return i < marks_.size() && marks_[i] != 0; }

  void append(std::string_view bytes, bool marked = false);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t at, size_t count);
  Text substr(size_t at, size_t count = std::string::npos) const;
  // The same with each byte replaced; the function keeps the length.
  template <class F>
  Text mapped(F f) const {
    Text out = *this;
    for (size_t i = 0; i < size(); i++) out.bytes_[i] = f(bytes_, i);
    return out;
  }

 private:
  std::string bytes_;
  std::string marks_;  // one a byte, zeros at the end may be missing
  bool is_safe_ = false;
};

// Bytes of the character that starts at `at`, or of what takes the place of one.
size_t character_size(std::string_view text, size_t at);
int64_t count_characters(std::string_view text);
// Byte at which the character of that index starts, the size for one behind the last.
size_t character_offset(std::string_view text, int64_t index);
// What Python's str.isspace says.
bool is_space(char32_t c);
Text escape(const Text& text);
// Without the characters at the ends that are in `characters`, or that are white space where there is none.
Text strip(const Text& text, const std::string* characters, bool left = true, bool right = true);

}  // namespace lathe::jinja
