// `lathe run` and `lathe bench`.
#include "base/mmap.h"

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cstdlib>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;

namespace {

struct Outcome {
  int status;
  std::string out, err;
};
Outcome lathe_command(const std::string& arguments) {
  test::TempDir dir;
  const int status = std::system(
      fmt::format("'{}' {} >'{}' 2>'{}'", LATHE_COMMAND, arguments, dir.file("out"), dir.file("err"))
          .c_str());
  return {WEXITSTATUS(status), read_file(dir.file("out")), read_file(dir.file("err"))};
}

}  // namespace

TEST_CASE("run continues a text, bench times it") {
  const auto folder = test::data_folder("llm/stories260K");
  if (!folder) return;
  const std::string model = "-m '" + (*folder / "stories260K-f32.gguf").string() + "' -c 512 ";
  const std::string prompt = "-p 'Once upon a time' ";

  const Outcome text = lathe_command("run " + model + prompt + "-n 13");
  CHECK(text.status == 0);
  CHECK(text.out == "Once upon a time, there was a little girl named Lily. She lo\n");
  CHECK(test::contains(text.err, "13 new ones at"));
  const Outcome ids = lathe_command("run " + model + "-n 4 --ids");
  CHECK(ids.out == "403 407 261 378\n");
  const auto json = nlohmann::json::parse(lathe_command("run " + model + prompt + "-n 4 --json").out);
  CHECK(json["ids"].size() == 4);
  CHECK(json["text"] == ", there was a");
  CHECK(json["decode_tok_s"] > 0);
  CHECK(json["prefill_tok_s"] > 0);
  const auto drawn = [&](const char* seed) {
    return lathe_command("run " + model + "-n 20 --temp 1 --ids --seed " + seed).out;
  };
  CHECK(drawn("1") == drawn("1"));
  CHECK(drawn("1") != drawn("2"));

  const auto rows =
      nlohmann::json::parse(lathe_command("bench " + model + "-p 16 -n 8 -t 1,2 -r 1 --json").out);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["test"] == "pp16");
  CHECK(rows[3]["test"] == "tg8");
  CHECK(rows[3]["threads"] == 2);
  CHECK(rows[3]["bandwidth_fraction"] > 0);

  CHECK(lathe_command("run " + model + "--kv-type q3").status == 2);
  CHECK(lathe_command("run -m /none.gguf").status == 2);
  const Outcome packed = lathe_command("run " + model + "--kv-type q8_0");
  CHECK(packed.status == 1);
  CHECK(test::contains(packed.err, "a multiple of 32"));
}
