// Tar archives: ustar, pax and GNU's long names.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct TarEntry {
  std::string name;
  size_t data_at = 0, size = 0;  // the content is file.subspan(data_at, size)
};

bool is_tar(std::span<const std::byte> file);

// The regular files of an archive in order; folders, links and devices are left out, sparse files are errors.
// `where` names the archive.
Result<std::vector<TarEntry>> parse_tar(std::span<const std::byte> file, std::string_view where);

}  // namespace lathe
