// Answers of a model with random weights, held to a schema and to a grammar.
#include "base/mmap.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/json_validator.h"
#include "support/model_file.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("lathe run keeps to a schema and to a grammar") {
  TempDir dir;
  const std::string model = dir.file("m.gguf");
  random_gguf(random_model_spec("llama"), 3, GgmlType::F32).write(model);
  const std::string schema =
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":1,"maximum":99},)"
      R"("tags":{"type":"array","items":{"enum":["x","y"]},"maxItems":2}},"required":["name","age","tags"]})";
  write_file_atomically(dir.file("s.json"), schema);
  write_file_atomically(dir.file("g.gbnf"), "root ::= (\"yes\" | \"no\") \"!\"{1,2}\n");
  const auto run = [&](const std::string& more) {
    return run_command(fmt::format("run -m '{}' -p 'Hi' -n 110 --json {}", model, more));
  };
  for (const char* how :
       {"--temp 0", "--temp 1 --seed 5", "--temp 2 --top-k 40 --repeat-penalty 1.2 --seed 6"}) {
    const Outcome out = run(fmt::format("--json-schema '{}' {}", dir.file("s.json"), how));
    CAPTURE(out.err);
    REQUIRE(out.code == 0);
    const auto answer = nlohmann::ordered_json::parse(out.out);
    const std::string text = answer["text"];
    CAPTURE(text);
    CHECK(answer["stopped_by"] == "end");
    REQUIRE(nlohmann::ordered_json::accept(text));
    const auto s = nlohmann::ordered_json::parse(schema);
    CHECK(satisfies(nlohmann::ordered_json::parse(text), s, s));
  }
  const std::string text =
      nlohmann::json::parse(run(fmt::format("--grammar '{}' --temp 1", dir.file("g.gbnf"))).out)["text"];
  CHECK(std::regex_match(text, std::regex("(yes|no)!!?")));
  // Complete without a token that says so.
  write_file_atomically(dir.file("g.gbnf"), "root ::= \"ab\"\n");
  const auto whole =
      nlohmann::json::parse(run(fmt::format("--grammar '{}' --ignore-end", dir.file("g.gbnf"))).out);
  CHECK(whole["text"] == "ab");
  CHECK(whole["stopped_by"] == "end");
  CHECK(whole["ids"].size() <= 2);

  write_file_atomically(dir.file("g.gbnf"), "root ::= nothing\n");
  const Outcome bad = run(fmt::format("--grammar '{}'", dir.file("g.gbnf")));
  CHECK(bad.code == 1);
  CHECK(contains(bad.err, "there is no rule \"nothing\""));
  CHECK(contains(run("--logit-bias 3").err, "--logit-bias 3: expected TOKEN=BIAS"));
  CHECK(contains(run("--top-p 2").err, "top_p = 2 must be between 0 and 1"));
  CHECK(run("--grammar /no/such/file").code == 2);
  const std::string one = "--temp 0 --ids -n 1 --logit-bias ";
  CHECK(run_command(fmt::format("run -m '{}' -p Hi {} 65=1000", model, one)).out == "65\n");
}
