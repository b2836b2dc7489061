#include "nn/datasets.h"

#include "archive/deflate.h"
#include "base/mmap.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;
using lathe::nn::ImageSet;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string out;
  for (uint32_t word : words)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
  return out;
}

std::string gzip(std::string_view text) {
  z_stream z = {};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

}  // namespace

TEST_CASE("the digits that come with the library") {
  const ImageSet digits = nn::digits();
  CHECK(digits.size() == 1797);
  CHECK(digits.pixels.size() == 1797 * 64);
  CHECK(*std::max_element(digits.pixels.begin(), digits.pixels.end()) == 16);
  std::vector<int> per_class(10);
  for (uint8_t label : digits.labels) per_class[label]++;
  CHECK(per_class == std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  CHECK(std::vector<int>(digits.labels.begin(), digits.labels.begin() + 10) ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  // The first row of the first image, and the last row of the last.
  CHECK(std::vector<int>(digits.image(0).begin(), digits.image(0).begin() + 8) ==
        std::vector<int>{0, 0, 5, 13, 9, 1, 0, 0});
  CHECK(std::vector<int>(digits.image(1796).end() - 8, digits.image(1796).end()) ==
        std::vector<int>{0, 1, 8, 12, 14, 12, 1, 0});
}

TEST_CASE("a split is a shuffle by seed without loss") {
  const ImageSet digits = nn::digits();
  const auto [train, test] = nn::split(digits, 0.8, 7);
  CHECK(train.size() == 1437);
  CHECK(test.size() == 360);
  std::vector<std::vector<uint8_t>> before, after;
  for (int64_t i = 0; i < digits.size(); i++)
    before.emplace_back(digits.image(i).begin(), digits.image(i).end());
  for (const ImageSet* part : {&train, &test})
    for (int64_t i = 0; i < part->size(); i++)
      after.emplace_back(part->image(i).begin(), part->image(i).end());
  CHECK(before != after);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  CHECK(before == after);
  CHECK(nn::split(digits, 0.8, 7).second.labels == test.labels);
  CHECK(nn::split(digits, 0.8, 8).second.labels != test.labels);
}

TEST_CASE("a permutation is the same everywhere") {
  CHECK(nn::permutation(8, 1) == nn::permutation(8, 1));
  CHECK(nn::permutation(0, 1).empty());
  std::vector<int64_t> sorted = nn::permutation(1000, 3);
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(sorted == all);
}

TEST_CASE("jittered images move by a pixel at most") {
  // One dot in the middle of each image, so that it tells where it went.
  nn::ImageSet dots{
      .rows = 3, .columns = 3, .max_pixel = 9, .pixels = {}, .labels = std::vector<uint8_t>(900, 1)};
  for (int i = 0; i < 900; i++) dots.pixels.insert(dots.pixels.end(), {0, 0, 0, 0, 9, 0, 0, 0, 0});
  const nn::ImageSet moved = nn::jittered(dots, 1, 4);
  std::vector<int> at(9);
  for (int64_t i = 0; i < 900; i++) {
    const auto image = moved.image(i);
    CHECK(std::count(image.begin(), image.end(), 9) == 1);
    at[static_cast<size_t>(std::find(image.begin(), image.end(), 9) - image.begin())]++;
  }
  for (int count : at) CHECK(std::abs(count - 100) < 40);
  CHECK(nn::jittered(dots, 1, 4).pixels == moved.pixels);
  CHECK(nn::jittered(dots, 0, 4).pixels == dots.pixels);
  int still = 0;
  const nn::ImageSet some = nn::jittered(dots, 0.5, 4);
  for (int64_t i = 0; i < 900; i++) still += some.image(i)[4] == 9;
  CHECK(std::abs(still - 500) < 60);  // the half left alone and a ninth of the others

  // What leaves the image is gone, and paper comes in.
  nn::ImageSet full{.rows = 2, .columns = 2, .max_pixel = 9, .pixels = {1, 2, 3, 4}, .labels = {0}};
  std::vector<std::vector<uint8_t>> seen;
  for (uint64_t seed = 0; seed < 200; seed++) seen.push_back(nn::jittered(full, 1, seed).pixels);
  for (const std::vector<uint8_t>& expected : std::vector<std::vector<uint8_t>>{
           {1, 2, 3, 4}, {0, 0, 1, 2}, {3, 4, 0, 0}, {0, 1, 0, 3}, {4, 0, 0, 0}})
    CHECK(std::count(seen.begin(), seen.end(), expected) > 0);
}

TEST_CASE("digits text that is not what it should be") {
  auto problem = [](std::string_view text) {
    return nn::parse_digits_csv(text, "d.csv", 1, 2).error().message();
  };
  CHECK(nn::parse_digits_csv("1,2,3\n16,0,9", "d.csv", 1, 2).value().size() == 2);
  CHECK(nn::parse_digits_csv("1,2,3\r\n", "d.csv", 1, 2).value().labels.at(0) == 3);
  CHECK(nn::parse_digits_csv("", "d.csv").value().size() == 0);
  CHECK(problem("1,2,3\n1,17,3\n") == "d.csv: offset 8: line 2: field 2 is not a number from 0 to 16");
  CHECK(problem("1,2,10\n") == "d.csv: offset 4: line 1: field 3 is not a number from 0 to 9");
  CHECK(problem("1,-2,3\n") == "d.csv: offset 2: line 1: field 2 is not a number from 0 to 16");
  CHECK(problem("1,2\n") == "d.csv: offset 3: line 1: field 2 does not end in a comma");
  CHECK(problem("1,2,3,4\n") == "d.csv: offset 5: line 1: field 3 does not end in a line break");
  CHECK(problem("1,2") == "d.csv: offset 3: line 1: field 2 does not end in a comma");
  CHECK(problem("1,") == "d.csv: offset 2: line 1: field 2 is not a number from 0 to 16");
}

TEST_CASE("IDX files") {
  const std::string images = big_endian({0x803, 2, 1, 3}) + std::string("\0\1\2\3\4\5", 6);
  const ImageSet set = nn::parse_idx_images(bytes_of(images), "i").value();
  CHECK(set.rows == 1);
  CHECK(set.columns == 3);
  CHECK(set.pixels == std::vector<uint8_t>{0, 1, 2, 3, 4, 5});
  const std::string labels = big_endian({0x801, 2}) + "\7\1";
  CHECK(nn::parse_idx_labels(bytes_of(labels), "l").value() == std::vector<uint8_t>{7, 1});

  auto problem = [](const std::string& text) {
    return nn::parse_idx_images(bytes_of(text), "i").error().message();
  };
  CHECK(problem("abc") == "i: offset 3: an IDX header has 16 bytes");
  CHECK(problem(labels + std::string(8, ' ')) ==
        "i: offset 0: the IDX magic is 0x00000801, wanted 0x00000803");
  CHECK(problem(images + "x") == "i: offset 4: the IDX header promises 6 bytes of data, the file has 7");
  CHECK(problem(big_endian({0x803, 0, 0xffffffff, 0xffffffff})) ==
        "i: offset 8: images of 4294967295x4294967295 pixels");
  CHECK(problem(big_endian({0x803, 0xffffffff, 0xffffffff, 0xffffffff})) ==
        "i: offset 12: the sizes of the IDX header overflow");
}

TEST_CASE("gzip") {
  const std::string text(700'000, 'x');
  const std::string packed = gzip(text);
  CHECK(gunzip(bytes_of(packed), 1 << 20, "g").value() == text);
  CHECK(gunzip(bytes_of(packed + gzip("end")), 1 << 20, "g").value() == text + "end");
  auto problem = [](const std::string& data, size_t limit) {
    return gunzip(bytes_of(data), limit, "g").error().text;
  };
  CHECK(problem(packed, 1000) == "more than 1000 bytes of content");
  CHECK(problem("plain", 1000) == "not a gzip file");
  CHECK(problem(packed.substr(0, packed.size() - 6), 1 << 20) == "the gzip data is cut off");
  CHECK(problem(packed.substr(0, 20), 1 << 20) == "the gzip data is cut off");
  std::string broken = packed;
  broken[packed.size() - 5] ^= 1;
  CHECK(problem(broken, 1 << 20) == "broken gzip data: incorrect data check");
}

TEST_CASE("an MNIST folder, packed or not") {
  test::TempDir dir;
  const std::string images = big_endian({0x803, 1, 1, 2}) + "ab", labels = big_endian({0x801, 1}) + "\5";
  write_file_atomically(dir.file("train-images-idx3-ubyte"), images);
  write_file_atomically(dir.file("train-labels-idx1-ubyte"), labels);
  auto error = test::user_error([&] { nn::load_mnist(dir.path().string()); });
  CHECK(test::contains(error.what(), "no test-images-idx3-ubyte[.gz] in " + dir.path().string()));
  write_file_atomically(dir.file("t10k-images-idx3-ubyte.gz"), gzip(images));
  write_file_atomically(dir.file("t10k-labels-idx1-ubyte.gz"), gzip(labels));
  const nn::Mnist mnist = nn::load_mnist(dir.path().string());
  CHECK(mnist.train.labels == std::vector<uint8_t>{5});
  CHECK(mnist.test.pixels == std::vector<uint8_t>{'a', 'b'});

  write_file_atomically(dir.file("train-labels-idx1-ubyte"), big_endian({0x801, 2}) + "\5\6");
  error = test::user_error([&] { nn::load_mnist(dir.path().string()); });
  CHECK(test::contains(error.what(), "train-images-idx3-ubyte has 1 images"));
  write_file_atomically(dir.file("train-labels-idx1-ubyte"), big_endian({0x801, 1}) + "\x0b");
  error = test::user_error([&] { nn::load_mnist(dir.path().string()); });
  CHECK(test::contains(error.what(), "a label is 11, wanted 0 to 9"));
}

TEST_CASE("the MNIST files") {
  const auto folder = test::data_folder("mnist");
  if (!folder) return;
  const nn::Mnist mnist = nn::load_mnist(folder->string());
  CHECK(mnist.train.size() == 60000);
  CHECK(mnist.test.size() == 3000);
  CHECK(mnist.train.rows == 28);
  CHECK(mnist.train.columns == 28);
  auto first = [](const ImageSet& set) {
    return std::vector<int>(set.labels.begin(), set.labels.begin() + 10);
  };
  CHECK(first(mnist.train) == std::vector<int>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4});
  CHECK(first(mnist.test) == std::vector<int>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
}

TEST_CASE("images as tensors") {
  const ImageSet digits = nn::digits();
  const std::vector<int64_t> which{5, 0};
  const Tensor images = digits.image_tensor(which), labels = digits.label_tensor(which);
  CHECK(to_string(images.shape()) == "(2, 1, 8, 8)");
  CHECK(images.dtype() == DType::Float32);
  CHECK(labels.to_vector<int32_t>() == std::vector<int32_t>{5, 0});
  const std::vector<float> values = images.to_vector<float>();
  for (size_t i = 0; i < 64; i++) CHECK(values[64 + i] == static_cast<float>(digits.image(0)[i]) / 16);
}
