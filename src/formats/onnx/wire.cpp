#include "formats/onnx/wire.h"

#include "archive/little_endian.h"

#include <cstring>

namespace lathe::onnx {
namespace {

// Deeper nesting is no model: graphs within graphs are a handful of levels.
constexpr int kMaxDepth = 100;

}  // namespace

uint64_t Message::varint() {
  uint64_t out = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == bytes_.size()) fail("a number is cut off");
    const auto byte = std::to_integer<uint64_t>(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    out |= (byte & 127) << shift;
    if (byte < 128) return out;
  }
  fail("a number has more than 64 bits");
}

void Message::take(uint64_t count) {
  if (count > bytes_.size() - at_)
    fail("field {} has {} bytes, but {} are left", field_, count, bytes_.size() - at_);
  data_ = bytes_.subspan(at_, static_cast<size_t>(count));
  at_ += static_cast<size_t>(count);
}

bool Message::next() {
  if (at_ == bytes_.size()) return false;
  const uint64_t key = varint();
  if (key >> 3 == 0 || key >> 32 != 0) fail("{} is no field number", key >> 3);
  field_ = static_cast<uint32_t>(key >> 3);
  type_ = static_cast<Type>(key & 7);
  switch (type_) {
    case Type::Varint: value_ = varint(); break;
    case Type::Fixed64: take(8); break;
    case Type::Bytes: take(varint()); break;
    case Type::Fixed32: take(4); break;
    default: fail("field {} has the wire type {}", field_, key & 7);
  }
  return true;
}

void Message::expect(Type type, std::string_view name) const {
  if (type_ != type) fail("field {} is not {}", field_, name);
}

int64_t Message::integer() {
  expect(Type::Varint, "an integer");
  return static_cast<int64_t>(value_);
}

float Message::real() {
  float out = 0;
  expect(Type::Fixed32, "a float");
  std::memcpy(&out, data_.data(), sizeof out);
  return out;
}

std::span<const std::byte> Message::bytes() {
  expect(Type::Bytes, "of bytes");
  return data_;
}

std::string Message::text() { return std::string(text_of(bytes())); }

Message Message::message() {
  Message out(bytes(), where_);
  out.start_ = start_ + at_ - out.bytes_.size();
  out.depth_ = depth_ + 1;
  if (out.depth_ > kMaxDepth) out.fail("messages are nested more than {} deep", kMaxDepth);
  return out;
}

void Message::append_to(std::vector<int64_t>& out) {
  if (type_ == Type::Varint) return out.push_back(integer());
  Message packed = message();
  while (packed.at_ != packed.bytes_.size()) out.push_back(static_cast<int64_t>(packed.varint()));
}

void Message::append_to(std::vector<float>& out) {
  std::vector<std::byte> raw;
  append_raw(raw);
  if (raw.size() % sizeof(float)) fail("{} bytes are no floats", raw.size());
  const size_t before = out.size();
  out.resize(before + raw.size() / sizeof(float));
  if (!raw.empty()) std::memcpy(out.data() + before, raw.data(), raw.size());
}

void Message::append_raw(std::vector<std::byte>& out) {
  if (type_ == Type::Varint) fail("field {} is not of fixed width", field_);
  out.insert(out.end(), data_.begin(), data_.end());
}

}  // namespace lathe::onnx
