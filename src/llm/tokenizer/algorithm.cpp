#include "llm/tokenizer/algorithm.h"

#include "archive/parsing.h"
#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {

std::string with_blanks_marked(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text)
    if (c == ' ')
      out += kBlank;
    else
      out += c;
  return out;
}

int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int out = 0;
  for (const char c : token.substr(3, 2)) {
    if (hex_digit(c) < 0 || c >= 'a') return -1;
    out = out * 16 + hex_digit(c);
  }
  return out;
}

TokenIndex::TokenIndex(const Vocabulary& vocabulary, std::span<const std::string> spellings)
    : unknown_(vocabulary.unknown) {
  bytes_.fill(Vocabulary::kNone);
  ids_.reserve(spellings.size());
  for (size_t i = 0; i < spellings.size(); i++) {
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocabulary.type(id);
    if (type == TokenType::Unknown && unknown_ == Vocabulary::kNone) unknown_ = id;
    if (type == TokenType::Byte) {
      if (const int byte = byte_of(spellings[i]); byte >= 0) bytes_[static_cast<size_t>(byte)] = id;
    } else if (type != TokenType::Control && type != TokenType::Unknown && !spellings[i].empty()) {
      ids_.try_emplace(spellings[i], id);
      longest_ = std::max(longest_, spellings[i].size());
    }
  }
}

void TokenIndex::append_unknown(std::string_view text, std::vector<int32_t>& out) const {
  if (unknown_ == Vocabulary::kNone)
    value_error("the vocabulary has no token for the bytes {:02X} of the text, and no unknown token",
                fmt::join(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()), " "));
  out.push_back(unknown_);
}

void TokenIndex::append_bytes(std::string_view bytes, std::vector<int32_t>& out) const {
  for (const char b : bytes)
    if (const int32_t id = bytes_[static_cast<uint8_t>(b)]; id != Vocabulary::kNone)
      out.push_back(id);
    else
      return append_unknown(bytes, out);
}

}  // namespace lathe
