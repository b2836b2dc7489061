#include "formats/npy.h"

#include "archive/little_endian.h"
#include "base/mmap.h"
#include "formats/dtype_names_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

namespace lathe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxAxes = 64;  // as in NumPy 2

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
      if (out.size() == kMaxAxes) return error(fmt::format("more than {} axes", kMaxAxes));
      out.push_back(size);
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') at_++;  // a long number of Python 2
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

struct ElementType {
  DType dtype;
  bool is_big_endian;
};
std::optional<ElementType> parse_descr(std::string_view descr) {
  // Bytes have no order: '|'. '=' is this machine's, which is little-endian.
  constexpr std::string_view kOrders = "<|>=";
  if (descr.size() != 3 || kOrders.find(descr[0]) == kOrders.npos) return std::nullopt;
  for (const DTypeNames& t : kDTypeNames)
    if (t.npy == descr.substr(1) && (descr[0] != '|' || t.npy[1] == '1'))
      return ElementType{t.dtype, descr[0] == '>' && t.npy[1] != '1'};
  return std::nullopt;
}

Result<void> parse_dictionary(Dictionary d, NpyHeader& out) {
  bool has_descr = false, has_shape = false;
  LATHE_TRY_DO(d.expect('{'));
  while (!d.take('}')) {
    LATHE_TRY(key, d.quoted());
    LATHE_TRY_DO(d.expect(':'));
    if (key == "descr") {
      if (d.take('[')) return d.error("arrays of structures cannot be read; save an array for each field");
      LATHE_TRY(descr, d.quoted());
      const auto type = parse_descr(descr);
      if (!type) return d.error(fmt::format("elements of type `{}` cannot be read", descr));
      out.dtype = type->dtype;
      out.is_big_endian = type->is_big_endian;
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
  const auto length = static_cast<size_t>(read_little_endian(file, 8, start - 8));
  if (length > all.size() - start)
    return error(
        8, fmt::format("the header's length is {}, but only {} bytes follow", length, all.size() - start));
  NpyHeader out;
  out.data_at = start + length;
  LATHE_TRY_DO(parse_dictionary(Dictionary(all.substr(start, length), start, where), out));
  if (const auto bytes = data_bytes(out.dtype, out.shape); bytes != all.size() - out.data_at)
    return error(out.data_at,
                 fmt::format("the shape needs {} bytes of data, but there are {}",
                             bytes ? std::to_string(*bytes) : "2^64 or more", all.size() - out.data_at));
  return out;
}

Tensor load_npy(const FileData& file, const std::string& name, const std::string& device) {
  const NpyHeader header = parse_npy_header(file.bytes(), file.name()).or_throw();
  FileData data = file;
  auto part = file.bytes().subspan(header.data_at);
  if (header.is_big_endian) {
    auto copy = std::make_shared<std::string>(reinterpret_cast<const char*>(part.data()), part.size());
    swap_bytes(*copy, static_cast<size_t>(item_size(header.dtype)));
    data = file.with(std::move(copy));
    part = data.bytes();
  }
  std::vector<int64_t> shape = header.shape;
  if (!header.fortran_order) return data.tensor(part, shape, header.dtype, device, name);
  std::reverse(shape.begin(), shape.end());
  const Tensor reversed = data.tensor(part, shape, header.dtype, device, name);
  Ints order;
  for (int64_t i = reversed.ndim(); i-- > 0;) order.push_back(i);
  return reversed.permute(order);
}

Tensor load_npy(const std::string& path, const std::string& device) {
  return load_npy(FileData(path), std::filesystem::path(path).stem().string(), device);
}

std::string npy_header(const Tensor& t) {
  const DType dtype = strong(t.dtype());
  const auto type = std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames),
                                 [&](const DTypeNames& n) { return n.dtype == dtype && !n.npy.empty(); });
  if (type == std::end(kDTypeNames)) value_error("npy has no type for {}", dtype_full_name(dtype));
  std::string shape;
  for (const SInt& d : t.shape()) {
    if (!d.is_const()) value_error("cannot save the symbolic shape {}", to_string(t.shape()));
    shape += std::to_string(d.value()) + ",";
  }
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   item_size(dtype) == 1 ? '|' : '<', type->npy, shape);
  // The data starts at a multiple of 64 bytes; the header ends in a newline.
  header.append(63 - (kMagic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  return std::string(kMagic) + std::string("\1\0", 2) + little_endian(header.size(), 2) + header;
}

void save_npy(const Tensor& t, const std::string& path) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  const std::string header = npy_header(t);
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(header);
    out.write(t.bytes());
  });
}

}  // namespace lathe
