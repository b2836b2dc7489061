#include "formats/gguf/writer.h"

#include "archive/little_endian.h"
#include "base/mmap.h"
#include "formats/gguf/gguf.h"

#include <bit>
#include <memory>
#include <utility>

namespace lathe {
namespace {

// Readers refuse names of kMaxGgufName bytes.
constexpr size_t kMaxWrittenName = kMaxGgufName - 1;

std::string string_bytes(std::string_view text) { return little_endian(text.size(), 8) + std::string(text); }

std::string id_bytes(GgufValueType type) { return little_endian(static_cast<uint64_t>(type), 4); }

std::string scalar_bytes(int64_t v, GgufValueType type) {
  return little_endian(static_cast<uint64_t>(v), gguf_type_bytes(type));
}
std::string scalar_bytes(double v, GgufValueType type) {
  return type == GgufValueType::Float32 ? little_endian(std::bit_cast<uint32_t>(static_cast<float>(v)), 4)
                                        : little_endian(std::bit_cast<uint64_t>(v), 8);
}
std::string scalar_bytes(const std::string& v, GgufValueType) { return string_bytes(v); }
std::string scalar_bytes(const GgufValue& v, GgufValueType);

std::string value_bytes(const GgufValue& value) {
  return std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
          return scalar_bytes(held, value.type());
        } else {
          std::string out = id_bytes(value.element_type()) + little_endian(held.size(), 8);
          for (const auto& element : held) out += scalar_bytes(element, value.element_type());
          return out;
        }
      },
      value.held());
}

// An array in an array comes without its value type, which the outer one names.
std::string scalar_bytes(const GgufValue& v, GgufValueType) { return value_bytes(v); }

}  // namespace

void GgufWriter::add(std::string name, std::vector<int64_t> shape, GgmlType type, Produce produce) {
  if (name.empty() || name.size() > kMaxWrittenName)
    value_error("tensor `{}`: the name has {} bytes, not 1 to {}", name, name.size(), kMaxWrittenName);
  if (shape.size() > kMaxGgufAxes)
    value_error("tensor `{}`: GGUF holds at most {} axes, not {}", name, kMaxGgufAxes, shape.size());
  const auto row = lathe::row_bytes(type, shape.empty() ? 1 : shape.back());
  if (!row)
    value_error("tensor `{}`: rows of {} elements are no whole blocks of {}", name,
                shape.empty() ? 1 : shape.back(), type_info(type).name);
  auto bytes = static_cast<uint64_t>(*row);
  for (size_t i = 0; i + 1 < shape.size(); i++) bytes *= static_cast<uint64_t>(shape[i]);
  if (!names_.insert(name).second) value_error("tensor `{}` is added twice", name);
  tensors_.push_back({std::move(name), std::move(shape), type, bytes, std::move(produce)});
}

void GgufWriter::add(std::string name, std::vector<int64_t> shape, GgmlType type,
                     std::vector<std::byte> data) {
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(data));
  add(std::move(name), std::move(shape), type, [held] { return *held; });
  const Entry& entry = tensors_.back();
  if (held->size() != entry.bytes)
    value_error("tensor `{}`: {} bytes of data, but type and shape need {}", entry.name, held->size(),
                entry.bytes);
}

void GgufWriter::add(std::string name, std::vector<int64_t> shape, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  add(std::move(name), std::move(shape), GgmlType::F32, std::vector<std::byte>(bytes.begin(), bytes.end()));
}

uint64_t GgufWriter::alignment() const {
  const int64_t alignment = metadata_.get_or<int64_t>("general.alignment", 32);
  if (alignment < 8 || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    value_error("{}: key `general.alignment` is {}, not a power of two from 8 on", metadata_.where(),
                alignment);
  return static_cast<uint64_t>(alignment);
}

std::string GgufWriter::header() const {
  std::string out = "GGUF" + little_endian(3, 4) + little_endian(tensors_.size(), 8) +
                    little_endian(metadata_.entries().size(), 8);
  for (const auto& [key, value] : metadata_.entries()) {
    if (key.empty() || key.size() > kMaxGgufKey)
      value_error("{}: a key has {} bytes, not 1 to {}", metadata_.where(), key.size(), kMaxGgufKey);
    out += string_bytes(key) + id_bytes(value.type()) + value_bytes(value);
  }
  const uint64_t align = alignment();
  uint64_t offset = 0;
  for (const Entry& t : tensors_) {
    out += string_bytes(t.name) + little_endian(t.shape.size(), 4);
    for (size_t i = t.shape.size(); i-- > 0;) out += little_endian(static_cast<uint64_t>(t.shape[i]), 8);
    out += little_endian(static_cast<uint64_t>(t.type), 4) + little_endian(offset, 8);
    offset += (t.bytes + align - 1) / align * align;
  }
  return out;
}

void GgufWriter::emit(FunctionRef<void(std::string_view)> sink) const {
  const uint64_t align = alignment();
  const auto pad = [&](uint64_t bytes) {
    sink(std::string(static_cast<size_t>((align - bytes % align) % align), '\0'));
  };
  const std::string start = header();
  sink(start);
  pad(start.size());
  for (const Entry& t : tensors_) {
    const std::vector<std::byte> data = t.produce();
    if (data.size() != t.bytes)
      value_error("tensor `{}`: {} bytes of data, but type and shape need {}", t.name, data.size(), t.bytes);
    sink(text_of(data));
    pad(t.bytes);
  }
}

void GgufWriter::write(const std::string& path) const {
  ErrorContext context([&] { return fmt::format("writing {}", path); });
  write_file_atomically(path,
                        [&](FileWriter& out) { emit([&](std::string_view bytes) { out.write(bytes); }); });
}

std::string GgufWriter::to_bytes() const {
  std::string out;
  emit([&](std::string_view bytes) { out += bytes; });
  return out;
}

}  // namespace lathe
