#include "archive/little_endian.h"
#include "archive/parsing.h"
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <unordered_set>

namespace lathe {
namespace {

constexpr std::string_view kMagic = "GGUF";
// Bytes that the shortest key and tensor take.
constexpr uint64_t kKeyBytes = 13, kTensorBytes = 24;
// What is asked for at once: elements are larger than in the file, and a count may lie.
constexpr size_t kReserved = 1 << 16;
constexpr int kMaxDepth = 8;  // of arrays in arrays
constexpr uint64_t kDefaultAlignment = 32, kMinAlignment = 8;

bool is_signed(GgufValueType t) {
  return t == GgufValueType::Int8 || t == GgufValueType::Int16 || t == GgufValueType::Int32;
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  GgufHeader read() {
    GgufHeader header;
    header.metadata = GgufMetadata(std::string(where_));
    read_start(header);
    const auto tensors = count("tensors", kTensorBytes);
    const auto keys = count("keys", kKeyBytes);
    for (uint64_t i = 0; i < keys; i++) read_key(header.metadata, i);
    read_alignment(header);
    std::unordered_set<std::string> names;
    header.tensors.reserve(std::min<size_t>(tensors, kReserved));
    for (uint64_t i = 0; i < tensors; i++) {
      read_tensor(header, i);
      context_ = fmt::format("tensor `{}`", header.tensors.back().name);
      if (!names.insert(header.tensors.back().name).second) fail(at_, "the name occurs twice");
    }
    place_tensors(header);
    return header;
  }

 private:
  template <class... T>
  [[noreturn]] void fail(size_t at, fmt::format_string<T...> format, T&&... args) const {
    const std::string text = fmt::format(format, std::forward<T>(args)...);
    throw_parse_error(where_, at, "{}{}{}", context_, context_.empty() ? "" : ": ", text);
  }
  uint64_t left() const { return file_.size() - at_; }

  uint64_t number(size_t width, std::string_view what) {
    if (left() < width)
      fail(at_, "the file ends inside of {}: {} bytes are left, not {}", what, left(), width);
    const uint64_t out = read_little_endian(file_, at_, width);
    at_ += width;
    return out;
  }

  uint64_t count(std::string_view what, uint64_t bytes_each) {
    const size_t start = at_;
    const auto n = number(8, fmt::format("the number of {}", what));
    if (n > left() / bytes_each)
      fail(start, "{} {} cannot be in the {} bytes that are left", n, what, left());
    return n;
  }

  std::string text(std::string_view what, uint64_t most) {
    const size_t start = at_;
    const auto length = number(8, fmt::format("the length of {}", what));
    if (length > left())
      fail(start, "{} has {} bytes, but only {} are left in the file", what, length, left());
    if (length > most) fail(start, "{} has {} bytes, more than {}", what, length, most);
    std::string out(text_of(file_.subspan(at_, static_cast<size_t>(length))));
    at_ += out.size();
    return out;
  }

  void read_start(GgufHeader& header) {
    if (!text_of(file_).starts_with(kMagic))
      fail(at_, "this is no GGUF file: it does not start with \"GGUF\"");
    at_ = kMagic.size();
    const auto version = number(4, "the version");
    if (version == 0x02000000 || version == 0x03000000)
      fail(kMagic.size(), "this is a big-endian GGUF file; convert it on a little-endian machine");
    if (version != 2 && version != 3)
      fail(kMagic.size(), "version {} cannot be read, only 2 and 3{}", version,
           version == 1 ? "; convert the model anew" : "");
    header.version = static_cast<uint32_t>(version);
  }

  GgufValueType value_type() {
    const auto id = number(4, "a value type");
    if (id > static_cast<uint64_t>(GgufValueType::Float64)) {
      at_ -= 4;
      fail(at_, "value type {} is unknown", static_cast<int32_t>(id));
    }
    return static_cast<GgufValueType>(id);
  }

  int64_t integer(GgufValueType type) {
    const uint64_t width = gguf_type_bytes(type);
    const auto bits = number(width, "a value");
    if (type == GgufValueType::Bool && bits > 1) {
      at_--;
      fail(at_, "a truth value is {}", bits);
    }
    const int spare = static_cast<int>(64 - 8 * width);
    return is_signed(type) ? static_cast<int64_t>(bits << spare) >> spare : static_cast<int64_t>(bits);
  }
  double real(GgufValueType type) {
    const uint64_t width = gguf_type_bytes(type);
    const auto bits = number(width, "a value");
    return width == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                      : std::bit_cast<double>(bits);
  }
  std::string string(GgufValueType) { return text("a string", file_.size()); }

  template <class T>
  GgufValue::Held array(GgufValueType type, uint64_t n, T (HeaderReader::*element)(GgufValueType)) {
    std::vector<T> out;
    out.reserve(std::min<size_t>(n, kReserved));
    for (uint64_t i = 0; i < n; i++) out.push_back((this->*element)(type));
    return out;
  }

  GgufValue nested(GgufValueType) { return value(GgufValueType::Array); }

  GgufValue array_value() {
    const auto type = value_type();
    const auto n = count(fmt::format("elements of type {}", gguf_type_name(type)), gguf_type_bytes(type));
    if (++depth_ > kMaxDepth) fail(at_, "arrays are nested more than {} deep", kMaxDepth);
    auto held = type == GgufValueType::Array    ? array(type, n, &HeaderReader::nested)
                : type == GgufValueType::String ? array(type, n, &HeaderReader::string)
                : is_real(type)                 ? array(type, n, &HeaderReader::real)
                                                : array(type, n, &HeaderReader::integer);
    depth_--;
    return GgufValue(GgufValueType::Array, type, std::move(held));
  }

  GgufValue value(GgufValueType type) {
    if (type == GgufValueType::Array) return array_value();
    if (type == GgufValueType::String) return string(type);
    if (is_real(type)) return GgufValue(type, {}, real(type));
    return GgufValue(type, {}, integer(type));
  }

  void read_key(GgufMetadata& metadata, uint64_t i) {
    context_ = fmt::format("key {}", i);
    const size_t start = at_;
    const auto key = text("the key", kMaxGgufKey);
    context_ = fmt::format("key `{}`", key);
    if (metadata.has(key)) fail(start, "the key occurs twice");
    if (key == "general.alignment") alignment_at_ = start;
    metadata.set(key, value(value_type()));
  }

  void read_alignment(GgufHeader& header) {
    constexpr std::string_view kKey = "general.alignment";
    context_ = fmt::format("key `{}`", kKey);
    header.alignment = kDefaultAlignment;
    const GgufValue* v = header.metadata.value(kKey);
    if (!v) return;
    const auto* held = is_integer(v->type()) ? std::get_if<int64_t>(&v->held()) : nullptr;
    if (!held) fail(alignment_at_, "it is {}, not an integer", v->type_text());
    header.alignment = static_cast<uint64_t>(*held);
    if (!std::has_single_bit(header.alignment) || header.alignment < kMinAlignment ||
        header.alignment > (uint64_t{1} << 31))
      fail(alignment_at_, "{} is no power of two from {} on", v->to_text(), kMinAlignment);
  }

  void read_shape(GgufTensor& t) {
    const size_t start = at_;
    const auto axes = number(4, "the number of axes");
    if (axes > kMaxGgufAxes) fail(start, "it has {} axes, more than {}", axes, kMaxGgufAxes);
    t.shape.resize(static_cast<size_t>(axes));
    for (size_t i = t.shape.size(); i-- > 0;) {
      const auto size = number(8, "the shape");
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail(at_ - 8, "an axis has size {}", static_cast<int64_t>(size));
      t.shape[i] = static_cast<int64_t>(size);
    }
  }

  // Shape, type, and the bytes that these need.
  void read_layout(GgufTensor& t) {
    const size_t start = at_;
    read_shape(t);
    const size_t type_at = at_;
    const auto id = number(4, "the type");
    const auto type = ggml_type(static_cast<int32_t>(id));
    if (!type) fail(type_at, "{}", missing_type_text(static_cast<int32_t>(id)));
    t.type = *type;
    const int64_t row = t.shape.empty() ? 1 : t.shape.back();
    const GgmlTypeInfo& info = type_info(t.type);
    if (row % info.block_elements != 0)
      fail(start, "rows of {} elements are no whole blocks of {}, which has {} a block", row, info.name,
           info.block_elements);
    // Also beside an axis of size 0 the others are multiplied.
    int64_t bytes = info.block_bytes, elements = 1;
    bool is_empty = false, overflows = false;
    for (int64_t size : t.shape) {
      is_empty |= size == 0;
      overflows |= size != 0 && __builtin_mul_overflow(elements, size, &elements);
    }
    overflows |= __builtin_mul_overflow(elements, info.block_bytes, &bytes);
    if (overflows) fail(start, "its shape needs 2^63 bytes or more");
    t.bytes = is_empty ? 0 : static_cast<uint64_t>(bytes / info.block_elements);
  }

  void read_tensor(GgufHeader& header, uint64_t i) {
    context_ = fmt::format("tensor {}", i);
    GgufTensor t;
    t.name = text("the name", kMaxGgufName);
    context_ = fmt::format("tensor `{}`", t.name);
    read_layout(t);
    t.offset = number(8, "the offset");
    if (t.offset % header.alignment != 0)
      fail(at_ - 8, "its offset {} is no multiple of the alignment {}", t.offset, header.alignment);
    header.tensors.push_back(std::move(t));
  }

  // Turns offsets in the data into offsets in the file.
  void place_tensors(GgufHeader& header) {
    const uint64_t data_at = (at_ + header.alignment - 1) / header.alignment * header.alignment;
    const uint64_t data_bytes = file_.size() - std::min<uint64_t>(file_.size(), data_at);
    for (GgufTensor& t : header.tensors) {
      context_ = fmt::format("tensor `{}`", t.name);
      if (t.offset > data_bytes || t.bytes > data_bytes - t.offset)
        fail(at_, "its {} bytes are at {} of the data, which has {}; the file is cut off or damaged", t.bytes,
             t.offset, data_bytes);
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
        fail(static_cast<size_t>(t.offset), "its data overlaps that of `{}`", before.name);
    }
  }

  std::span<const std::byte> file_;
  std::string_view where_;
  size_t at_ = 0, alignment_at_ = 0;
  int depth_ = 0;
  std::string context_;  // the key or tensor that is being read
};

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view where) {
  return parsed([&] { return HeaderReader(file, where).read(); });
}

}  // namespace lathe
