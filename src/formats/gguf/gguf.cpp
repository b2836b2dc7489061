#include "formats/gguf/gguf.h"

#include "formats/gguf/dequantize.h"

#include <filesystem>
#include <functional>
#include <numeric>

namespace lathe {
namespace {

constexpr std::string_view kCount = "split.count", kNumber = "split.no", kTensors = "split.tensors.count";

ParseError split_error(std::string_view where, std::string text) {
  return {std::move(text), 0, std::string(where)};
}

// A key of a part, which is untrusted: `otherwise` where it is missing, an error where it is no integer.
Result<int64_t> split_key(const GgufMetadata& metadata, std::string_view key, int64_t otherwise) {
  const GgufValue* v = metadata.value(key);
  if (!v) return otherwise;
  const auto* held = std::get_if<int64_t>(&v->held());
  if (!held || !is_integer(v->type()) || *held < 0)
    return split_error(metadata.where(), fmt::format("key `{}` is {} {}, not a number of parts or tensors",
                                                     key, v->type_text(), v->to_text(3)));
  return *held;
}

}  // namespace

int64_t GgufTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string gguf_part_name(std::string_view prefix, int64_t part, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count);
}

Result<void> GgufFile::add_part(FileData data, GgufHeader header) {
  for (GgufTensor& t : header.tensors) {
    t.part = parts_.size();
    if (!index_.emplace(t.name, tensors_.size()).second)
      return split_error(data.name(), fmt::format("tensor `{}` is in an earlier part, too", t.name));
    tensors_.push_back(std::move(t));
  }
  if (parts_.empty()) {
    version_ = header.version;
    metadata_ = std::move(header.metadata);
  }
  parts_.push_back(std::move(data));
  return {};
}

Result<void> GgufFile::open_other_parts(const std::string& path) {
  LATHE_TRY(count, split_key(metadata_, kCount, 1));
  if (count <= 1) return {};
  LATHE_TRY(number, split_key(metadata_, kNumber, 0));
  if (number != 0)
    return split_error(path, fmt::format("this is part {} of {}; load the first one", number + 1, count));
  const std::string ending = gguf_part_name("", 0, count);
  if (!path.ends_with(ending))
    return split_error(path, fmt::format("the first of {} parts has a name that ends in {}", count, ending));
  const std::string prefix = path.substr(0, path.size() - ending.size());
  for (int64_t part = 1; part < count; part++) {
    const std::string other = gguf_part_name(prefix, part, count);
    if (!std::filesystem::exists(other))
      return split_error(path, fmt::format("part {} of {} is missing: {}", part + 1, count, other));
    FileData data(other);
    LATHE_TRY(header, parse_gguf_header(data.bytes(), other));
    LATHE_TRY(its_number, split_key(header.metadata, kNumber, -1));
    LATHE_TRY(its_count, split_key(header.metadata, kCount, -1));
    if (its_number != part || its_count != count)
      return split_error(other, fmt::format("key {} is {} and {} is {} in part {} of {}", kNumber, its_number,
                                            kCount, its_count, part + 1, count));
    LATHE_TRY_DO(add_part(std::move(data), std::move(header)));
  }
  LATHE_TRY(total, split_key(metadata_, kTensors, static_cast<int64_t>(tensors_.size())));
  if (total != static_cast<int64_t>(tensors_.size()))
    return split_error(path, fmt::format("{} parts have {} tensors, not the {} of key `{}`", count,
                                         tensors_.size(), total, kTensors));
  return {};
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  FileData data(path);
  LATHE_TRY(header, parse_gguf_header(data.bytes(), path));
  GgufFile out;
  LATHE_TRY_DO(out.add_part(std::move(data), std::move(header)));
  LATHE_TRY_DO(out.open_other_parts(path));
  return out;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name,
                                 std::shared_ptr<const void> owner) {
  LATHE_TRY(header, parse_gguf_header(bytes, name));
  LATHE_TRY(count, split_key(header.metadata, kCount, 1));
  if (count > 1)
    return split_error(
        name, fmt::format("this is one of {} parts; they are loaded by the path of the first", count));
  GgufFile out;
  LATHE_TRY_DO(out.add_part(FileData(bytes, std::move(owner), std::move(name)), std::move(header)));
  return out;
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
