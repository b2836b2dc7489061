#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lathe::test {

// Puts a file together byte by byte, so that any part of it may lie.
class GgufBytes {
 public:
  GgufBytes& raw(std::string_view text) { return out_ += text, *this; }
  GgufBytes& number(uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++) out_ += static_cast<char>(v >> (8 * i));
    return *this;
  }
  GgufBytes& u32(uint64_t v) { return number(v, 4); }
  GgufBytes& u64(uint64_t v) { return number(v, 8); }
  GgufBytes& text(std::string_view t) { return u64(t.size()).raw(t); }
  GgufBytes& start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  // `sizes` fastest first, as in files.
  GgufBytes& tensor(std::string_view name, std::initializer_list<uint64_t> sizes, uint32_t type,
                    uint64_t offset) {
    text(name).u32(sizes.size());
    for (const uint64_t size : sizes) u64(size);
    return u32(type).u64(offset);
  }
  GgufBytes& data(size_t bytes, size_t alignment = 32) {
    while (out_.size() % alignment) out_ += '\0';
    out_.append(bytes, '\1');
    return *this;
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

}  // namespace lathe::test
