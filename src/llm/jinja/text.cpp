#include "llm/jinja/text.h"

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
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t size = lead >= 0xf0 && lead < 0xf8 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  if (lead >= 0xf8 || size > text.size() - at) return 1;
  for (size_t i = 1; i < size; i++)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 1;
  return size;
}

char32_t character(std::string_view text, size_t at) {
  const size_t size = character_size(text, at);
  const auto lead = static_cast<unsigned char>(text[at]);
  if (size == 1) return lead;
  char32_t c = lead & (0x7fu >> size);
  for (size_t i = 1; i < size; i++) c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fu);
  return c;
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

void append_utf8(std::string& out, char32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[tail] | c >> (6 * tail));
  for (int i = tail - 1; i >= 0; i--) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
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
                      : is_space(character(s, at));
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
