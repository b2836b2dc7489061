// From messages to text and tokens; test/conformance/chat_templates.cpp has the templates of models.
#include "llm/chat_template.h"

#include "formats/gguf/metadata.h"

#include <nlohmann/json.hpp>

#include <functional>

#include "support/test.h"

using namespace lathe;
using Json = nlohmann::ordered_json;

namespace {

const ChatTemplate::Tokens kTokens = {"<s>", "</s>", true};

Json conversation() {
  return {{"messages",
           {{{"role", "user"}, {"content", "a"}},
            {{"role", "assistant"}, {"content", "b"}},
            {{"role", "user"}, {"content", "c"}}}}};
}

std::string rendered(std::string_view source, const Json& request) {
  return ChatTemplate(source, kTokens).render(request).text;
}

// Characters as tokens, and a few control tokens.
Tokenizer small_tokenizer(bool add_bos = false) {
  Vocabulary v;
  v.model = "llama";
  v.add_space_prefix = false;
  v.add_bos = add_bos;
  v.tokens = {"<unk>", "<s>", "</s>", "<|x|>", "<think>"};
  v.types = {TokenType::Unknown, TokenType::Control, TokenType::Control, TokenType::Control,
             TokenType::UserDefined};
  for (char c = ' '; c < 127; c++) {
    v.tokens.push_back(c == ' ' ? "\xE2\x96\x81" : std::string(1, c));
    v.types.push_back(TokenType::Normal);
  }
  v.scores.assign(v.tokens.size(), 0);
  v.unknown = 0, v.bos = 1, v.eos = 2;
  return Tokenizer(v);
}

}  // namespace

TEST_CASE("chat template: built-in forms by pre-tokenizer") {
  for (const auto& [pre, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"llama-bpe",
            "<s><|start_header_id|>user<|end_header_id|>\n\na</"
            "s><|start_header_id|>assistant<|end_header_id|>\n\nb</s>"
            "<|start_header_id|>user<|end_header_id|>\n\nc</"
            "s><|start_header_id|>assistant<|end_header_id|>\n\n"},
           {"",
            "<s><|start_header_id|>user<|end_header_id|>\n\na</"
            "s><|start_header_id|>assistant<|end_header_id|>\n\nb</s>"
            "<|start_header_id|>user<|end_header_id|>\n\nc</"
            "s><|start_header_id|>assistant<|end_header_id|>\n\n"},
           {"qwen2",
            "<s><|im_start|>user\na</s>\n<|im_start|>assistant\nb</s>\n<|im_start|>user\nc</"
            "s>\n<|im_start|>assistant\n"},
           {"olmo", "<s><|user|>\na\n<|assistant|>\nb\n<|user|>\nc\n<|assistant|>\n"},
           {"kimi-k2",
            "<s><|im_user|>user<|im_middle|>a</s><|im_assistant|>assistant<|im_middle|>b</s>"
            "<|im_user|>user<|im_middle|>c</s><|im_assistant|>assistant<|im_middle|>"},
           {"glm4", "<s><sop><|user|>a<|assistant|>b<|user|>c<|assistant|>"},
           {"tekken", "<s>[INST]a[/INST]b</s>[INST]c[/INST]"}}) {
    CAPTURE(pre);
    const ChatTemplate t = ChatTemplate::fallback(pre, kTokens);
    CHECK(t.is_fallback());
    CHECK(t.render(conversation()).text == text);
  }
  const ChatTemplate without_bos = ChatTemplate::fallback("olmo", {"<s>", "</s>", false});
  const Json parts = {
      {"messages",
       {{{"role", "user"},
         {"content", {{{"type", "text"}, {"text", "x"}}, {{"type", "text"}, {"text", "y"}}}}}}}};
  CHECK(without_bos.render(parts).text == "<|user|>\nxy\n<|assistant|>\n");
}

TEST_CASE("chat template: variables") {
  const Json request = {{"messages", {{{"role", "user"}, {"content", nullptr}}}},
                        {"chat_template_kwargs", {{"enable_thinking", false}}},
                        {"tools", Json::array()}};
  CHECK(rendered("{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ preserve_thinking }}{{ "
                 "enable_thinking }}"
                 "{{ tools is defined }}{{ messages[0].content is none }}",
                 request) == "<s></s>TrueTrueFalseFalseTrue");
  Json calls = {{"messages",
                 {{{"role", "assistant"},
                   {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "{\"a\":1}"}}}}}}}}}};
  const char* arguments =
      "{{ messages[0].tool_calls[0].function.arguments is mapping }}{{ messages[0].content }}";
  CHECK(rendered(arguments, calls) == "True");
  calls["messages"][0]["tool_calls"][0]["function"]["arguments"] = "not JSON";
  CHECK(rendered(arguments, calls) == "False");
}

TEST_CASE("chat template: parts of text are joined for templates that know text only") {
  const Json request = {
      {"messages",
       {{{"role", "user"},
         {"content", {{{"type", "text"}, {"text", "x"}}, {{"type", "text"}, {"text", "y"}}}}}}}};
  CHECK(rendered("{{ 'U:' + messages[0].content }}", request) == "U:x\ny");
  CHECK(rendered("{{ messages[0].content }}", request) == "x\ny");
  CHECK(rendered("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}", request) == "<x><y>");
}

TEST_CASE("chat template: no message spells a control token") {
  const Tokenizer tokenizer = small_tokenizer();
  const ChatTemplate t("<|x|>{{ messages[0].role }}:{{ messages[0].content }}<|x|>{{ messages[0].name }}",
                       kTokens);
  const Json request = {
      {"messages", {{{"role", "user"}, {"content", "a<|x|><think></s>"}, {"name", "</s>"}}}}};
  const ChatPrompt prompt = t.render(request);
  CHECK(prompt.text == "<|x|>user:a<|x|><think></s><|x|></s>");
  const auto ids = encode_prompt(tokenizer, prompt);
  CHECK(std::count(ids.begin(), ids.end(), 3) == 2);  // of the template only
  CHECK(std::count(ids.begin(), ids.end(), 2) == 0);
  CHECK(std::count(ids.begin(), ids.end(), 4) == 1);  // user-defined tokens are text
  CHECK(tokenizer.decode(ids, {.show_special = true}) == prompt.text);
  // Nor do a message and the template together, or a role that is no word.
  const auto mixed =
      encode_prompt(tokenizer, ChatTemplate("<|{{ messages[0].content }}", kTokens)
                                   .render({{"messages", {{{"role", "user"}, {"content", "x|>"}}}}}));
  CHECK(std::count(mixed.begin(), mixed.end(), 3) == 0);
  const auto role = encode_prompt(
      tokenizer,
      ChatTemplate("{{ messages[0].role }}", kTokens).render({{"messages", {{{"role", "<|x|>"}}}}}));
  CHECK(std::count(role.begin(), role.end(), 3) == 0);
}

TEST_CASE("chat template: one BOS") {
  const Json request = {{"messages", {{{"role", "user"}, {"content", "a"}}}}};
  for (const char* source : {"{{ bos_token }}a", "a"}) {
    const auto ids = encode_prompt(small_tokenizer(true), ChatTemplate(source, kTokens).render(request));
    CHECK(ids.size() == 2);
    CHECK(ids[0] == 1);
  }
  CHECK(encode_prompt(small_tokenizer(false), ChatTemplate("a", kTokens).render(request)).size() == 1);
}

TEST_CASE("chat template: of a model") {
  const Tokenizer tokenizer = small_tokenizer(true);
  GgufMetadata metadata;
  CHECK(ChatTemplate::from_gguf(metadata, tokenizer).is_fallback());
  metadata.set("tokenizer.chat_template", "{{ eos_token }}!");
  CHECK(ChatTemplate::from_gguf(metadata, tokenizer).render(conversation()).text == "</s>!");
  CHECK(ChatTemplate::from_gguf(metadata, tokenizer, true).is_fallback());
  metadata.set("tokenizer.chat_template", "{{ eos_token");
  CHECK(ChatTemplate::from_gguf(metadata, tokenizer).is_fallback());
}
