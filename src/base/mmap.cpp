#include "base/mmap.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lathe {
namespace {

constexpr std::size_t kWriteBuffer = 1 << 16;

[[noreturn]] void file_error(std::string_view action, const std::string& path, int code) {
  user_runtime_error("cannot {} {}: {}", action, path, std::generic_category().message(code));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

int open_existing(const std::string& path, struct stat& info, int flags = O_RDONLY) {
  int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) file_error("open", path, errno);
  if (::fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode)) {
    int code = S_ISDIR(info.st_mode) ? EISDIR : errno;
    ::close(descriptor);
    file_error("open", path, code);
  }
  return descriptor;
}

}  // namespace

MappedFile::MappedFile(const std::string& path, Mode mode, std::size_t at_least) : path_(path) {
  struct stat info = {};
  const bool is_shared = mode == Mode::Shared;
  Descriptor file(open_existing(path, info, is_shared ? O_RDWR | (at_least ? O_CREAT : 0) : O_RDONLY));
  // Zero bytes cannot be mapped, and pipes and devices have no size.
  if (!S_ISREG(info.st_mode)) file_error("map", path, ENODEV);
  auto size = static_cast<std::size_t>(info.st_size);
  if (size < at_least && ::ftruncate(file.number(), static_cast<off_t>(at_least)) != 0)
    file_error("grow", path, errno);
  size = std::max(size, at_least);
  if (size == 0) return;
  // Without a reserve, a file larger than memory can be mapped for writing, too.
  const int access = mode == Mode::ReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  const int kind = mode == Mode::CopyOnWrite ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* start = ::mmap(nullptr, size, access, kind, file.number(), 0);
  if (start == MAP_FAILED) file_error("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() { unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  path_ = std::move(other.path_);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

void MappedFile::unmap() noexcept {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileWriter::FileWriter(int descriptor, const std::string& path) : descriptor_(descriptor), path_(path) {
  buffer_.reserve(kWriteBuffer);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
  if (bytes.size() > kWriteBuffer) return write_through(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void FileWriter::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileWriter::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) file_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

namespace {

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter.fetch_add(1));
}

int create_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) file_error("create", path, errno);
  return descriptor;
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)),
      temporary_(temporary_name(path_)),
      descriptor_(create_file(temporary_)),
      out_(descriptor_, path_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  out_.flush();
  if (::fsync(descriptor_) != 0) file_error("sync", path_, errno);
  // Close errors count: a network file system may report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) file_error("write", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) file_error("replace", path_, errno);
  temporary_.clear();
}

void write_file_atomically(const std::string& path, FunctionRef<void(FileWriter&)> writer) {
  AtomicFile file(path);
  writer(file.out());
  file.commit();
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, [&](FileWriter& out) { out.write(bytes); });
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

std::string read_file(const std::string& path) {
  struct stat info = {};
  Descriptor file(open_existing(path, info));
  std::string text;
  // The size is a hint: files under /proc report none, and a file may grow while it is read.
  std::size_t used = 0;
  text.resize(static_cast<std::size_t>(info.st_size) + 1);
  while (true) {
    ssize_t got = ::read(file.number(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) file_error("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used == text.size()) text.resize(2 * used + 4096);
  }
  text.resize(used);
  return text;
}

}  // namespace lathe
