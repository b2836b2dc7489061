#include "archive/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace lathe {
namespace {

constexpr size_t kChunk = 1 << 18;
constexpr int kGzipOnly = 16 + MAX_WBITS, kRaw = -MAX_WBITS;

// zlib counts in 32 bits.
size_t zlib_piece(size_t bytes) { return std::min<size_t>(bytes, std::numeric_limits<int>::max()); }

void set_input(z_stream& z, std::span<const std::byte> bytes) {
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  z.avail_in = static_cast<uInt>(zlib_piece(bytes.size()));
}

// Lets `run` write behind `out`, a chunk at most; what it returns.
template <class F>
int append(std::string& out, z_stream& z, F run) {
  const size_t before = out.size();
  out.resize(before + kChunk);
  z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  z.avail_out = static_cast<uInt>(kChunk);
  const int code = run(z);
  out.resize(before + kChunk - z.avail_out);
  return code;
}

class Inflater {
 public:
  Inflater(int window_bits, std::span<const std::byte> bytes, size_t max_bytes, std::string_view where)
      : bytes_(bytes), max_bytes_(max_bytes), where_(where) {
    CHECK(inflateInit2(&stream_, window_bits) == Z_OK, "zlib has no memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::span<const std::byte> rest() const { return bytes_.subspan(used_); }
  std::string& out() { return out_; }
  ParseError error(std::string text) const { return {std::move(text), used_, std::string(where_)}; }

  // Appends the content of one stream of deflate data.
  Result<void> run(std::string_view what) {
    for (;;) {
      set_input(stream_, rest());
      const size_t given = stream_.avail_in;
      const int code = append(out_, stream_, [](z_stream& z) { return inflate(&z, Z_NO_FLUSH); });
      used_ += given - stream_.avail_in;
      if (out_.size() > max_bytes_) return error(fmt::format("more than {} bytes of content", max_bytes_));
      if (code == Z_STREAM_END) {
        inflateReset(&stream_);
        return {};
      }
      if (code == Z_BUF_ERROR && rest().empty()) return error(fmt::format("the {} data is cut off", what));
      if (code != Z_OK && code != Z_BUF_ERROR)
        return error(fmt::format("broken {} data: {}", what,
                                 stream_.msg != nullptr ? stream_.msg : "no reason given"));
    }
  }

 private:
  z_stream stream_ = {};
  std::span<const std::byte> bytes_;
  size_t used_ = 0, max_bytes_;
  std::string_view where_;
  std::string out_;
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::string> gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where) {
  Inflater inflater(kGzipOnly, bytes, max_bytes, where);
  if (!is_gzip(bytes)) return inflater.error("not a gzip file");
  while (is_gzip(inflater.rest())) LATHE_TRY_DO(inflater.run("gzip"));
  return std::move(inflater.out());  // what follows the last member is padding
}

Result<std::string> inflate_raw(std::span<const std::byte> bytes, uint64_t size, std::string_view where) {
  Inflater inflater(kRaw, bytes, static_cast<size_t>(size), where);
  LATHE_TRY_DO(inflater.run("deflate"));
  if (!inflater.rest().empty())
    return inflater.error(fmt::format("{} bytes follow the deflate data", inflater.rest().size()));
  if (inflater.out().size() != size)
    return inflater.error(fmt::format("{} bytes of content, not {}", inflater.out().size(), size));
  return std::move(inflater.out());
}

std::string deflate_raw(std::span<const std::byte> bytes) {
  z_stream z = {};
  constexpr int kMemory = 8;  // zlib's default
  CHECK(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, deflateEnd);
  std::string out;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    set_input(z, bytes);
    const size_t given = z.avail_in;
    code = append(out, z,
                  [&](z_stream& s) { return deflate(&s, given == bytes.size() ? Z_FINISH : Z_NO_FLUSH); });
    bytes = bytes.subspan(given - z.avail_in);
  }
  return out;
}

uint32_t crc32(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace lathe
