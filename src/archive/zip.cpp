#include "archive/zip.h"

#include "archive/deflate.h"
#include "archive/little_endian.h"
#include "archive/parsing.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace lathe {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint64_t kIn64 = 0xffffffff;  // the number is in the zip64 record
constexpr uint16_t kExtra64 = 1;
constexpr int kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1, kUtf8 = 1 << 11;
constexpr uint64_t kMaxRatio = 1032;  // deflate's best: 258 bytes in two bits

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  std::vector<ZipEntry> run() {
    read_end(find_end());
    std::vector<ZipEntry> out;
    std::unordered_set<std::string> names;
    size_t at = directory_at_;
    uint64_t total = 0;
    for (uint64_t i = 0; i < count_; i++) {
      const size_t entry_at = at;
      ZipEntry entry = read_entry(at);
      total += entry.data_bytes;
      // What entries unpack to is bounded by the archive's length only as long as they share nothing.
      if (total > directory_at_) fail(entry_at, "entries overlap");
      if (entry.name.ends_with('/')) continue;
      if (!names.insert(entry.name).second) fail(entry_at, "the name `{}` occurs twice", entry.name);
      out.push_back(std::move(entry));
    }
    return out;
  }

 private:
  template <class... T>
  [[noreturn]] void fail(size_t at, fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, at, format, std::forward<T>(args)...);
  }
  uint64_t number(size_t at, size_t width) const { return read_little_endian(file_, at, width); }
  bool has(size_t at, uint32_t signature, size_t bytes) const {
    return at <= file_.size() && file_.size() - at >= bytes && number(at, 4) == signature;
  }
  std::string_view text(size_t at, size_t bytes) const { return text_of(file_.subspan(at, bytes)); }

  // The last record that a comment of the right length follows up to the end of the file.
  size_t find_end() const {
    constexpr size_t kMaxComment = 0xffff;
    const size_t last = file_.size() - std::min(file_.size(), kEndBytes);
    for (size_t back = 0; back <= std::min(last, kMaxComment); back++)
      if (has(last - back, kEnd, kEndBytes) && number(last - back + 20, 2) == back) return last - back;
    fail(file_.size(), "no zip archive: the record at its end is missing or cut off");
  }

  void read_end(size_t end) {
    uint64_t disks = number(end + 4, 2) | number(end + 6, 2), bytes = number(end + 12, 4),
             at = number(end + 16, 4);
    count_ = number(end + 10, 2);
    directory_end_ = end;
    if (end >= kLocator64Bytes && has(end - kLocator64Bytes, kLocator64, kLocator64Bytes)) {
      const uint64_t end64 = number(end - kLocator64Bytes + 8, 8);
      if (end64 > end || !has(static_cast<size_t>(end64), kEnd64, kEnd64Bytes))
        fail(end - kLocator64Bytes, "no zip64 record at {}", end64);
      const auto from = static_cast<size_t>(end64);
      disks = number(from + 16, 4) | number(from + 20, 4);
      count_ = number(from + 32, 8);
      bytes = number(from + 40, 8);
      at = number(from + 48, 8);
      directory_end_ = from;
    }
    if (disks != 0) fail(end, "archives of several disks cannot be read");
    if (at > directory_end_ || bytes > directory_end_ - at || count_ > bytes / kCentralBytes)
      fail(end, "{} entries in {} bytes from {} do not fit in front of {}", count_, bytes, at,
           directory_end_);
    directory_at_ = static_cast<size_t>(at);
    directory_end_ = static_cast<size_t>(at + bytes);
  }

  // Puts the 64-bit numbers of the extra field where the classic ones say so, in this order.
  void read_extra(size_t at, size_t bytes, std::initializer_list<uint64_t*> numbers) const {
    const size_t end = at + bytes;
    while (end - at >= 4) {
      const uint64_t id = number(at, 2), length = number(at + 2, 2);
      at += 4;
      if (length > end - at) break;
      const size_t next = at + static_cast<size_t>(length);
      if (id == kExtra64)
        for (uint64_t* n : numbers) {
          if (*n != kIn64) continue;
          if (next - at < 8) fail(at, "the zip64 record of an entry is cut off");
          *n = number(at, 8);
          at += 8;
        }
      at = next;
    }
  }

  // The entry of the directory at `at`, which moves on to the next.
  ZipEntry read_entry(size_t& at) const {
    const size_t start = at;
    if (directory_end_ - start < kCentralBytes || !has(start, kCentral, kCentralBytes))
      fail(start, "an entry of the directory is missing or cut off");
    const uint64_t flags = number(start + 8, 2), method = number(start + 10, 2), name = number(start + 28, 2),
                   extra = number(start + 30, 2), comment = number(start + 32, 2);
    if (name + extra + comment > directory_end_ - start - kCentralBytes)
      fail(start, "an entry of the directory is cut off");
    ZipEntry out;
    out.name = text(start + kCentralBytes, static_cast<size_t>(name));
    if (flags & kEncrypted) fail(start, "`{}` is encrypted", out.name);
    if (method != kStored && method != kDeflated)
      fail(start, "`{}` is packed by method {}; only stored and deflated entries can be read", out.name,
           method);
    out.is_deflated = method == kDeflated;
    out.crc = static_cast<uint32_t>(number(start + 16, 4));
    uint64_t packed = number(start + 20, 4), local = number(start + 42, 4);
    out.size = number(start + 24, 4);
    read_extra(start + kCentralBytes + static_cast<size_t>(name), static_cast<size_t>(extra),
               {&out.size, &packed, &local});
    if (!out.is_deflated && packed != out.size)
      fail(start, "`{}` is stored in {} bytes, but has {}", out.name, packed, out.size);
    if (out.is_deflated && out.size / kMaxRatio > packed)
      fail(start, "`{}` has {} bytes of content in {}, more than deflate can pack", out.name, out.size,
           packed);
    find_data(start, local, packed, out);
    at = start + kCentralBytes + static_cast<size_t>(name + extra + comment);
    return out;
  }

  // Names and extra fields of the local header differ in length from those of the directory.
  void find_data(size_t start, uint64_t local, uint64_t packed, ZipEntry& out) const {
    if (local > directory_at_ || !has(static_cast<size_t>(local), kLocal, kLocalBytes))
      fail(start, "`{}` has no header at {}", out.name, local);
    const auto from = static_cast<size_t>(local);
    const size_t name = number(from + 26, 2), extra = number(from + 28, 2);
    const size_t data = from + kLocalBytes + name + extra;
    if (data > directory_at_ || packed > directory_at_ - data)
      fail(from, "the data of `{}` ({} bytes from {}) reaches into the directory at {}", out.name, packed,
           data, directory_at_);
    if (text(from + kLocalBytes, name) != out.name)
      fail(from, "the header of `{}` has another name", out.name);
    out.data_at = data;
    out.data_bytes = static_cast<size_t>(packed);
  }

  std::span<const std::byte> file_;
  std::string_view where_;
  uint64_t count_ = 0;
  size_t directory_at_ = 0, directory_end_ = 0;
};

}  // namespace

bool is_zip(std::span<const std::byte> file) {
  return file.size() >= 4 &&
         (read_little_endian(file, 0, 4) == kLocal || read_little_endian(file, 0, 4) == kEnd);
}

Result<std::vector<ZipEntry>> parse_zip(std::span<const std::byte> file, std::string_view where) {
  return parsed([&] { return Reader(file, where).run(); });
}

Result<void> check_crc(const ZipEntry& entry, std::span<const std::byte> content, std::string_view where) {
  if (crc32(content) == entry.crc) return {};
  return ParseError{fmt::format("the content of `{}` does not match its CRC", entry.name), entry.data_at,
                    std::string(where)};
}

Result<std::string> unzip(std::span<const std::byte> file, const ZipEntry& entry, std::string_view where) {
  const auto data = entry.data(file);
  auto out = entry.is_deflated ? inflate_raw(data, entry.size, fmt::format("{}: `{}`", where, entry.name))
                               : Result(std::string(text_of(data)));
  if (out.ok()) LATHE_TRY_DO(check_crc(entry, std::as_bytes(std::span(out.value())), where));
  return out;
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> content, bool deflated) {
  if (name.size() > std::numeric_limits<uint16_t>::max())
    value_error("a name of {} bytes is too long for a zip archive", name.size());
  const std::string packed = deflated ? deflate_raw(content) : "";
  const uint64_t at = out_.offset(), size = content.size(), data = deflated ? packed.size() : size;
  const bool is_64 = std::max({at, size, data}) >= zip64_from_;
  const auto classic = [&](uint64_t value) { return little_endian(is_64 ? kIn64 : value, 4); };
  const auto extra = [&](std::string numbers) {
    return is_64 ? little_endian(kExtra64, 2) + little_endian(numbers.size(), 2) + numbers : std::string();
  };
  const std::string sizes64 = little_endian(size, 8) + little_endian(data, 8);
  const std::string local = extra(sizes64), central = extra(sizes64 + little_endian(at, 8));
  constexpr int kVersion = 45;            // zip64
  constexpr uint64_t kDate = 1 | 1 << 5;  // 1 January 1980, the earliest there is
  std::string common = little_endian(kVersion, 2) + little_endian(kUtf8, 2) +
                       little_endian(deflated ? kDeflated : kStored, 2) + little_endian(kDate << 16, 4) +
                       little_endian(crc32(content), 4) + classic(data) + classic(size) +
                       little_endian(name.size(), 2);
  out_.write(little_endian(kLocal, 4) + common + little_endian(local.size(), 2) + name + local);
  if (deflated)
    out_.write(packed);
  else
    out_.write(content);
  // Comment, disk and attributes are none.
  directory_ += little_endian(kCentral, 4) + little_endian(kVersion, 2) + common +
                little_endian(central.size(), 2) + little_endian(0, 2 + 2 + 2 + 4) + classic(at) + name +
                central;
  count_++;
}

void ZipWriter::finish() {
  const uint64_t at = out_.offset(), bytes = directory_.size();
  out_.write(directory_);
  const bool is_64 = std::max(at, bytes) >= zip64_from_ || count_ >= std::min<uint64_t>(zip64_from_, 0xffff);
  if (is_64) {
    const std::string size = little_endian(kEnd64Bytes - 12, 8);  // without signature and size
    out_.write(little_endian(kEnd64, 4) + size + little_endian(45, 2) + little_endian(45, 2) +
               little_endian(0, 4 + 4) + little_endian(count_, 8) + little_endian(count_, 8) +
               little_endian(bytes, 8) + little_endian(at, 8));
    out_.write(little_endian(kLocator64, 4) + little_endian(0, 4) + little_endian(at + bytes, 8) +
               little_endian(1, 4));
  }
  const auto classic = [&](uint64_t value, size_t width) {
    return little_endian(is_64 ? kIn64 : value, width);
  };
  out_.write(little_endian(kEnd, 4) + little_endian(0, 2 + 2) + classic(count_, 2) + classic(count_, 2) +
             classic(bytes, 4) + classic(at, 4) + little_endian(0, 2));
}

}  // namespace lathe
