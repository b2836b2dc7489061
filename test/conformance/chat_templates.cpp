// Chat templates as models ship them, rendered as Jinja2 renders them.
#include "base/mmap.h"
#include "llm/jinja/template.h"

#include <nlohmann/json.hpp>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;
using Json = nlohmann::ordered_json;

namespace {

// 2026-01-02 03:04:05, a Friday.
std::tm fixed_clock() {
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mon = 0;
  now.tm_mday = 2;
  now.tm_hour = 3;
  now.tm_min = 4;
  now.tm_sec = 5;
  now.tm_wday = 5;
  now.tm_yday = 1;
  return now;
}

void add(jinja::Dict& variables, const Json& object) {
  for (const auto& [key, value] : object.items())
    variables.set(jinja::Text(key), jinja::from_json(value, true));
}

struct Counts {
  int texts = 0, raised = 0, unchecked = 0;
};

void check(const jinja::Template& chat_template, const jinja::Dict& variables, const Json& expected,
           Counts& counts) {
  std::string text, raised, error;
  try {
    text = chat_template.render(variables, fixed_clock()).bytes();
  } catch (const jinja::RaisedError& e) {
    raised = e.reason;
  } catch (const UserError& e) {
    error = e.what();
  }
  CAPTURE(error);
  if (expected.contains("text")) {
    CHECK(text == expected["text"].get<std::string>());
    CHECK(raised == "");
    counts.texts++;
  } else if (expected.contains("raises")) {
    CHECK(raised == expected["raises"].get<std::string>());
    counts.raised++;
  } else {
    counts.unchecked++;
  }
}

}  // namespace

TEST_CASE("chat templates") {
  const auto folder = test::data_folder("chat-templates");
  if (!folder) return;
  const Json expected = Json::parse(read_file((*folder / "expected.json").string()));
  Counts counts;
  for (const auto& [file, results] : expected["templates"].items()) {
    CAPTURE(file);
    const auto chat_template = jinja::Template::parse(read_file((*folder / file).string()), file).or_throw();
    for (const auto& [name, result] : results.items()) {
      if (name == "extra_globals") continue;
      CAPTURE(name);
      jinja::Dict variables;
      variables.set(jinja::Text("bos_token"), "<BOS>");
      variables.set(jinja::Text("eos_token"), "<EOS>");
      if (result.contains("extra_globals")) add(variables, result["extra_globals"]);
      add(variables, expected["cases"][name]);
      check(chat_template, variables, result, counts);
    }
  }
  CHECK(counts.texts == 351);
  CHECK(counts.raised == 7);
  CHECK(counts.unchecked == 16);
}
