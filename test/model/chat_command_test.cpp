// `lathe template` from a file.
#include "base/mmap.h"

#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/test.h"

using namespace lathe;

TEST_CASE("template") {
  test::TempDir dir;
  write_file_atomically(dir.file("t.jinja"),
                        std::string_view("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content "
                                         "}}{% endfor %}{{ strftime_now('%Y') }}{{ x }}"));
  write_file_atomically(
      dir.file("m.json"),
      std::string_view(R"({"messages":[{"role":"user","content":"é"}],"x":1,"bos_token":"<s>"})"));
  write_file_atomically(dir.file("bad.json"), std::string_view("{"));
  const std::string base = fmt::format("template '{}' --now '2026-01-02 03:04:05'", dir.file("t.jinja"));
  CHECK(test::run_command(fmt::format("{} --input '{}'", base, dir.file("m.json"))).out == "<s><user>é20261");
  const auto json = nlohmann::json::parse(
      test::run_command(fmt::format("{} --json --input '{}'", base, dir.file("m.json"))).out);
  CHECK(json == nlohmann::json{{"text", "<s><user>é20261"}, {"plain", {{9, 11}}}});
  const auto bad = test::run_command(fmt::format("{} --input '{}'", base, dir.file("bad.json")));
  CHECK(bad.code == 1);
  CHECK(test::contains(bad.err, "bad.json is no JSON"));
  CHECK(test::run_command(fmt::format("template --input '{}'", dir.file("m.json"))).code == 2);
}
