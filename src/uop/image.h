// Images: memory of pixels that is reached by row and column, and gated reads of it.
//
// An image is a Global Param of shape (height, width, 4). Its values are float32; the payload's dtype, half
// or float32, is that of the memory. `Index(image, y, x)` is the address of one pixel, four values. A Load
// outside of the image gives zeros, a Store outside of it is an error.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {

bool is_image(const UOp& u);

struct ImageSize {
  int64_t height, width;  // in pixels of 4 elements
  bool operator==(const ImageSize&) const = default;
};
constexpr int64_t kMaxImageWidth = 16384;

// Pixels that the length of a row is a multiple of, as an architecture string says it:
// "a630,IMAGE_PITCH_ALIGNMENT=64". 0 where it does not: no images.
int64_t image_pitch_alignment(std::string_view arch);

// An image argument in place of the flat half or float argument `flat`.
UOp image_param(const UOp& flat, const ImageSize& size);

// Sizes that flat memory of so many elements may have as an image. `alignment`: pixels that the length of a
// row is a multiple of, 0 where the target has no images. A single row need not be such a multiple, but its
// bytes must.
std::vector<ImageSize> image_sizes(int64_t elements, DType d, int64_t alignment);

// A read of the pixel (y, x) where the gate holds, and zeros elsewhere. Coordinates and gate are simplified,
// and clauses go whose failure puts a coordinate outside of the image.
struct ImageRead {
  UOp gate, y, x;
};
ImageRead simplify_image_read(const ImageSize& size, const ImageRead& read);
// The same read without a gate, where the row is a constant and the gate bounds integers: where a bound does
// not hold, the row is one outside. One Max costs less than a choice between four values.
ImageRead gate_by_row(const ImageSize& size, const ImageRead& read);

// A read of a pixel of flat memory.
struct PixelRead {
  UOp gate;   // null for none
  UOp pixel;  // the element index / 4
};
// The size for these reads: where most clauses go, then that with the smallest row expressions, then the
// first. Nothing where there is no size.
std::optional<ImageSize> choose_image_size(std::span<const ImageSize> sizes,
                                           std::span<const PixelRead> reads);
ImageRead image_read(const ImageSize& size, const PixelRead& read);

}  // namespace lathe
