// The printable characters that byte-level BPE writes bytes as: 33-126, 161-172 and 174-255 are themselves,
// the other 68 bytes in order U+0100 and up. So the tokens of a vocabulary are text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

char32_t byte_to_character(uint8_t byte);
std::string bytes_to_characters(std::string_view bytes);
// The bytes that the characters stand for; one that stands for none stays as it is in UTF-8.
std::string characters_to_bytes(std::string_view characters);

}  // namespace lathe
