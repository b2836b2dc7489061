// The lathe command as its users meet it: answers on stdout, the rest on stderr, exit codes 0, 1 and 2.
#include "base/knobs.h"
#include "base/mmap.h"
#include "formats/safetensors.h"

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cstdlib>

#include "support/test.h"

using namespace lathe;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::string& arguments) {
  test::TempDir dir;
  const std::string command = fmt::format("'{}' {} >'{}' 2>'{}' </dev/null", LATHE_COMMAND, arguments,
                                          dir.file("out"), dir.file("err"));
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read_file(dir.file("out")), read_file(dir.file("err"))};
}

}  // namespace

TEST_CASE("help has examples") {
  for (const char* arguments : {"--help", "demo --help", "devices --help", "knobs --help"}) {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments);
    CHECK(outcome.code == 0);
    CHECK(test::contains(outcome.out, "Examples:\n  lathe"));
    CHECK(outcome.err.empty());
  }
  CHECK(run("--version").out.starts_with("lathe 0."));
}

TEST_CASE("wrong usage is 2 and says what is wrong") {
  for (auto [arguments, text] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", "Examples:"},
                                                                  {"nonsense", "nonsense"},
                                                                  {"demo --epochs many", "--epochs"},
                                                                  {"demo --epochs -1", "--epochs"},
                                                                  {"demo --nonsense", "--nonsense"}}) {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments);
    CHECK(outcome.code == 2);
    CHECK(test::contains(outcome.err, text));
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("work that fails is 1 and says why") {
  const Outcome outcome = run("demo --epochs 0 --save /no/such/folder/file");
  CHECK(outcome.code == 1);
  CHECK(test::contains(outcome.err, "lathe: cannot "));
  CHECK(test::contains(outcome.err, "/no/such/folder/file"));
}

TEST_CASE("devices") {
  const Outcome outcome = run("devices --json");
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  int defaults = 0;
  bool has_interp = false;
  for (const auto& device : json.at("devices")) {
    defaults += device.at("default").get<bool>();
    has_interp |= device.at("name") == "INTERP" && device.at("available").get<bool>();
  }
  CHECK(defaults == 1);
  CHECK(has_interp);
  CHECK(test::contains(run("devices").out, "* CPU"));
}

TEST_CASE("knobs") { CHECK(run("knobs").out == knobs_help()); }

TEST_CASE("the demo in one epoch") {
  test::TempDir dir;
  const std::string file = dir.file("digits.safetensors");
  const Outcome outcome = run("demo --epochs 1 --json --save '" + file + "'");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());  // the bar is for terminals
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json.at("test_digits") == 360);
  CHECK(json.at("test_accuracy").get<double>() > 0.5);
  CHECK(safe_load(file).size() == 6);
}
