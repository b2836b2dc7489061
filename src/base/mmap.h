#pragma once

#include "base/function_ref.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// All of these throw a UserError of kind Runtime that names the path and the system's reason.

// A file's bytes, mapped until the object dies: ReadOnly; CopyOnWrite for memory that may be written while
// the file stays as it is; or Shared: what is written is in the file, which is made and grown to hold
// `at_least` bytes. The mapping survives a rename or removal of the file; a file that someone truncates
// meanwhile faults on access, as with any mapping.
class MappedFile {
 public:
  enum class Mode : std::uint8_t { ReadOnly, CopyOnWrite, Shared };
  MappedFile() = default;
  explicit MappedFile(const std::string& path, Mode mode = Mode::ReadOnly, std::size_t at_least = 0);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  std::size_t size() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

 private:
  void unmap() noexcept;
  std::string path_;
  std::span<const std::byte> bytes_;
};

// Appends to the file being written.
class FileWriter {
 public:
  FileWriter(int descriptor, const std::string& path);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  std::uint64_t offset() const { return offset_; }
  void flush();

 private:
  void write_through(std::span<const std::byte> bytes);
  int descriptor_;
  const std::string& path_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

// A file that is written under a temporary name in the same folder, `path`.PID.NUMBER.tmp. Until `commit`,
// readers of `path` see the old file; a process that dies leaves the temporary one with what was flushed.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // removes the temporary file unless it was committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  FileWriter& out() { return out_; }
  void commit();  // syncs it and renames it to `path`

 private:
  std::string path_, temporary_;
  int descriptor_;
  FileWriter out_;
};

// Writes an AtomicFile. When the writer throws, the old file stays and the error passes on.
void write_file_atomically(const std::string& path, FunctionRef<void(FileWriter&)> writer);
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

std::string read_file(const std::string& path);

}  // namespace lathe
