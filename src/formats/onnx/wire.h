// The protobuf wire format, bounds checked: enough to read the messages of ONNX.
#pragma once
#include "archive/parsing.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::onnx {

// Walks the fields of one message; throws the ParseError where there is one. Memory is bounded by a small
// multiple of the input.
class Message {
 public:
  // `where` names the input.
  Message(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  // Goes to the next field; false at the end of the message.
  bool next();
  uint32_t field() const { return field_; }

  // The field's value; a field of another wire type is an error.
  int64_t integer();
  float real();
  std::span<const std::byte> bytes();
  std::string text();
  Message message();
  // Repeated numbers, packed or not.
  void append_to(std::vector<int64_t>& out);
  void append_to(std::vector<float>& out);
  // Repeated fixed-width numbers as the bytes they are.
  void append_raw(std::vector<std::byte>& out);

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, start_ + at_, format, std::forward<T>(args)...);
  }

 private:
  enum class Type : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };
  void expect(Type type, std::string_view name) const;
  uint64_t varint();
  void take(uint64_t count);

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t start_ = 0;  // of the message in the input
  size_t at_ = 0;     // in bytes_
  int depth_ = 0;
  uint32_t field_ = 0;
  Type type_ = Type::Varint;
  uint64_t value_ = 0;               // of a varint
  std::span<const std::byte> data_;  // of the other types
};

}  // namespace lathe::onnx
