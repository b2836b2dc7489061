#include "llm/tokenizer/byte_alphabet.h"

#include "formats/utf8.h"

#include <array>

namespace lathe {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x100 + 68> byte{};  // of a character; -1 for one that stands for none
  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; b++) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
      character[b] = itself ? b : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet it;
  return it;
}

}  // namespace

char32_t byte_to_character(uint8_t byte) { return alphabet().character[byte]; }

std::string bytes_to_characters(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_utf8(out, byte_to_character(static_cast<uint8_t>(b)));
  return out;
}

std::string characters_to_bytes(std::string_view characters) {
  std::string out;
  for (size_t i = 0; i < characters.size();) {
    const Utf8Step step = decode_utf8(characters, i);
    const bool known = step.state == Utf8Step::State::Complete && step.code < alphabet().byte.size() &&
                       alphabet().byte[step.code] >= 0;
    if (known)
      out += static_cast<char>(alphabet().byte[step.code]);
    else
      out.append(characters, i, step.length);
    i += step.length;
  }
  return out;
}

}  // namespace lathe
