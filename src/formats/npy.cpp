#include "formats/npy.h"

#include "archive/little_endian.h"
#include "archive/parsing.h"
#include "base/mmap.h"
#include "formats/dtype_names_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_set>

namespace lathe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxAxes = 64;  // as in NumPy 2

// Walks the text of the header.
class Dictionary {
 public:
  Dictionary(std::string_view text, size_t offset, std::string_view where)
      : text_(text), offset_(offset), where_(where) {}

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, offset_ + at_, format, std::forward<T>(args)...);
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail("expected '{}'", c);
  }
  std::string_view quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail("a string has no end");
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  bool truth() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail("expected True or False");
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> out;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (problem != std::errc() || size < 0) fail("expected a size");
      if (out.size() == kMaxAxes) fail("more than {} axes", kMaxAxes);
      out.push_back(size);
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') at_++;  // a long number of Python 2
      if (take(',')) continue;
      expect(')');
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

void parse_dictionary(Dictionary d, NpyHeader& out) {
  bool has_descr = false, has_shape = false;
  d.expect('{');
  while (!d.take('}')) {
    const std::string_view key = d.quoted();
    d.expect(':');
    if (key == "descr") {
      if (d.take('[')) d.fail("arrays of structures cannot be read; save an array for each field");
      const std::string_view descr = d.quoted();
      const auto type = parse_descr(descr);
      if (!type) d.fail("elements of type `{}` cannot be read", descr);
      out.dtype = type->dtype;
      out.is_big_endian = type->is_big_endian;
      has_descr = true;
    } else if (key == "fortran_order") {
      out.fortran_order = d.truth();
    } else if (key == "shape") {
      out.shape = d.shape();
      has_shape = true;
    } else {
      d.fail("the key `{}` is unknown", key);
    }
    if (d.take(',')) continue;
    d.expect('}');
    break;
  }
  if (!has_descr || !has_shape) d.fail("descr or shape is missing");
}

NpyHeader read_npy_header(std::span<const std::byte> file, std::string_view where) {
  const std::string_view all = text_of(file);
  if (!all.starts_with(kMagic) || all.size() < 10) throw_parse_error(where, 0, "this is no npy file");
  const int version = static_cast<unsigned char>(all[6]);
  if (version < 1 || version > 3) throw_parse_error(where, 6, "version {} is unknown", version);
  const size_t start = version == 1 ? 10 : 12;
  if (all.size() < start) throw_parse_error(where, all.size(), "the header is cut off");
  const auto length = static_cast<size_t>(read_little_endian(file, 8, start - 8));
  if (length > all.size() - start)
    throw_parse_error(where, 8, "the header's length is {}, but only {} bytes follow", length,
                      all.size() - start);
  NpyHeader out;
  out.data_at = start + length;
  parse_dictionary(Dictionary(all.substr(start, length), start, where), out);
  if (const auto bytes = data_bytes(out.dtype, out.shape); bytes != all.size() - out.data_at)
    throw_parse_error(where, out.data_at, "the shape needs {} bytes of data, but there are {}",
                      bytes ? std::to_string(*bytes) : "2^64 or more", all.size() - out.data_at);
  return out;
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view where) {
  return parsed([&] { return read_npy_header(file, where); });
}

Tensor load_npy(const FileData& file, const std::string& name, const std::string& device) {
  const NpyHeader header = parse_npy_header(file.bytes(), file.name()).or_throw();
  FileData data = file;
  auto part = file.bytes().subspan(header.data_at);
  if (header.is_big_endian) {
    auto copy = std::make_shared<std::string>(text_of(part));
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

constexpr std::string_view kNpySuffix = ".npy";

NamedTensors load_npz(const FileData& file, const std::vector<ZipEntry>& entries, const std::string& device) {
  NamedTensors out;
  for (const ZipEntry& e : entries) {
    if (!e.name.ends_with(kNpySuffix)) continue;
    const std::string name = e.name.substr(0, e.name.size() - kNpySuffix.size());
    ErrorContext context([&] { return fmt::format("loading `{}` of {}", e.name, file.name()); });
    if (e.is_deflated) {
      auto content = std::make_shared<std::string>(unzip(file.bytes(), e, file.name()).or_throw());
      out.emplace_back(name, load_npy(file.with(std::move(content)), name, device));
    } else {
      check_crc(e, e.data(file.bytes()), file.name()).or_throw();
      out.emplace_back(name, load_npy(file.part(e.data_at, e.data_bytes), name, device));
    }
  }
  return out;
}

NamedTensors load_npz(const std::string& path, const std::string& device) {
  const FileData file(path);
  return load_npz(file, parse_zip(file.bytes(), path).or_throw(), device);
}

void save_npz(const NamedTensors& tensors, const std::string& path, const NpzOptions& options) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  std::vector<Tensor> all;
  std::vector<std::string> headers;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, t] : tensors) {
    if (!names.insert(name).second) value_error("cannot save two tensors as `{}`", name);
    ErrorContext tensor([&] { return fmt::format("saving tensor `{}`", name); });
    headers.push_back(npy_header(t));
    all.push_back(t);
  }
  Tensor::realize(all);
  write_file_atomically(path, [&](FileWriter& out) {
    ZipWriter zip(out);
    for (size_t i = 0; i < all.size(); i++) {
      const std::vector<std::byte> data = all[i].bytes();
      std::string content = std::move(headers[i]);
      content.append(reinterpret_cast<const char*>(data.data()), data.size());
      zip.add(tensors[i].first + std::string(kNpySuffix), std::as_bytes(std::span(content)),
              options.compressed);
    }
    zip.finish();
  });
}

}  // namespace lathe
