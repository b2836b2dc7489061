#include "formats/safetensors_header.h"

#include "formats/dtype_names_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_set>

namespace lathe {
namespace {

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

}  // namespace

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

Result<SafetensorsHeader> parse_safetensors_json(std::string_view text, size_t offset,
                                                 std::string_view where) {
  const char* reached = text.data();
  HeaderEvents events(text, &reached);
  const bool ok = nlohmann::json::sax_parse(CountingIterator(text.data(), &reached),
                                            CountingIterator(text.data() + text.size(), &reached), &events);
  if (!ok) return ParseError{std::move(events.problem), offset + events.problem_at, std::string(where)};
  return std::move(events.header);
}

}  // namespace lathe
