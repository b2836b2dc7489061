// What conversations may not hold: kind and text of each error.
#include "llm/chat_template.h"
#include "llm/json_text.h"

#include <nlohmann/json.hpp>

#include "support/test.h"

using namespace lathe;
using Json = nlohmann::ordered_json;

TEST_CASE("conversations that are none") {
  const ChatTemplate t = ChatTemplate::fallback("tekken", {"<s>", "</s>", true});
  for (const auto& [request, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[]", "\"messages\" must be a list of at least one message"},
           {"{}", "\"messages\" must be a list of at least one message"},
           {R"({"messages":[]})", "\"messages\" must be a list of at least one message"},
           {R"({"messages":"x"})", "\"messages\" must be a list of at least one message"},
           {R"({"messages":[1]})", "messages[0] is number, not an object"},
           {R"({"messages":[{"role":"user","content":"a"},{"content":"a"}]})", "messages[1] has no \"role\""},
           {R"({"messages":[{"role":"user","content":5}]})",
            "messages[0].content is number, not a string or a list"},
           {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
            "messages[0].content[0]: only parts {\"type\": \"text\", \"text\": …} are supported, not type "
            "\"image_url\""},
           {R"({"messages":[{"role":"user","content":["a"]}]})", "messages[0].content[0]: only parts"},
           {R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":1})", "must be an object"},
           {R"({"messages":[{"role":"system","content":"a"}]})",
            "the template refuses these messages: this model has no turns of role system"}}) {
    CAPTURE(request);
    CHECK(test::contains(test::user_error([&] { t.render(Json::parse(request)); }).what(), text));
  }
  Json deep = 1;
  for (int i = 0; i < 300; i++) deep = Json::array({deep});
  const Json request = {{"messages", {{{"role", "user"}, {"content", "a"}, {"x", deep}}}}};
  CHECK(test::contains(test::user_error([&] { t.render(request); }).what(), "nested more than 200 deep"));
}

TEST_CASE("chat templates that are none") {
  CHECK(test::contains(test::user_error([] { ChatTemplate("a\n{% if %}", {}); }).what(),
                       "chat template: offset 8: line 2: expected a value, found '%}'"));
}

TEST_CASE("JSON that is none") {
  CHECK(test::contains(test::user_error([] { parse_json("{", "request body"); }).what(),
                       "request body is no JSON: "));
  CHECK(test::contains(test::user_error([] { parse_json("\"\xff\"", "request body"); }).what(),
                       "request body is no JSON"));
  const std::string deep(100'000, '[');
  CHECK(test::contains(test::user_error([&] { parse_json(deep, "request body"); }).what(),
                       "request body is nested more than 200 deep"));
}
