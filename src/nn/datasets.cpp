#include "nn/datasets.h"

#include "archive/deflate.h"
#include "base/mmap.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace lathe::nn {

// data/digits/digits.csv, put there by the build.
extern const std::string_view kDigitsCsv;

namespace {

constexpr uint32_t kIdxImages = 0x00000803, kIdxLabels = 0x00000801;
// A file of the usual kind has 47 MB.
constexpr size_t kMaxIdxBytes = size_t{1} << 30;
constexpr int64_t kMaxImageSide = 1 << 15;

// Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014.
struct SplitMix64 {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); the bias of the remainder is below n / 2^64.
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
};

uint32_t big_endian(std::span<const std::byte> bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; i++) out = out << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return out;
}

const uint8_t* as_numbers(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// Header of `words` 32-bit numbers, the first of them the magic; then the product of the others in bytes.
Result<std::vector<int64_t>> parse_idx_header(std::span<const std::byte> bytes, size_t words, uint32_t magic,
                                              std::string_view where) {
  auto error = [&](size_t offset, std::string text) {
    return ParseError{std::move(text), offset, std::string(where)};
  };
  if (bytes.size() < 4 * words)
    return error(bytes.size(), fmt::format("an IDX header has {} bytes", 4 * words));
  if (big_endian(bytes, 0) != magic)
    return error(0, fmt::format("the IDX magic is {:#010x}, wanted {:#010x}", big_endian(bytes, 0), magic));
  std::vector<int64_t> sizes;
  uint64_t total = 1;
  for (size_t i = 1; i < words; i++) {
    sizes.push_back(big_endian(bytes, 4 * i));
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(sizes.back()), &total))
      return error(4 * i, "the sizes of the IDX header overflow");
  }
  if (total != bytes.size() - 4 * words)
    return error(4, fmt::format("the IDX header promises {} bytes of data, the file has {}", total,
                                bytes.size() - 4 * words));
  return sizes;
}

// The file's bytes, unpacked where need be.
std::string read_idx_file(const std::filesystem::path& path) {
  const MappedFile file(path.string());
  if (!is_gzip(file.bytes())) return std::string(file.text());
  return gunzip(file.bytes(), kMaxIdxBytes, path.string()).or_throw();
}

ImageSet load_idx_pair(const std::filesystem::path& folder, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) {
    for (std::string_view suffix : {"", ".gz"}) {
      const auto images = folder / fmt::format("{}-images-idx3-ubyte{}", part, suffix);
      const auto labels = folder / fmt::format("{}-labels-idx1-ubyte{}", part, suffix);
      if (!std::filesystem::exists(images)) continue;
      const std::string image_bytes = read_idx_file(images), label_bytes = read_idx_file(labels);
      ImageSet out = parse_idx_images(std::as_bytes(std::span(image_bytes)), images.string()).or_throw();
      out.labels = parse_idx_labels(std::as_bytes(std::span(label_bytes)), labels.string()).or_throw();
      const auto count = out.pixels.size() / static_cast<size_t>(out.rows * out.columns);
      if (count != out.labels.size())
        value_error("{} has {} images, {} has {} labels", images.string(), count, labels.string(),
                    out.labels.size());
      return out;
    }
  }
  user_runtime_error("no {}-images-idx3-ubyte[.gz] in {}", *parts.begin(), folder.string());
}

}  // namespace

ImageSet ImageSet::subset(std::span<const int64_t> which) const {
  ImageSet out{.rows = rows, .columns = columns, .max_pixel = max_pixel, .pixels = {}, .labels = {}};
  out.pixels.reserve(which.size() * static_cast<size_t>(rows * columns));
  for (int64_t i : which) {
    CHECK(i >= 0 && i < size(), "image {} of {}", i, size());
    const auto pixels_of = image(i);
    out.pixels.insert(out.pixels.end(), pixels_of.begin(), pixels_of.end());
    out.labels.push_back(labels[static_cast<size_t>(i)]);
  }
  return out;
}

Tensor ImageSet::image_tensor(std::span<const int64_t> which) const {
  const ImageSet chosen = subset(which);
  std::vector<float> values(chosen.pixels.size());
  const float scale = 1.0f / static_cast<float>(max_pixel);
  std::transform(chosen.pixels.begin(), chosen.pixels.end(), values.begin(),
                 [&](uint8_t p) { return static_cast<float>(p) * scale; });
  return Tensor::from(values, {chosen.size(), 1, rows, columns});
}

Tensor ImageSet::label_tensor(std::span<const int64_t> which) const {
  std::vector<int32_t> values;
  for (int64_t i : which) values.push_back(labels.at(static_cast<size_t>(i)));
  return Tensor::from(values);
}

std::vector<int64_t> permutation(int64_t n, uint64_t seed) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<int64_t>(i);
  SplitMix64 random{seed};
  for (int64_t i = n; i > 1; i--)
    std::swap(out[static_cast<size_t>(i - 1)], out[static_cast<size_t>(random.below(i))]);
  return out;
}

std::pair<ImageSet, ImageSet> split(const ImageSet& all, double fraction, uint64_t seed) {
  const std::vector<int64_t> order = permutation(all.size(), seed);
  const auto first = static_cast<size_t>(fraction * static_cast<double>(all.size()));
  return {all.subset(std::span(order).first(first)), all.subset(std::span(order).subspan(first))};
}

ImageSet jittered(const ImageSet& images, double probability, uint64_t seed) {
  constexpr int64_t kScale = int64_t{1} << 32;
  ImageSet out = images;
  SplitMix64 random{seed};
  for (int64_t i = 0; i < images.size(); i++) {
    if (static_cast<double>(random.below(kScale)) >= probability * kScale) continue;
    const int64_t down = random.below(3) - 1, right = random.below(3) - 1;
    const auto from = images.image(i);
    uint8_t* to = out.pixels.data() + i * images.rows * images.columns;
    for (int64_t y = 0; y < images.rows; y++) {
      for (int64_t x = 0; x < images.columns; x++) {
        const int64_t from_y = y - down, from_x = x - right;
        const bool inside = from_y >= 0 && from_y < images.rows && from_x >= 0 && from_x < images.columns;
        *to++ = inside ? from[static_cast<size_t>(from_y * images.columns + from_x)] : uint8_t{0};
      }
    }
  }
  return out;
}

Result<ImageSet> parse_digits_csv(std::string_view text, std::string_view where, int64_t rows,
                                  int64_t columns, int max_pixel, int classes) {
  ImageSet out{.rows = rows, .columns = columns, .max_pixel = max_pixel, .pixels = {}, .labels = {}};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  auto error = [&](std::string what) {
    what = fmt::format("line {}: {}", out.labels.size() + 1, what);
    return ParseError{std::move(what), static_cast<size_t>(at - text.data()), std::string(where)};
  };
  while (at < end) {
    for (int64_t field = 0; field <= rows * columns; field++) {
      const bool is_label = field == rows * columns;
      const int limit = is_label ? classes - 1 : max_pixel;
      int value = 0;
      auto [next, code] = std::from_chars(at, end, value);
      if (code != std::errc() || value < 0 || value > limit)
        return error(fmt::format("field {} is not a number from 0 to {}", field + 1, limit));
      at = next;
      const char separator = is_label ? '\n' : ',';
      if (is_label && at < end && *at == '\r') at++;
      if (at == end ? !is_label : *at != separator)
        return error(
            fmt::format("field {} does not end in {}", field + 1, is_label ? "a line break" : "a comma"));
      if (at < end) at++;
      (is_label ? out.labels : out.pixels).push_back(static_cast<uint8_t>(value));
    }
  }
  return out;
}

ImageSet digits() { return parse_digits_csv(kDigitsCsv, "digits.csv").or_throw(); }

Result<ImageSet> parse_idx_images(std::span<const std::byte> bytes, std::string_view where) {
  LATHE_TRY(sizes, parse_idx_header(bytes, 4, kIdxImages, where));
  ImageSet out{.rows = sizes[1], .columns = sizes[2], .max_pixel = 255, .pixels = {}, .labels = {}};
  if (std::min(out.rows, out.columns) < 1 || std::max(out.rows, out.columns) > kMaxImageSide)
    return ParseError{fmt::format("images of {}x{} pixels", out.rows, out.columns), 8, std::string(where)};
  out.pixels.assign(as_numbers(bytes) + 16, as_numbers(bytes) + bytes.size());
  return out;
}

Result<std::vector<uint8_t>> parse_idx_labels(std::span<const std::byte> bytes, std::string_view where) {
  LATHE_TRY_DO(parse_idx_header(bytes, 2, kIdxLabels, where));
  return std::vector<uint8_t>(as_numbers(bytes) + 8, as_numbers(bytes) + bytes.size());
}

Mnist load_mnist(const std::string& folder) {
  Mnist out{.train = load_idx_pair(folder, {"train"}), .test = load_idx_pair(folder, {"test", "t10k"})};
  for (const ImageSet* set : {&out.train, &out.test})
    for (uint8_t label : set->labels)
      if (label > 9) value_error("{}: a label is {}, wanted 0 to 9", folder, label);
  return out;
}

}  // namespace lathe::nn
