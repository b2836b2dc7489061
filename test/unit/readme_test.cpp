// README.md says what the program says.
#include "base/knobs.h"
#include "base/mmap.h"

#include <sstream>
#include <string>

#include "support/test.h"

using namespace lathe;

namespace {

std::string source(const std::string& name) { return read_file(LATHE_SOURCE_DIR "/" + name); }

// `text` without the lines that `drop` wants gone.
std::string filtered(const std::string& text, auto&& drop) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (!drop(line)) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("the program in README.md is examples/quickstart.cpp") {
  const std::string program = filtered(source("examples/quickstart.cpp"), [](const std::string& line) {
    return line.starts_with("// ctest:") || line.starts_with("// prints:");
  });
  CHECK(test::contains(source("README.md"), "```cpp\n" + program + "```\n"));
}

TEST_CASE("README.md states what examples/quickstart.cpp prints") {
  const std::string text = source("examples/quickstart.cpp");
  const size_t at = text.find("// prints: ") + 11;
  CHECK(
      test::contains(source("README.md"), "It prints `" + text.substr(at, text.find('\n', at) - at) + "`."));
}

TEST_CASE("the captured step in README.md is that of examples/mnist.cpp") {
  const std::string readme = source("README.md");
  const size_t begin = readme.find("auto step = "), end = readme.find("```", begin);
  REQUIRE(begin < end);
  std::istringstream in(readme.substr(begin, end - begin));
  std::string inside;
  for (std::string line; std::getline(in, line);) inside += "  " + line + "\n";
  CHECK(test::contains(source("examples/mnist.cpp"), inside));
}

TEST_CASE("the knobs in README.md are those of the program") {
  std::istringstream in(knobs_help());
  std::string table;
  // The present value stands behind the text where it differs from the default.
  for (std::string line; std::getline(in, line);) table += line.substr(0, line.find(" [now ")) + "\n";
  const std::string readme = source("README.md");
  CHECK_MESSAGE(test::contains(readme, "```text\n" + table + "```\n"),
                "replace the block in README.md with what `env -i lathe knobs` prints");
}
