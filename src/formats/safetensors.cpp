#include "formats/safetensors.h"

#include "archive/little_endian.h"
#include "base/mmap.h"
#include "formats/dtype_names_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace lathe {
namespace {

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const DTypeNames& row : kDTypeNames)
    if (!name.empty() && row.safetensors == name) return row.dtype;
  return std::nullopt;
}

std::optional<std::string_view> safetensors_dtype_name(DType d) {
  for (const DTypeNames& row : kDTypeNames)
    if (row.dtype == d && !row.safetensors.empty()) return row.safetensors;
  return std::nullopt;
}

constexpr size_t kMaxAxes = 64;

// Counts the characters read, so that events know where they are.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {"key": "text"}}
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(std::string_view text, const char** reached) : text_(text), reached_(reached) {}

  SafetensorsHeader header;
  std::string problem;
  size_t problem_at = 0;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != kList) return unexpected("a number");
    if (field_ == "data_offsets") {
      range_.push_back(value);
      return range_.size() <= 2 || fail("more than two data_offsets " + context());
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return fail(fmt::format("axis of {} elements {}", value, context()));
    entry_.shape.push_back(static_cast<int64_t>(value));
    return entry_.shape.size() <= kMaxAxes || fail(fmt::format("more than {} axes {}", kMaxAxes, context()));
  }

  bool string(string_t& value) override {
    if (depth_ == kFields && is_metadata_)
      return header.metadata.emplace(field_, std::move(value)).second ||
             fail("the metadata key `" + field_ + "` occurs twice");
    if (depth_ != kFields || field_ != "dtype") return unexpected("a text");
    const auto dtype = parse_safetensors_dtype(value);
    if (!dtype) return fail(fmt::format("unknown dtype \"{}\" {}", value, context()));
    entry_.dtype = *dtype;
    return has_dtype_ = true;
  }

  bool start_object(size_t) override {
    if (depth_ >= kFields) return unexpected("object");
    depth_++;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == kFields) {
      field_ = std::move(value);
      const bool is_known = is_metadata_ || (field_ == "dtype" && !has_dtype_) ||
                            (field_ == "shape" && !has_shape_) ||
                            (field_ == "data_offsets" && range_.empty());
      return is_known || fail(fmt::format("unknown or repeated field \"{}\" {}", field_, context()));
    }
    is_metadata_ = value == "__metadata__";
    if (!names_.insert(value).second)
      return fail(is_metadata_ ? "__metadata__ occurs twice" : "the tensor `" + value + "` occurs twice");
    entry_ = {};
    entry_.name = std::move(value);
    has_dtype_ = has_shape_ = false;
    range_.clear();
    return true;
  }

  bool end_object() override {
    if (depth_-- != kFields || is_metadata_) return true;
    if (!has_dtype_ || !has_shape_ || range_.empty())
      return fail(fmt::format("no {} in tensor `{}`",
                              !has_dtype_   ? "dtype"
                              : !has_shape_ ? "shape"
                                            : "data_offsets",
                              entry_.name));
    entry_.begin = range_[0];
    entry_.end = range_[1];
    header.tensors.push_back(std::move(entry_));
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != kFields || is_metadata_ || field_ == "dtype") return unexpected("list");
    depth_ = kList;
    return true;
  }

  bool end_array() override {
    depth_ = kFields;
    if (field_ == "shape") return has_shape_ = true;
    return range_.size() == 2 || fail(fmt::format("{} data_offsets, wanted 2, {}", range_.size(), context()));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: reason"
    std::string_view reason = e.what();
    if (const size_t colon = reason.find(": "); colon != reason.npos) reason.remove_prefix(colon + 2);
    // What it read last may be bytes that are no text.
    reason = reason.substr(0, reason.find("; last read"));
    problem = fmt::format("the header is not valid JSON: {}", reason);
    problem_at = std::min(position, text_.size());  // one beyond where the text is cut off
    return false;
  }

 private:
  // What is around: the header's object, one of a tensor or of the metadata, a list.
  enum Depth { kNothing, kNames, kFields, kList };

  bool fail(std::string text) {
    problem = std::move(text);
    problem_at = static_cast<size_t>(*reached_ - text_.data());
    return false;
  }
  std::string context() const {
    return depth_ == kNothing ? "at the top"
           : is_metadata_     ? "in __metadata__"
                              : "in tensor `" + entry_.name + "`";
  }
  bool unexpected(std::string_view what) { return fail(fmt::format("unexpected {} {}", what, context())); }

  std::string_view text_;
  const char** reached_;
  int depth_ = kNothing;
  std::unordered_set<std::string> names_;
  bool is_metadata_ = false;  // where the depth is that of fields, or a name has been read
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false;
  std::vector<uint64_t> range_;
  std::string field_;  // or the key of a text in the metadata
};

// Parses the JSON text that starts at byte `offset` of the file. Byte ranges are as written: relative to the
// data.
Result<SafetensorsHeader> parse_safetensors_json(std::string_view text, size_t offset,
                                                 std::string_view where) {
  const char* reached = text.data();
  HeaderEvents events(text, &reached);
  const bool ok = nlohmann::json::sax_parse(CountingIterator(text.data(), &reached),
                                            CountingIterator(text.data() + text.size(), &reached), &events);
  if (!ok) return ParseError{std::move(events.problem), offset + events.problem_at, std::string(where)};
  return std::move(events.header);
}

constexpr size_t kLengthBytes = 8;
// The limit of the format's own implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string shape_text(const std::vector<int64_t>& shape) {
  return to_string(Shape(shape.begin(), shape.end()));
}

// Why the byte range is not what dtype and shape need; "" when it is.
std::string size_problem(const SafetensorsEntry& e) {
  if (e.end < e.begin) return fmt::format("data_offsets {} and {} are not in order", e.begin, e.end);
  if (const auto bytes = data_bytes(e.dtype, e.shape); bytes != e.end - e.begin)
    return fmt::format("{} of shape {} needs {} bytes, its data_offsets hold {}", dtype_full_name(e.dtype),
                       shape_text(e.shape), bytes ? std::to_string(*bytes) : "2^64 or more", e.end - e.begin);
  return "";
}

// Ranges must follow one another from 0 to the end of the data. Turns them into bytes of the file.
Result<void> check_ranges(SafetensorsHeader& header, uint64_t data_at, uint64_t file_bytes,
                          std::string_view where) {
  std::vector<size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const SafetensorsEntry &x = header.tensors[a], &y = header.tensors[b];
    return std::tie(x.begin, x.end, a) < std::tie(y.begin, y.end, b);
  });
  const uint64_t data_bytes = file_bytes - data_at;
  auto error = [&](uint64_t at, std::string text) {
    return ParseError{std::move(text), static_cast<size_t>(data_at + std::min(at, data_bytes)),
                      std::string(where)};
  };
  uint64_t reached = 0;
  for (size_t i : order) {
    SafetensorsEntry& e = header.tensors[i];
    if (const std::string problem = size_problem(e); !problem.empty())
      return error(e.begin, fmt::format("tensor `{}`: {}", e.name, problem));
    if (e.end > data_bytes)
      return error(e.begin,
                   fmt::format("tensor `{}`: data_offsets {} to {}, but the file has {} bytes of data",
                               e.name, e.begin, e.end, data_bytes));
    if (e.begin != reached)
      return error(e.begin,
                   fmt::format("tensor `{}`: its data {} that of the tensor before, which ends at {}", e.name,
                               e.begin < reached ? "overlaps" : "leaves a gap after", reached));
    reached = e.end;
    e.begin += data_at;
    e.end += data_at;
  }
  if (reached != data_bytes)
    return error(reached, fmt::format("{} bytes of data belong to no tensor", data_bytes - reached));
  return {};
}

std::string json_text(const nlohmann::json& text) {
  try {
    return text.dump();
  } catch (const nlohmann::json::type_error&) {
    value_error("a name or a metadata text is not valid UTF-8");
  }
}

std::vector<int64_t> saved_shape(const std::string& name, const Tensor& t) {
  std::vector<int64_t> out;
  for (const SInt& size : t.shape()) {
    if (!size.is_const())
      value_error("tensor `{}`: cannot save the symbolic shape {}", name, to_string(t.shape()));
    out.push_back(size.value());
  }
  return out;
}

std::string make_header(const NamedTensors& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += R"("__metadata__":)" + json_text(metadata);
  std::unordered_set<std::string_view> names;
  int64_t reached = 0;
  for (const auto& [name, t] : tensors) {
    if (name == "__metadata__" || !names.insert(name).second)
      value_error("cannot save {} as `{}`", name == "__metadata__" ? "a tensor" : "two tensors", name);
    if (is_weak(t.dtype()))
      value_error("safe_save requires concrete dtypes, tensor `{}` has dtypes.{}", name,
                  dtype_name(t.dtype()));
    const auto dtype = safetensors_dtype_name(t.dtype());
    if (!dtype) value_error("tensor `{}`: safetensors has no dtype for {}", name, dtype_full_name(t.dtype()));
    const std::vector<int64_t> shape = saved_shape(name, t);
    const int64_t end = reached + t.nbytes().value();
    text +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "",
                    json_text(name), *dtype, nlohmann::json(shape).dump(), reached, end);
    reached = end;
  }
  text += "}";
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file, std::string_view where) {
  auto error = [&](size_t at, std::string text) {
    return ParseError{std::move(text), at, std::string(where)};
  };
  if (file.size() < kLengthBytes)
    return error(file.size(), fmt::format("a file of {} bytes has no safetensors header", file.size()));
  const uint64_t length = read_little_endian(file, 0, kLengthBytes);
  if (length > file.size() - kLengthBytes)
    return error(0, fmt::format("the header's length is {}, but only {} bytes follow", length,
                                file.size() - kLengthBytes));
  if (length > kMaxHeaderBytes)
    return error(0, fmt::format("the header's length is {}, more than {}", length, kMaxHeaderBytes));
  const std::string_view text = text_of(file.subspan(kLengthBytes, static_cast<size_t>(length)));
  if (text.empty() || text[0] != '{') return error(kLengthBytes, "the header does not start with '{'");
  LATHE_TRY(header, parse_safetensors_json(text, kLengthBytes, where));
  LATHE_TRY_DO(check_ranges(header, kLengthBytes + length, file.size(), where));
  return std::move(header);
}

NamedTensors safe_load(const FileData& file, const SafetensorsHeader& header, const std::string& device) {
  NamedTensors out;
  for (const SafetensorsEntry& e : header.tensors)
    out.emplace_back(e.name, file.tensor(file.bytes().subspan(static_cast<size_t>(e.begin),
                                                              static_cast<size_t>(e.end - e.begin)),
                                         e.shape, e.dtype, device, e.name));
  return out;
}

NamedTensors safe_load(const std::string& path, const std::string& device) {
  const FileData file(path);
  return safe_load(file, parse_safetensors_header(file.bytes(), path).or_throw(), device);
}

Metadata safe_load_metadata(const std::string& path) {
  return parse_safetensors_header(FileData(path).bytes(), path).or_throw().metadata;
}

void safe_save(const NamedTensors& tensors, const std::string& path, const Metadata& metadata) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  const std::string header = make_header(tensors, metadata);
  std::vector<Tensor> all;
  for (const auto& [name, t] : tensors) all.push_back(t);
  Tensor::realize(all);
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(little_endian(header.size(), kLengthBytes));
    out.write(header);
    for (const Tensor& t : all) out.write(t.bytes());
  });
}

}  // namespace lathe
