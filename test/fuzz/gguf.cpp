// Whatever the bytes: an error, or a header whose tensors lie inside of the file and beside one another.
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = lathe::parse_gguf_header(bytes, "fuzz");
  if (!header.ok()) {
    if (header.error().offset > size || header.error().text.empty()) std::abort();
    return 0;
  }
  uint64_t covered = 0;
  for (const lathe::GgufTensor& t : header.value().tensors) {
    if (t.offset > size || t.bytes > size - t.offset || t.shape.size() > lathe::kMaxGgufAxes) std::abort();
    if (t.bytes && t.offset % header.value().alignment != 0) std::abort();
    covered += t.bytes;
  }
  if (covered > size) std::abort();
  for (const auto& [key, value] : header.value().metadata.entries())
    if (value.to_text().size() > 16 * size + 64) std::abort();
  return 0;
}
