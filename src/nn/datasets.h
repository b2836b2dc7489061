// The data sets of the examples, in host memory.
#pragma once
#include "base/result.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::nn {

// Grey images of one size with a label each.
struct ImageSet {
  int64_t rows = 0, columns = 0;
  int max_pixel = 255;          // the value of full ink
  std::vector<uint8_t> pixels;  // row-major, image after image
  std::vector<uint8_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  std::span<const uint8_t> image(int64_t i) const {
    return std::span(pixels).subspan(static_cast<size_t>(i * rows * columns),
                                     static_cast<size_t>(rows * columns));
  }
  ImageSet subset(std::span<const int64_t> which) const;
  // Images as float32 (n, 1, rows, columns) in [0, 1], labels as int32 (n).
  Tensor image_tensor(std::span<const int64_t> which) const;
  Tensor label_tensor(std::span<const int64_t> which) const;
};

// 0 … n-1 in an order that depends on the seed only, the same on every machine.
std::vector<int64_t> permutation(int64_t n, uint64_t seed);

// A shuffled part of `fraction` of the images, and the rest.
std::pair<ImageSet, ImageSet> split(const ImageSet& all, double fraction, uint64_t seed);

// The images, each moved by up to a pixel along both axes with the given probability; paper moves in.
ImageSet jittered(const ImageSet& images, double probability, uint64_t seed);

// Lines of rows·columns pixels from 0 to max_pixel and a label from 0 to classes-1, separated by commas.
Result<ImageSet> parse_digits_csv(std::string_view text, std::string_view where, int64_t rows = 8,
                                  int64_t columns = 8, int max_pixel = 16, int classes = 10);
// The 1,797 8×8 digits that come with the library (data/digits).
ImageSet digits();

// IDX: big-endian 0x00000803, count, rows, columns, then bytes; and 0x00000801, count, then a byte a label.
Result<ImageSet> parse_idx_images(std::span<const std::byte> bytes, std::string_view where);
Result<std::vector<uint8_t>> parse_idx_labels(std::span<const std::byte> bytes, std::string_view where);

struct Mnist {
  ImageSet train, test;
};
// From a folder with {train,test}-images-idx3-ubyte and -labels-idx1-ubyte, plain or with .gz; `t10k` may
// stand for `test`. UserErrors name the file.
Mnist load_mnist(const std::string& folder);

}  // namespace lathe::nn
