#include "formats/npy.h"

#include "base/mmap.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace lathe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeCode {
  std::string_view code;  // as in `descr`, without the byte order
  DType dtype;
};
constexpr TypeCode kTypes[] = {
    {"b1", DType::Bool},   {"i1", DType::Int8},    {"u1", DType::UInt8},   {"i2", DType::Int16},
    {"u2", DType::UInt16}, {"i4", DType::Int32},   {"u4", DType::UInt32},  {"i8", DType::Int64},
    {"u8", DType::UInt64}, {"f2", DType::Float16}, {"f4", DType::Float32}, {"f8", DType::Float64},
};

// Walks the text of the header.
class Dictionary {
 public:
  Dictionary(std::string_view text, size_t offset, std::string_view where)
      : text_(text), offset_(offset), where_(where) {}

  ParseError error(std::string text) const { return {std::move(text), offset_ + at_, std::string(where_)}; }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  Result<void> expect(char c) {
    if (take(c)) return {};
    return error(fmt::format("expected '{}'", c));
  }
  Result<std::string_view> quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return error("expected a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return error("a string has no end");
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  Result<bool> truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    return error("expected True or False");
  }
  Result<std::vector<int64_t>> shape() {
    std::vector<int64_t> out;
    LATHE_TRY_DO(expect('('));
    while (!take(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (problem != std::errc() || size < 0) return error("expected a size");
      out.push_back(size);
      at_ = static_cast<size_t>(end - text_.data());
      if (take(',')) continue;
      LATHE_TRY_DO(expect(')'));
      break;
    }
    return out;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) at_++;
  }
  std::string_view text_;
  size_t offset_, at_ = 0;
  std::string_view where_;
};

std::optional<DType> parse_descr(std::string_view descr) {
  // Bytes have no order: '|'. This machine's is little-endian.
  if (descr.size() != 3 || (descr[0] != '<' && descr[0] != '|')) return std::nullopt;
  for (const TypeCode& t : kTypes)
    if (t.code == descr.substr(1) && (descr[0] == '<' || t.code[1] == '1')) return t.dtype;
  return std::nullopt;
}

Result<void> parse_dictionary(Dictionary d, NpyHeader& out) {
  bool has_descr = false, has_shape = false;
  LATHE_TRY_DO(d.expect('{'));
  while (!d.take('}')) {
    LATHE_TRY(key, d.quoted());
    LATHE_TRY_DO(d.expect(':'));
    if (key == "descr") {
      LATHE_TRY(descr, d.quoted());
      const auto dtype = parse_descr(descr);
      if (!dtype) return d.error(fmt::format("elements of type `{}` cannot be read", descr));
      out.dtype = *dtype;
      has_descr = true;
    } else if (key == "fortran_order") {
      LATHE_TRY(order, d.truth());
      out.fortran_order = order;
    } else if (key == "shape") {
      LATHE_TRY(shape, d.shape());
      out.shape = std::move(shape);
      has_shape = true;
    } else {
      return d.error(fmt::format("the key `{}` is unknown", key));
    }
    if (d.take(',')) continue;
    LATHE_TRY_DO(d.expect('}'));
    break;
  }
  if (!has_descr || !has_shape) return d.error("descr or shape is missing");
  return {};
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view where) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  const auto error = [&](size_t at, std::string text) {
    return ParseError{std::move(text), at, std::string(where)};
  };
  if (!all.starts_with(kMagic) || all.size() < 10) return error(0, "this is no npy file");
  const int version = static_cast<unsigned char>(all[6]);
  if (version < 1 || version > 3) return error(6, fmt::format("version {} is unknown", version));
  const size_t start = version == 1 ? 10 : 12;
  if (all.size() < start) return error(all.size(), "the header is cut off");
  size_t length = 0;
  for (size_t i = start; i-- > 8;) length = length << 8 | static_cast<unsigned char>(all[i]);
  if (length > all.size() - start)
    return error(
        8, fmt::format("the header's length is {}, but only {} bytes follow", length, all.size() - start));
  NpyHeader out;
  out.data_at = start + length;
  LATHE_TRY_DO(parse_dictionary(Dictionary(all.substr(start, length), start, where), out));
  uint64_t bytes = static_cast<uint64_t>(item_size(out.dtype));
  bool overflows = false;
  for (int64_t size : out.shape)
    overflows = __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || overflows;
  if (std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end()) bytes = 0, overflows = false;
  if (overflows || bytes != all.size() - out.data_at)
    return error(out.data_at, fmt::format("the shape needs {} bytes of data, but there are {}",
                                          overflows ? std::string("2^64 or more") : std::to_string(bytes),
                                          all.size() - out.data_at));
  return out;
}

Tensor load_npy(const std::string& path, const std::string& device) {
  const MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path).or_throw();
  const auto data = file.bytes().subspan(header.data_at);
  const bool is_odd = header.dtype == DType::Bool && std::any_of(data.begin(), data.end(), [](std::byte b) {
                        return std::to_integer<int>(b) > 1;
                      });
  if (is_odd) value_error("{}: a truth value is neither 0 nor 1", path);
  if (!header.fortran_order)
    return Tensor::from_bytes(data, Shape(header.shape.begin(), header.shape.end()), header.dtype, device);
  const Tensor reversed =
      Tensor::from_bytes(data, Shape(header.shape.rbegin(), header.shape.rend()), header.dtype, device);
  Ints order;
  for (int64_t i = reversed.ndim(); i-- > 0;) order.push_back(i);
  return reversed.permute(order);
}

void save_npy(const Tensor& t, const std::string& path) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  const DType dtype = strong(t.dtype());
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeCode& c) { return c.dtype == dtype; });
  if (type == std::end(kTypes)) value_error("npy has no type for {}", dtype_full_name(dtype));
  std::string shape;
  for (const SInt& d : t.shape()) {
    if (!d.is_const()) value_error("cannot save the symbolic shape {}", to_string(t.shape()));
    shape += std::to_string(d.value()) + ",";
  }
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   item_size(dtype) == 1 ? '|' : '<', type->code, shape);
  // The data starts at a multiple of 64 bytes; the header ends in a newline.
  header.append(63 - (kMagic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(start);
    out.write(header);
    out.write(t.bytes());
  });
}

}  // namespace lathe
