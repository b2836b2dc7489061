#include "llm/jinja/text.h"

#include "formats/utf8.h"

#include <algorithm>

namespace lathe::jinja {

void Text::append(std::string_view bytes, bool marked) {
  if (marked) {
    marks_.resize(bytes_.size());
    marks_.append(bytes.size(), 1);
  }
  bytes_ += bytes;
}

void Text::append(const Text& other, size_t at, size_t count) {
  if (at < other.marks_.size()) {
    marks_.resize(bytes_.size());
    marks_.append(other.marks_, at, count);
  }
  bytes_.append(other.bytes_, at, count);
}

Text Text::substr(size_t at, size_t count) const {
  Text out;
  at = std::min(at, size());
  out.append(*this, at, std::min(count, size() - at));
  out.is_safe_ = is_safe_;
  return out;
}

size_t character_size(std::string_view text, size_t at) {
  return std::max<size_t>(1, decode_utf8(text, at).length);
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += character_size(text, at)) count++;
  return count;
}

size_t character_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); index--) at += character_size(text, at);
  return at;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

Text escape(const Text& text) {
  if (text.is_safe()) return text;
  constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  Text out;
  for (size_t i = 0; i < text.size(); i++) {
    const size_t at = std::string_view("&<>\"'").find(text.bytes()[i]);
    if (at == std::string::npos)
      out.append(text, i, 1);
    else
      out.append(kEscapes[at], text.is_marked(i));
  }
  return out.as_safe();
}

Text strip(const Text& text, const std::string* characters, bool left, bool right) {
  const std::string& s = text.bytes();
  const auto goes = [&](size_t at) {
    const size_t size = character_size(s, at);
    return characters ? characters->find(s.substr(at, size)) != std::string::npos
                      : is_space(decode_utf8(s, at).code);
  };
  size_t begin = 0, end = s.size();
  while (left && begin < end && goes(begin)) begin += character_size(s, begin);
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<unsigned char>(s[last]) & 0xc0) == 0x80) last--;
    if (last + character_size(s, last) != end) last = end - 1;
    if (!goes(last)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

}  // namespace lathe::jinja
