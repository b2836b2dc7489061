// The protobuf wire format, bounds checked: enough to read the messages of ONNX.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::onnx {

// What all messages of one input share: its name and the first error.
struct WireState {
  std::string_view where;
  std::optional<ParseError> error;
};

// Walks the fields of one message. The first error, wherever below the root it occurs, ends every walk and
// stands in the state; until then values are valid. Memory is bounded by a small multiple of the input.
class Message {
 public:
  Message(std::span<const std::byte> bytes, WireState& state) : bytes_(bytes), state_(&state) {}

  // Goes to the next field; false at the end of the message and after an error.
  bool next();
  uint32_t field() const { return field_; }

  // The field's value; a field of another wire type is an error and gives an empty value.
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

  void fail(std::string text);

 private:
  enum class Type : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };
  bool expect(Type type, std::string_view name);
  uint64_t varint();
  void take(uint64_t count);

  std::span<const std::byte> bytes_;
  WireState* state_;
  size_t start_ = 0;  // of the message in the input
  size_t at_ = 0;     // in bytes_
  int depth_ = 0;
  uint32_t field_ = 0;
  Type type_ = Type::Varint;
  uint64_t value_ = 0;               // of a varint
  std::span<const std::byte> data_;  // of the other types
};

}  // namespace lathe::onnx
