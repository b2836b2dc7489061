#include "formats/utf8.h"

#include <algorithm>

namespace lathe {
namespace {

struct Lead {
  std::size_t length;         // of the sequence; 0 for what leads none
  std::uint8_t low, high;     // bounds of the second byte, which exclude overlong forms and surrogates
  std::uint8_t payload_mask;  // bits of the lead byte that count
};

Lead lead_of(std::uint8_t b) {
  if (b < 0x80) return {1, 0, 0, 0x7F};
  if (b < 0xC2) return {0, 0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (b < 0xF0)
    return {3, std::uint8_t(b == 0xE0 ? 0xA0 : 0x80), std::uint8_t(b == 0xED ? 0x9F : 0xBF), 0x0F};
  if (b < 0xF5)
    return {4, std::uint8_t(b == 0xF0 ? 0x90 : 0x80), std::uint8_t(b == 0xF4 ? 0x8F : 0xBF), 0x07};
  return {0, 0, 0, 0};
}

}  // namespace

Utf8Step decode_utf8(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {Utf8Step::State::Truncated, 0xFFFD, 0};
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {Utf8Step::State::Invalid, 0xFFFD, 1};
  char32_t code = byte(0) & lead.payload_mask;
  const std::size_t available = std::min(lead.length, text.size() - at);
  for (std::size_t i = 1; i < available; i++) {
    const std::uint8_t low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Step::State::Invalid, 0xFFFD, i};
    code = code << 6 | (byte(i) & 0x3F);
  }
  if (available < lead.length) return {Utf8Step::State::Truncated, 0xFFFD, available};
  return {Utf8Step::State::Complete, code, lead.length};
}

void append_utf8(std::string& out, char32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string to_utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

void append_valid_utf8(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (step.state == Utf8Step::State::Complete)
      out.append(text, i, step.length);
    else
      append_utf8(out, 0xFFFD);
    i += step.length;
  }
}

std::size_t incomplete_utf8_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); back++) {
    const auto b = static_cast<std::uint8_t>(text[text.size() - back]);
    if ((b & 0xC0) == 0x80) continue;
    return decode_utf8(text, text.size() - back).state == Utf8Step::State::Truncated ? back : 0;
  }
  return 0;
}

}  // namespace lathe
