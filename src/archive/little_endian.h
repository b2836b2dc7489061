#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

// The number in `width` bytes from `at` on, which must be there.
inline uint64_t read_little_endian(std::span<const std::byte> bytes, size_t at, size_t width) {
  uint64_t out = 0;
  for (size_t i = width; i-- > 0;) out = out << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return out;
}

inline std::string little_endian(uint64_t value, size_t width) {
  std::string out;
  for (size_t i = 0; i < width; i++, value >>= 8) out += static_cast<char>(value & 255);
  return out;
}

// Bytes that are text.
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lathe
