#pragma once

// The lathe command as its users meet it: answers on stdout, the rest on stderr, exit codes 0, 1 and 2.

#include "base/mmap.h"

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/test.h"

namespace lathe::test {

struct Outcome {
  int code;
  std::string out, err;
};

// `arguments` are those of a shell.
inline Outcome run_command(const std::string& arguments, std::string_view input = "") {
  TempDir dir;
  write_file_atomically(dir.file("in"), input);
  const std::string command = fmt::format("'{}' {} <'{}' >'{}' 2>'{}'", LATHE_COMMAND, arguments,
                                          dir.file("in"), dir.file("out"), dir.file("err"));
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read_file(dir.file("out")), read_file(dir.file("err"))};
}

}  // namespace lathe::test
