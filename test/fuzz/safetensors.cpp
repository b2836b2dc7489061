// Whatever the bytes: an error or a header whose tensors lie inside the file.
#include "formats/safetensors.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = lathe::parse_safetensors_header(bytes, "fuzz");
  if (!header.ok()) {
    if (header.error().offset > size || header.error().text.empty()) std::abort();
    return 0;
  }
  uint64_t covered = 0;
  for (const lathe::SafetensorsEntry& e : header.value().tensors) {
    if (e.begin > e.end || e.end > size) std::abort();
    covered += e.end - e.begin;
  }
  if (covered > size) std::abort();
  return 0;
}
