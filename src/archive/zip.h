// Zip archives: PKWARE's APPNOTE 6.3, entries stored or deflated, zip64 included.
#pragma once
#include "base/mmap.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct ZipEntry {
  std::string name;
  bool is_deflated = false;
  uint32_t crc = 0;   // of the content
  uint64_t size = 0;  // of the content
  size_t data_at = 0, data_bytes = 0;
  std::span<const std::byte> data(std::span<const std::byte> file) const {
    return file.subspan(data_at, data_bytes);
  }
};

bool is_zip(std::span<const std::byte> file);

// The files of an archive, folders left out, in the order of its directory: names are unique, and data lies
// inside the file. Encrypted entries, other methods than stored and deflated, and archives of several disks
// are errors. `where` names the archive.
Result<std::vector<ZipEntry>> parse_zip(std::span<const std::byte> file, std::string_view where);

// An error unless `content` is what the entry was made of.
Result<void> check_crc(const ZipEntry& entry, std::span<const std::byte> content, std::string_view where);
// The content of an entry, checked against its length and CRC.
Result<std::string> unzip(std::span<const std::byte> file, const ZipEntry& entry, std::string_view where);

// Writes an archive to a file that is empty so far. Without time stamps: equal content gives equal bytes.
class ZipWriter {
 public:
  // Numbers from `zip64_from` on are written as zip64; the default is what the classic fields cannot hold.
  explicit ZipWriter(FileWriter& out, uint64_t zip64_from = 0xffffffff)
      : out_(out), zip64_from_(zip64_from) {}
  void add(const std::string& name, std::span<const std::byte> content, bool deflated);
  void finish();  // the directory

 private:
  FileWriter& out_;
  uint64_t zip64_from_, count_ = 0;
  std::string directory_;
};

}  // namespace lathe
