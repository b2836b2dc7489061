#include "base/error.h"
#include "base/knobs.h"
#include "base/mmap.h"
#include "runtime/cpu/compilers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

extern char** environ;

namespace lathe {
namespace {

constexpr size_t kMaxReport = 16 << 10;  // bytes of compiler output kept in an error

// No frame information, no stack guard: nothing unwinds through a kernel and the loader resolves few symbols.
constexpr const char* kFlags =
    "-O2 -march=native -fPIC -ffp-contract=fast -fno-math-errno -fno-stack-protector "
    "-fno-asynchronous-unwind-tables -fno-ident -w -c";

// The command up to the names of files.
std::vector<std::string> compiler_words() {
  std::istringstream given(knob_str(Knob::CC)), flags(kFlags);
  std::vector<std::string> words{std::istream_iterator<std::string>(given), {}};
  if (words.empty()) words.emplace_back("cc");
  words.insert(words.end(), std::istream_iterator<std::string>(flags), {});
  return words;
}

// A new empty file that goes with the object. Compilers write through a path and remove it when they fail.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view suffix) {
    const char* folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/lathe-XXXXXX{}", folder && *folder ? folder : "/tmp", suffix);
    int fd = mkostemps(path_.data(), static_cast<int>(suffix.size()), O_CLOEXEC);
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

// Runs the command with both outputs in a file; the exit status as of waitpid.
int run_command(std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
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
  const TemporaryFile text(".c"), report(".txt"), object(".o");
  if (!(std::ofstream(text.path()) << source).flush())
    device_error("cannot hand the source to the C compiler: {}", std::strerror(errno));
  std::vector<std::string> words = compiler_words();
  words.insert(words.end(), {text.path(), "-o", object.path()});
  const int status = run_command(words, report.path());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                          : fmt::format("exit status {}", WEXITSTATUS(status));
    device_error("the C compiler failed with {}\n  command: {}\n{}", how, join_words(words),
                 read_file(report.path()).substr(0, kMaxReport));
  }
  std::string bytes = read_file(object.path());
  if (bytes.empty()) device_error("the C compiler `{}` wrote no object", join_words(words));
  return bytes;
}

std::string c_compiler_id() {
  const std::vector<std::string> words = compiler_words();
  const std::string file = find_program(words[0]);
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0) return fmt::format("cc {} missing", join_words(words));
  return fmt::format("cc {} {} {} {}.{}", join_words(words), file, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace lathe
