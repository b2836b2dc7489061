#include "nn/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace lathe::nn {
namespace {

constexpr size_t kChunk = 1 << 18;
constexpr int kGzipOnly = 16 + MAX_WBITS;

struct Inflater {
  z_stream stream = {};
  Inflater() { CHECK(inflateInit2(&stream, kGzipOnly) == Z_OK, "zlib has no memory"); }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::string> gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where) {
  Inflater inflater;
  z_stream& z = inflater.stream;
  std::string out;
  size_t used = 0;
  auto error = [&](std::string text) { return ParseError{std::move(text), used, std::string(where)}; };
  if (!is_gzip(bytes)) return error("not a gzip file");
  for (;;) {
    const size_t before = out.size();
    out.resize(before + kChunk);
    // zlib counts in 32 bits.
    const size_t piece = std::min<size_t>(bytes.size() - used, std::numeric_limits<int>::max());
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + used));
    z.avail_in = static_cast<uInt>(piece);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    z.avail_out = static_cast<uInt>(kChunk);
    const int code = inflate(&z, Z_NO_FLUSH);
    used += piece - z.avail_in;
    out.resize(before + kChunk - z.avail_out);
    if (out.size() > max_bytes) return error(fmt::format("more than {} bytes of content", max_bytes));
    if (code == Z_STREAM_END) {
      if (!is_gzip(bytes.subspan(used))) return out;  // what follows the last member is padding
      inflateReset(&z);
    } else if (code != Z_OK && !(code == Z_BUF_ERROR && used < bytes.size())) {
      return error(code == Z_BUF_ERROR
                       ? "the gzip data is cut off"
                       : fmt::format("broken gzip data: {}", z.msg != nullptr ? z.msg : "no reason given"));
    }
  }
}

}  // namespace lathe::nn
