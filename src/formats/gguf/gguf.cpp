#include "formats/gguf/gguf.h"

#include "archive/parsing.h"
#include "formats/gguf/dequantize.h"

#include <filesystem>
#include <functional>
#include <numeric>

namespace lathe {
namespace {

constexpr std::string_view kCount = "split.count", kNumber = "split.no", kTensors = "split.tensors.count";

// A key of a part, which is untrusted: `otherwise` where it is missing, an error where it is no integer.
int64_t split_key(const GgufMetadata& metadata, std::string_view key, int64_t otherwise) {
  const GgufValue* v = metadata.value(key);
  if (!v) return otherwise;
  const auto* held = std::get_if<int64_t>(&v->held());
  if (!held || !is_integer(v->type()) || *held < 0)
    throw_parse_error(metadata.where(), 0, "key `{}` is {} {}, not a number of parts or tensors", key,
                      v->type_text(), v->to_text(3));
  return *held;
}

}  // namespace

int64_t GgufTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string gguf_part_name(std::string_view prefix, int64_t part, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count);
}

void GgufFile::add_part(FileData data, GgufHeader header) {
  for (GgufTensor& t : header.tensors) {
    t.part = parts_.size();
    if (!index_.emplace(t.name, tensors_.size()).second)
      throw_parse_error(data.name(), 0, "tensor `{}` is in an earlier part, too", t.name);
    tensors_.push_back(std::move(t));
  }
  if (parts_.empty()) {
    version_ = header.version;
    metadata_ = std::move(header.metadata);
  }
  parts_.push_back(std::move(data));
}

void GgufFile::open_other_parts(const std::string& path) {
  const int64_t count = split_key(metadata_, kCount, 1);
  if (count <= 1) return;
  if (const int64_t number = split_key(metadata_, kNumber, 0); number != 0)
    throw_parse_error(path, 0, "this is part {} of {}; load the first one", number + 1, count);
  const std::string ending = gguf_part_name("", 0, count);
  if (!path.ends_with(ending))
    throw_parse_error(path, 0, "the first of {} parts has a name that ends in {}", count, ending);
  const std::string prefix = path.substr(0, path.size() - ending.size());
  for (int64_t part = 1; part < count; part++) {
    const std::string other = gguf_part_name(prefix, part, count);
    if (!std::filesystem::exists(other))
      throw_parse_error(path, 0, "part {} of {} is missing: {}", part + 1, count, other);
    FileData data(other);
    GgufHeader header = or_fail(parse_gguf_header(data.bytes(), other));
    const int64_t its_number = split_key(header.metadata, kNumber, -1);
    const int64_t its_count = split_key(header.metadata, kCount, -1);
    if (its_number != part || its_count != count)
      throw_parse_error(other, 0, "key {} is {} and {} is {} in part {} of {}", kNumber, its_number, kCount,
                        its_count, part + 1, count);
    add_part(std::move(data), std::move(header));
  }
  const int64_t total = split_key(metadata_, kTensors, static_cast<int64_t>(tensors_.size()));
  if (total != static_cast<int64_t>(tensors_.size()))
    throw_parse_error(path, 0, "{} parts have {} tensors, not the {} of key `{}`", count, tensors_.size(),
                      total, kTensors);
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  return parsed([&] {
    FileData data(path);
    GgufHeader header = or_fail(parse_gguf_header(data.bytes(), path));
    GgufFile out;
    out.add_part(std::move(data), std::move(header));
    out.open_other_parts(path);
    return out;
  });
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name,
                                 std::shared_ptr<const void> owner) {
  return parsed([&] {
    GgufHeader header = or_fail(parse_gguf_header(bytes, name));
    if (const int64_t count = split_key(header.metadata, kCount, 1); count > 1)
      throw_parse_error(name, 0, "this is one of {} parts; they are loaded by the path of the first", count);
    GgufFile out;
    out.add_part(FileData(bytes, std::move(owner), std::move(name)), std::move(header));
    return out;
  });
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::at(std::string_view name) const {
  const GgufTensor* found = find(name);
  if (!found) value_error("{}: tensor `{}` is missing", this->name(), name);
  return *found;
}

std::span<const std::byte> GgufFile::data(const GgufTensor& t) const {
  return parts_[t.part].bytes().subspan(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes));
}

Tensor GgufFile::packed(const GgufTensor& t, const std::string& device) const {
  std::vector<int64_t> shape = t.shape;
  if (shape.empty()) shape.push_back(1);
  shape.back() = t.row_bytes();
  return parts_[t.part].tensor(data(t), shape, DType::UInt8, device, t.name);
}

Tensor GgufFile::tensor(const GgufTensor& t, const std::string& device) const {
  if (const auto plain = type_info(t.type).plain)
    return parts_[t.part].tensor(data(t), t.shape, *plain, device, t.name);
  return dequantize(packed(t, device), t.type);
}

}  // namespace lathe
