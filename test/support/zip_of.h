#pragma once

#include "archive/zip.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/test.h"

namespace lathe::test {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A zip archive of these entries.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries,
                          bool deflated = false, uint64_t zip64_from = 0xffffffff) {
  TempDir dir;
  write_file_atomically(dir.file("z"), [&](FileWriter& out) {
    ZipWriter zip(out, zip64_from);
    for (const auto& [name, content] : entries) zip.add(name, bytes_of(content), deflated);
    zip.finish();
  });
  return read_file(dir.file("z"));
}

}  // namespace lathe::test
