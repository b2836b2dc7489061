// Whatever the bytes: an error that lies inside them, or a header that leaves the data it promises.
#include "formats/npy.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = lathe::parse_npy_header(std::as_bytes(std::span(data, size)), "fuzz");
  if (!header.ok()) {
    if (header.error().offset > size || header.error().text.empty()) std::abort();
    return 0;
  }
  uint64_t bytes = static_cast<uint64_t>(lathe::item_size(header.value().dtype));
  bool is_empty = false;
  for (int64_t d : header.value().shape) is_empty = is_empty || d == 0;
  for (int64_t d : header.value().shape) bytes *= is_empty ? 0 : static_cast<uint64_t>(d);
  if (header.value().data_at > size || bytes != size - header.value().data_at) std::abort();
  return 0;
}
