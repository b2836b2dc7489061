// Whatever the bytes: an error that lies inside them, or entries whose data does; what unpacks has the length
// and the CRC that the directory says, and arrays of NumPy in it the data that their headers promise.
#include "archive/zip.h"

#include "formats/npy.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto entries = lathe::parse_zip(file, "fuzz");
  if (!entries.ok()) {
    if (entries.error().offset > size || entries.error().text.empty()) std::abort();
    return 0;
  }
  for (const lathe::ZipEntry& e : entries.value()) {
    if (e.data_at > size || e.data_bytes > size - e.data_at) std::abort();
    const auto content = lathe::unzip(file, e, "fuzz");
    if (!content.ok()) continue;
    if (content.value().size() != e.size) std::abort();
    const auto bytes = std::as_bytes(std::span(content.value()));
    const auto header = lathe::parse_npy_header(bytes, "fuzz");
    if (header.ok() && header.value().data_at > bytes.size()) std::abort();
  }
  return 0;
}
