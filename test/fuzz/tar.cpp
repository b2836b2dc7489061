// Whatever the bytes: an error that lies inside them, or files whose content does.
#include "archive/tar.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto entries = lathe::parse_tar(file, "fuzz");
  if (!entries.ok()) {
    if (entries.error().offset > size || entries.error().text.empty()) std::abort();
    return 0;
  }
  for (const lathe::TarEntry& e : entries.value())
    if (e.data_at > size || e.size > size - e.data_at) std::abort();
  return 0;
}
