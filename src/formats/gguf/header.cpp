#include "archive/little_endian.h"
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <unordered_set>

namespace lathe {
namespace {

constexpr std::string_view kMagic = "GGUF";
// Bytes that the shortest string, key and tensor take.
constexpr uint64_t kStringBytes = 8, kArrayBytes = 12, kKeyBytes = 13, kTensorBytes = 24;
// What is asked for at once: elements are larger than in the file, and a count may lie.
constexpr size_t kReserved = 1 << 16;
constexpr int kMaxDepth = 8;  // of arrays in arrays
constexpr uint64_t kDefaultAlignment = 32, kMinAlignment = 8;

// Bytes of a value in the file, at least.
uint64_t least_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::UInt8:
    case GgufValueType::Int8:
    case GgufValueType::Bool: return 1;
    case GgufValueType::UInt16:
    case GgufValueType::Int16: return 2;
    case GgufValueType::UInt32:
    case GgufValueType::Int32:
    case GgufValueType::Float32: return 4;
    case GgufValueType::String:
    case GgufValueType::UInt64:
    case GgufValueType::Int64:
    case GgufValueType::Float64: return kStringBytes;
    case GgufValueType::Array: return kArrayBytes;
  }
  return 1;
}

bool is_signed(GgufValueType t) {
  return t == GgufValueType::Int8 || t == GgufValueType::Int16 || t == GgufValueType::Int32;
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  Result<GgufHeader> read() {
    GgufHeader header;
    header.metadata = GgufMetadata(std::string(where_));
    LATHE_TRY_DO(read_start(header));
    LATHE_TRY(tensors, count("tensors", kTensorBytes));
    LATHE_TRY(keys, count("keys", kKeyBytes));
    for (uint64_t i = 0; i < keys; i++) LATHE_TRY_DO(read_key(header.metadata, i));
    LATHE_TRY_DO(read_alignment(header));
    std::unordered_set<std::string> names;
    header.tensors.reserve(std::min<size_t>(tensors, kReserved));
    for (uint64_t i = 0; i < tensors; i++) {
      LATHE_TRY_DO(read_tensor(header, i));
      context_ = fmt::format("tensor `{}`", header.tensors.back().name);
      if (!names.insert(header.tensors.back().name).second) return error("the name occurs twice");
    }
    LATHE_TRY_DO(place_tensors(header));
    return header;
  }

 private:
  ParseError error_at(size_t at, std::string_view text) const {
    return {context_.empty() ? std::string(text) : fmt::format("{}: {}", context_, text), at,
            std::string(where_)};
  }
  ParseError error(std::string_view text) const { return error_at(at_, text); }
  uint64_t left() const { return file_.size() - at_; }

  Result<uint64_t> number(size_t width, std::string_view what) {
    if (left() < width)
      return error(fmt::format("the file ends inside of {}: {} bytes are left, not {}", what, left(), width));
    const uint64_t out = read_little_endian(file_, at_, width);
    at_ += width;
    return out;
  }

  Result<uint64_t> count(std::string_view what, uint64_t bytes_each) {
    const size_t start = at_;
    LATHE_TRY(n, number(8, fmt::format("the number of {}", what)));
    if (n > left() / bytes_each)
      return error_at(start, fmt::format("{} {} cannot be in the {} bytes that are left", n, what, left()));
    return n;
  }

  Result<std::string> text(std::string_view what, uint64_t most) {
    const size_t start = at_;
    LATHE_TRY(length, number(8, fmt::format("the length of {}", what)));
    if (length > left())
      return error_at(start,
                      fmt::format("{} has {} bytes, but only {} are left in the file", what, length, left()));
    if (length > most)
      return error_at(start, fmt::format("{} has {} bytes, more than {}", what, length, most));
    std::string out(reinterpret_cast<const char*>(file_.data()) + at_, static_cast<size_t>(length));
    at_ += static_cast<size_t>(length);
    return out;
  }

  Result<void> read_start(GgufHeader& header) {
    const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
    if (!all.starts_with(kMagic)) return error("this is no GGUF file: it does not start with \"GGUF\"");
    at_ = kMagic.size();
    LATHE_TRY(version, number(4, "the version"));
    if (version == 0x02000000 || version == 0x03000000)
      return error_at(kMagic.size(), "this is a big-endian GGUF file; convert it on a little-endian machine");
    if (version != 2 && version != 3)
      return error_at(kMagic.size(), fmt::format("version {} cannot be read, only 2 and 3{}", version,
                                                 version == 1 ? "; convert the model anew" : ""));
    header.version = static_cast<uint32_t>(version);
    return {};
  }

  Result<GgufValueType> value_type() {
    LATHE_TRY(id, number(4, "a value type"));
    if (id > static_cast<uint64_t>(GgufValueType::Float64)) {
      at_ -= 4;
      return error(fmt::format("value type {} is unknown", static_cast<int32_t>(id)));
    }
    return static_cast<GgufValueType>(id);
  }

  Result<int64_t> integer(GgufValueType type) {
    const uint64_t width = least_bytes(type);
    LATHE_TRY(bits, number(width, "a value"));
    if (type == GgufValueType::Bool && bits > 1) {
      at_--;
      return error(fmt::format("a truth value is {}", bits));
    }
    const int spare = static_cast<int>(64 - 8 * width);
    return is_signed(type) ? static_cast<int64_t>(bits << spare) >> spare : static_cast<int64_t>(bits);
  }
  Result<double> real(GgufValueType type) {
    const uint64_t width = least_bytes(type);
    LATHE_TRY(bits, number(width, "a value"));
    return width == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                      : std::bit_cast<double>(bits);
  }
  Result<std::string> string(GgufValueType) { return text("a string", file_.size()); }

  template <class T>
  Result<GgufValue::Held> array(GgufValueType type, uint64_t n,
                                Result<T> (HeaderReader::*element)(GgufValueType)) {
    std::vector<T> out;
    out.reserve(std::min<size_t>(n, kReserved));
    for (uint64_t i = 0; i < n; i++) {
      LATHE_TRY(v, (this->*element)(type));
      out.push_back(std::move(v));
    }
    return GgufValue::Held(std::move(out));
  }

  Result<GgufValue> nested(GgufValueType) { return value(GgufValueType::Array); }

  Result<GgufValue> array_value() {
    LATHE_TRY(type, value_type());
    LATHE_TRY(n, count(fmt::format("elements of type {}", gguf_type_name(type)), least_bytes(type)));
    if (++depth_ > kMaxDepth) return error(fmt::format("arrays are nested more than {} deep", kMaxDepth));
    LATHE_TRY(held, type == GgufValueType::Array    ? array(type, n, &HeaderReader::nested)
                    : type == GgufValueType::String ? array(type, n, &HeaderReader::string)
                    : is_real(type)                 ? array(type, n, &HeaderReader::real)
                                                    : array(type, n, &HeaderReader::integer));
    depth_--;
    return GgufValue(GgufValueType::Array, type, std::move(held));
  }

  Result<GgufValue> value(GgufValueType type) {
    if (type == GgufValueType::Array) return array_value();
    if (type == GgufValueType::String) {
      LATHE_TRY(v, string(type));
      return GgufValue(std::move(v));
    }
    if (is_real(type)) {
      LATHE_TRY(v, real(type));
      return GgufValue(type, {}, v);
    }
    LATHE_TRY(v, integer(type));
    return GgufValue(type, {}, v);
  }

  Result<void> read_key(GgufMetadata& metadata, uint64_t i) {
    context_ = fmt::format("key {}", i);
    const size_t start = at_;
    LATHE_TRY(key, text("the key", kMaxGgufKey));
    context_ = fmt::format("key `{}`", key);
    if (metadata.has(key)) return error_at(start, "the key occurs twice");
    LATHE_TRY(type, value_type());
    LATHE_TRY(v, value(type));
    if (key == "general.alignment") alignment_at_ = start;
    metadata.set(key, std::move(v));
    return {};
  }

  Result<void> read_alignment(GgufHeader& header) {
    constexpr std::string_view kKey = "general.alignment";
    context_ = fmt::format("key `{}`", kKey);
    header.alignment = kDefaultAlignment;
    const GgufValue* v = header.metadata.value(kKey);
    if (!v) return {};
    const auto* held = is_integer(v->type()) ? std::get_if<int64_t>(&v->held()) : nullptr;
    if (!held) return error_at(alignment_at_, fmt::format("it is {}, not an integer", v->type_text()));
    header.alignment = static_cast<uint64_t>(*held);
    if (!std::has_single_bit(header.alignment) || header.alignment < kMinAlignment ||
        header.alignment > (uint64_t{1} << 31))
      return error_at(alignment_at_,
                      fmt::format("{} is no power of two from {} on", v->to_text(), kMinAlignment));
    return {};
  }

  Result<void> read_shape(GgufTensor& t) {
    const size_t start = at_;
    LATHE_TRY(axes, number(4, "the number of axes"));
    if (axes > kMaxGgufAxes)
      return error_at(start, fmt::format("it has {} axes, more than {}", axes, kMaxGgufAxes));
    t.shape.resize(static_cast<size_t>(axes));
    for (size_t i = t.shape.size(); i-- > 0;) {
      LATHE_TRY(size, number(8, "the shape"));
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return error_at(at_ - 8, fmt::format("an axis has size {}", static_cast<int64_t>(size)));
      t.shape[i] = static_cast<int64_t>(size);
    }
    return {};
  }

  // Shape, type, and the bytes that these need.
  Result<void> read_layout(GgufTensor& t) {
    const size_t start = at_;
    LATHE_TRY_DO(read_shape(t));
    const size_t type_at = at_;
    LATHE_TRY(id, number(4, "the type"));
    const auto type = ggml_type(static_cast<int32_t>(id));
    if (!type) return error_at(type_at, missing_type_text(static_cast<int32_t>(id)));
    t.type = *type;
    const int64_t row = t.shape.empty() ? 1 : t.shape.back();
    const GgmlTypeInfo& info = type_info(t.type);
    if (row % info.block_elements != 0)
      return error_at(start,
                      fmt::format("rows of {} elements are no whole blocks of {}, which has {} a block", row,
                                  info.name, info.block_elements));
    // Also beside an axis of size 0 the others are multiplied.
    int64_t bytes = info.block_bytes, elements = 1;
    bool is_empty = false, overflows = false;
    for (int64_t size : t.shape) {
      is_empty |= size == 0;
      overflows |= size != 0 && __builtin_mul_overflow(elements, size, &elements);
    }
    overflows |= __builtin_mul_overflow(elements, info.block_bytes, &bytes);
    if (overflows) return error_at(start, "its shape needs 2^63 bytes or more");
    t.bytes = is_empty ? 0 : static_cast<uint64_t>(bytes / info.block_elements);
    return {};
  }

  Result<void> read_tensor(GgufHeader& header, uint64_t i) {
    context_ = fmt::format("tensor {}", i);
    GgufTensor t;
    LATHE_TRY(name, text("the name", kMaxGgufName));
    t.name = std::move(name);
    context_ = fmt::format("tensor `{}`", t.name);
    LATHE_TRY_DO(read_layout(t));
    LATHE_TRY(offset, number(8, "the offset"));
    if (offset % header.alignment != 0)
      return error_at(
          at_ - 8, fmt::format("its offset {} is no multiple of the alignment {}", offset, header.alignment));
    t.offset = offset;
    header.tensors.push_back(std::move(t));
    return {};
  }

  // Turns offsets in the data into offsets in the file.
  Result<void> place_tensors(GgufHeader& header) {
    const uint64_t data_at = (at_ + header.alignment - 1) / header.alignment * header.alignment;
    const uint64_t data_bytes = file_.size() - std::min<uint64_t>(file_.size(), data_at);
    for (GgufTensor& t : header.tensors) {
      context_ = fmt::format("tensor `{}`", t.name);
      if (t.offset > data_bytes || t.bytes > data_bytes - t.offset)
        return error(
            fmt::format("its {} bytes are at {} of the data, which has {}; the file is cut off or damaged",
                        t.bytes, t.offset, data_bytes));
      t.offset = std::min<uint64_t>(t.offset + data_at, file_.size());  // empty ones may be where no data is
    }
    std::vector<size_t> order(header.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t i) { return header.tensors[i].bytes == 0; });
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return header.tensors[a].offset < header.tensors[b].offset; });
    for (size_t i = 1; i < order.size(); i++) {
      const GgufTensor &before = header.tensors[order[i - 1]], &t = header.tensors[order[i]];
      context_ = fmt::format("tensor `{}`", t.name);
      if (before.offset + before.bytes > t.offset)
        return error_at(static_cast<size_t>(t.offset),
                        fmt::format("its data overlaps that of `{}`", before.name));
    }
    return {};
  }

  std::span<const std::byte> file_;
  std::string_view where_;
  size_t at_ = 0, alignment_at_ = 0;
  int depth_ = 0;
  std::string context_;  // the key or tensor that is being read
};

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view where) {
  return HeaderReader(file, where).read();
}

}  // namespace lathe
