#include "archive/tar.h"

#include "archive/little_endian.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace lathe {
namespace {

constexpr size_t kBlock = 512;

struct Field {
  size_t at, bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 5}, kPrefix{345, 155};
constexpr size_t kType = 156;

// Up to the first zero byte.
std::string_view field_text(std::string_view block, Field f) {
  const std::string_view all = block.substr(f.at, f.bytes);
  return all.substr(0, all.find('\0'));
}

// Octal digits, or with the top bit set a big-endian number.
std::optional<uint64_t> field_number(std::string_view block, Field f) {
  uint64_t out = 0;
  if (static_cast<unsigned char>(block[f.at]) & 0x80) {
    for (size_t i = 0; i < f.bytes; i++) {
      if (out >> 56) return std::nullopt;
      out = out << 8 | (static_cast<unsigned char>(block[f.at + i]) & (i == 0 ? 0x7f : 0xff));
    }
    return out;
  }
  std::string_view digits = field_text(block, f);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  if (digits.empty()) return 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 8);
  if (problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return out;
}

// The sum of the header's bytes, its own field taken as spaces.
bool has_checksum(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; i++)
    sum += i - kChecksum.at < kChecksum.bytes ? ' ' : static_cast<unsigned char>(block[i]);
  return field_number(block, kChecksum) == sum;
}

struct Overrides {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
};

// Records "LENGTH key=value\n" of a pax header. False when they are not.
bool read_pax(std::string_view text, Overrides& out) {
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (problem != std::errc() || length > text.size() || length < digits + 2) return false;
    const std::string_view record = text.substr(digits, length - digits);
    const size_t equals = record.find('=');
    if (record.front() != ' ' || record.back() != '\n' || equals == record.npos) return false;
    const std::string_view key = record.substr(1, equals - 1),
                           value = record.substr(equals + 1, record.size() - equals - 2);
    if (key == "path") out.name = value;
    if (key == "size") {
      uint64_t size = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return false;
      out.size = size;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string header_name(std::string_view block) {
  const std::string name(field_text(block, kName));
  const std::string_view prefix = field_text(block, kPrefix);
  // GNU's own headers have other fields in the place of the prefix; their magic is "ustar ".
  const bool is_ustar = field_text(block, kMagic) == "ustar" && block[kMagic.at + kMagic.bytes] == '\0';
  return is_ustar && !prefix.empty() ? std::string(prefix) + "/" + name : name;
}

}  // namespace

bool is_tar(std::span<const std::byte> file) {
  return file.size() >= kBlock && has_checksum(text_of(file.first(kBlock))) && file[0] != std::byte{0};
}

Result<std::vector<TarEntry>> parse_tar(std::span<const std::byte> file, std::string_view where) {
  std::vector<TarEntry> out;
  Overrides next;
  size_t at = 0;
  const auto error = [&](std::string text) { return ParseError{std::move(text), at, std::string(where)}; };
  for (; file.size() - at >= kBlock;) {
    const std::string_view block = text_of(file.subspan(at, kBlock));
    if (block.find_first_not_of('\0') == block.npos) return out;
    if (!has_checksum(block)) return error("the checksum of a tar header is wrong");
    const auto size = next.size ? next.size : field_number(block, kSize);
    const size_t data_at = at + kBlock;
    if (!size || *size > file.size() - data_at)
      return error(fmt::format("`{}` is longer than the {} bytes that follow",
                               next.name.value_or(header_name(block)), file.size() - data_at));
    const auto bytes = static_cast<size_t>(*size);
    const std::string_view content = text_of(file.subspan(data_at, bytes));
    switch (block[kType]) {
      case 'L': next.name = content.substr(0, content.find('\0')); break;
      case 'x':
        if (!read_pax(content, next)) return error("a pax header is broken");
        break;
      case '0':
      case '7':  // "contiguous", an ordinary file everywhere
      case '\0':
        if (std::string name = next.name.value_or(header_name(block)); !name.ends_with('/'))
          out.push_back({std::move(name), data_at, bytes});
        next = {};
        break;
      case 'S': return error(fmt::format("`{}` is a sparse file", next.name.value_or(header_name(block))));
      case 'K':            // the long target of a link
      case 'g': break;     // for all that follow: nothing that matters here
      default: next = {};  // folders, links and devices
    }
    at = data_at + std::min((bytes + kBlock - 1) / kBlock * kBlock, file.size() - data_at);
  }
  if (at != file.size()) return error("a tar header is cut off");
  return out;
}

}  // namespace lathe
