#include "formats/safetensors_header.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_set>

namespace lathe {
namespace {

struct DTypeRow {
  std::string_view name;
  DType dtype;
};
constexpr DTypeRow kDTypes[] = {
    {"BOOL", DType::Bool},       {"I8", DType::Int8},         {"U8", DType::UInt8},
    {"I16", DType::Int16},       {"U16", DType::UInt16},      {"I32", DType::Int32},
    {"U32", DType::UInt32},      {"I64", DType::Int64},       {"U64", DType::UInt64},
    {"F8_E4M3", DType::Fp8E4M3}, {"F8_E5M2", DType::Fp8E5M2}, {"F16", DType::Float16},
    {"BF16", DType::BFloat16},   {"F32", DType::Float32},     {"F64", DType::Float64},
};
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
    if (state_ == State::Range) {
      range_.push_back(value);
      return range_.size() <= 2 || fail("more than two data_offsets " + context());
    }
    if (state_ != State::Shape) return unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return fail(fmt::format("axis of {} elements {}", value, context()));
    entry_.shape.push_back(static_cast<int64_t>(value));
    return entry_.shape.size() <= kMaxAxes || fail(fmt::format("more than {} axes {}", kMaxAxes, context()));
  }

  bool string(string_t& value) override {
    if (state_ == State::Text) {
      if (!header.metadata.emplace(metadata_key_, std::move(value)).second)
        return fail("the metadata key `" + metadata_key_ + "` occurs twice");
      state_ = State::Metadata;
      return true;
    }
    if (state_ != State::DType) return unexpected("a text");
    const auto dtype = parse_safetensors_dtype(value);
    if (!dtype) return fail(fmt::format("unknown dtype \"{}\" {}", value, context()));
    entry_.dtype = *dtype;
    has_dtype_ = true;
    state_ = State::Fields;
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::Start)
      state_ = State::Names;
    else if (state_ == State::TensorValue)
      state_ = State::Fields;
    else if (state_ == State::MetadataValue)
      state_ = State::Metadata;
    else
      return unexpected("object");
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::Metadata) {
      metadata_key_ = std::move(value);
      state_ = State::Text;
      return true;
    }
    if (state_ == State::Names) {
      if (value == "__metadata__") {
        if (std::exchange(has_metadata_, true)) return fail("__metadata__ occurs twice");
        state_ = State::MetadataValue;
        return true;
      }
      if (!names_.insert(value).second) return fail("the tensor `" + value + "` occurs twice");
      entry_ = {};
      entry_.name = std::move(value);
      has_dtype_ = has_shape_ = false;
      range_.clear();
      state_ = State::TensorValue;
      return true;
    }
    if (value == "dtype" && !has_dtype_)
      state_ = State::DType;
    else if (value == "shape" && !has_shape_)
      state_ = State::ShapeValue;
    else if (value == "data_offsets" && range_.empty())
      state_ = State::RangeValue;
    else
      return fail(fmt::format("unknown or repeated field \"{}\" {}", value, context()));
    return true;
  }

  bool end_object() override {
    if (state_ == State::Names) {
      state_ = State::End;
    } else if (state_ == State::Metadata) {
      state_ = State::Names;
    } else {
      if (!has_dtype_ || !has_shape_ || range_.empty())
        return fail(fmt::format("no {} {}",
                                !has_dtype_   ? "dtype"
                                : !has_shape_ ? "shape"
                                              : "data_offsets",
                                context()));
      entry_.begin = range_[0];
      entry_.end = range_[1];
      header.tensors.push_back(std::move(entry_));
      state_ = State::Names;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (state_ == State::ShapeValue)
      state_ = State::Shape;
    else if (state_ == State::RangeValue)
      state_ = State::Range;
    else
      return unexpected("list");
    return true;
  }

  bool end_array() override {
    if (state_ == State::Shape)
      has_shape_ = true;
    else if (range_.size() != 2)
      return fail(fmt::format("{} data_offsets, wanted 2, {}", range_.size(), context()));
    state_ = State::Fields;
    return true;
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
  enum class State : uint8_t {
    Start,
    Names,
    TensorValue,
    Fields,
    DType,
    ShapeValue,
    Shape,
    RangeValue,
    Range,
    MetadataValue,
    Metadata,
    Text,
    End
  };

  bool fail(std::string text) {
    problem = std::move(text);
    problem_at = static_cast<size_t>(*reached_ - text_.data());
    return false;
  }
  std::string context() const {
    switch (state_) {
      case State::Start:
      case State::Names:
      case State::End: return "at the top";
      case State::MetadataValue:
      case State::Metadata:
      case State::Text: return "in __metadata__";
      default: return "in tensor `" + entry_.name + "`";
    }
  }
  bool unexpected(std::string_view what) { return fail(fmt::format("unexpected {} {}", what, context())); }

  std::string_view text_;
  const char** reached_;
  State state_ = State::Start;
  std::unordered_set<std::string> names_;
  bool has_metadata_ = false;
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false;
  std::vector<uint64_t> range_;
  std::string metadata_key_;
};

}  // namespace

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::optional<std::string_view> safetensors_dtype_name(DType d) {
  for (const DTypeRow& row : kDTypes)
    if (row.dtype == d) return row.name;
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
