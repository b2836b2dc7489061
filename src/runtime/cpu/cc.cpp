#include "runtime/cpu/cc.h"

#include "base/error.h"
#include "base/knobs.h"
#include "base/mmap.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

extern char** environ;

namespace lathe {
namespace {

constexpr size_t kMaxReport = 16 << 10;  // bytes of compiler output kept in an error

// No frame information, no stack guard: nothing unwinds through a kernel and the loader resolves few symbols.
constexpr const char* kFlags[] = {"-O2",
                                  "-march=native",
                                  "-fPIC",
                                  "-ffp-contract=fast",
                                  "-fno-math-errno",
                                  "-fno-stack-protector",
                                  "-fno-asynchronous-unwind-tables",
                                  "-fno-ident",
                                  "-w",
                                  "-x",
                                  "c",
                                  "-c"};

std::vector<std::string> compiler_words() {
  const std::string& given = knob_str(Knob::CC);
  std::vector<std::string> words;
  size_t at = 0;
  while ((at = given.find_first_not_of(" \t", at)) != std::string::npos) {
    size_t end = std::min(given.find_first_of(" \t", at), given.size());
    words.push_back(given.substr(at, end - at));
    at = end;
  }
  if (words.empty()) words.emplace_back("cc");
  return words;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A file without a name.
int anonymous_file(const char* label) {
  int fd = memfd_create(label, MFD_CLOEXEC);
  if (fd < 0) device_error("cannot make a temporary file for the C compiler: {}", std::strerror(errno));
  return fd;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) device_error("cannot hand the source to the C compiler: {}", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string read_back(int fd, size_t limit) {
  std::string text(limit, '\0');
  size_t size = 0;
  while (size < limit) {
    ssize_t n = pread(fd, text.data() + size, limit - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

// A new empty file that goes with the object. Compilers write through a path and remove it when they fail.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/lathe-XXXXXX.o";
    int fd = mkstemps(path_.data(), 2);
    if (fd < 0) device_error("cannot make {}: {}", path_, std::strerror(errno));
    close(fd);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Runs the command with the source as standard input and both outputs collected; the exit status as of
// waitpid.
int run_command(std::vector<std::string>& words, int input, int output) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    device_error("cannot start the C compiler `{}`: {} (CC names it)", words[0], std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno == ECHILD) return 0;  // the host program ignores SIGCHLD; the object file then tells
    if (errno != EINTR) device_error("cannot wait for the C compiler: {}", std::strerror(errno));
  }
  return status;
}

// Where a word is found along PATH, as execvp would; the word itself when nowhere.
std::string find_program(const std::string& word) {
  if (word.find('/') != std::string::npos) return word;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/bin:/bin";
  while (true) {
    size_t end = rest.find(':');
    std::string candidate(rest.substr(0, end));
    candidate += (candidate.empty() ? "./" : "/") + word;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (end == std::string_view::npos) return word;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

std::string compile_c(std::string_view source) {
  Descriptor input(anonymous_file("lathe-source"));
  Descriptor output(anonymous_file("lathe-compiler-output"));
  TemporaryFile object;
  write_all(input.get(), source);
  lseek(input.get(), 0, SEEK_SET);

  std::vector<std::string> words = compiler_words();
  for (const char* flag : kFlags) words.emplace_back(flag);
  words.insert(words.end(), {"-", "-o", object.path()});
  const int status = run_command(words, input.get(), output.get());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                          : fmt::format("exit status {}", WEXITSTATUS(status));
    device_error("the C compiler failed with {}\n  command: {}\n{}", how, join_words(words),
                 read_back(output.get(), kMaxReport));
  }
  std::string bytes = read_file(object.path());
  if (bytes.empty()) device_error("the C compiler `{}` wrote no object", join_words(words));
  return bytes;
}

std::string c_compiler_id() {
  std::vector<std::string> words = compiler_words();
  std::string file = find_program(words[0]);
  for (const char* flag : kFlags) words.emplace_back(flag);
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0) return fmt::format("cc {} missing", join_words(words));
  return fmt::format("cc {} {} {} {}.{}", join_words(words), file, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace lathe
