// The server with a model that says what it is told to: forms of answers, errors, queue, clients that go
// away.
#include "llm/server.h"

#include "base/clock.h"
#include "base/error.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/http_client.h"
#include "support/test.h"

using namespace lathe;
using Json = nlohmann::json;

namespace {

constexpr const char* kChat = "/v1/chat/completions";

// Characters as tokens.
Tokenizer characters() {
  Vocabulary v;
  v.model = "llama";
  v.add_space_prefix = v.add_bos = false;
  v.tokens = {"<unk>", "<s>", "</s>", "<|call|>"};
  v.types = {TokenType::Unknown, TokenType::Control, TokenType::Control, TokenType::Control};
  for (int c = 0; c < 128; c++) {
    v.tokens.push_back(c == ' ' ? "\xE2\x96\x81" : std::string(1, static_cast<char>(c)));
    v.types.push_back(TokenType::Normal);
  }
  v.scores.assign(v.tokens.size(), 0);
  v.unknown = 0, v.bos = 1, v.eos = 2;
  return Tokenizer(v);
}

// Says `answer`, then ends; or says "x" without end.
struct Stub {
  std::string answer = "hello";
  bool is_endless = false, fails = false, is_stuck = false,
       draws = false;  // draws: stops at a token that is ruled out
  std::atomic<int> running = 0, most_running = 0, calls = 0, ruled_out = 0;

  GenerateResult generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                          const std::function<bool(const GeneratedToken&)>& callback) {
    most_running = std::max<int>(most_running, ++running);
    calls++;
    GenerateResult out;
    out.prompt_tokens = static_cast<int64_t>(prompt.size());
    out.reason = StopReason::Length;
    const Tokenizer tokenizer = characters();
    const auto text = tokenizer.encode(answer, {.add_special = false});
    for (size_t i = 0; options.max_tokens < 0 || static_cast<int64_t>(out.ids.size()) < options.max_tokens;
         i++) {
      if (is_stuck) {
        running--;
        throw NoTokenError("no token can be drawn");
      }
      if (fails) {
        running--;
        user_runtime_error("the stub fails");
      }
      GeneratedToken token;
      token.is_end = !is_endless && i == text.size();
      token.id = token.is_end ? 2 : is_endless ? tokenizer.encode("x", {.add_special = false})[0] : text[i];
      if (draws && options.mask) {
        std::vector<float> logits(static_cast<size_t>(tokenizer.size()));
        options.mask(logits);
        if (logits[static_cast<size_t>(token.id)] < 0) {
          ruled_out++;
          break;
        }
      }
      if (is_endless) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!token.is_end) out.ids.push_back(token.id);
      const bool goes_on = callback(token);
      if (token.is_end || !goes_on) {
        out.reason = token.is_end ? StopReason::End : StopReason::Callback;
        break;
      }
    }
    running--;
    return out;
  }
};

struct Served {
  explicit Served(const ServerOptions& options = {}, std::string_view source = "{{ messages[-1].content }}")
      : server({.name = "stub",
                .tokenizer = characters(),
                .chat_template = ChatTemplate(source, {"<s>", "</s>", false}),
                .context = 100,
                .generate = [this](auto prompt, const auto& o,
                                   const auto& callback) { return stub.generate(prompt, o, callback); }},
               options),
        port(server.start("127.0.0.1", 0)) {}
  Json post(const std::string& path, const Json& body, int status = 200) {
    const auto answer = test::http(port, "POST", path, body.dump());
    CHECK(answer.status == status);
    return Json::parse(answer.body);
  }
  Stub stub;
  LlmServer server;
  int port;
};

Json chat(std::string_view text = "abc") { return {{"messages", {{{"role", "user"}, {"content", text}}}}}; }
Json with(Json body, const Json& more) {
  body.update(more);
  return body;
}

// The events of a stream, without the last, [DONE].
std::vector<Json> events(const std::string& body) {
  std::vector<Json> out;
  size_t at = 0;
  while (body.compare(at, 6, "data: ") == 0 && body.compare(at, 12, "data: [DONE]") != 0) {
    const size_t end = body.find("\n\n", at);
    out.push_back(Json::parse(body.substr(at + 6, end - at - 6)));
    at = end + 2;
  }
  CHECK(body.substr(at) == "data: [DONE]\n\n");
  return out;
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000 && !holds(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

}  // namespace

TEST_CASE("server: whole answers") {
  Served s;
  CHECK(test::http(s.port, "GET", "/health").body == R"({"status":"ok"})");
  CHECK(Json::parse(test::http(s.port, "GET", "/v1/models").body)["data"][0]["id"] == "stub");
  s.stub.answer = "hi";
  const Json answer = s.post(kChat, chat());
  CHECK(answer["object"] == "chat.completion");
  CHECK(answer["id"].get<std::string>().size() == 9 + 24);
  CHECK(answer["model"] == "stub");
  CHECK(answer["choices"][0]["message"] == Json{{"role", "assistant"}, {"content", "hi"}});
  CHECK(answer["choices"][0]["finish_reason"] == "stop");
  CHECK(answer["usage"]["prompt_tokens"] == 3);
  CHECK(answer["usage"]["completion_tokens"] == 2);  // without the token that ends it
  CHECK(answer["usage"]["total_tokens"] == 5);
  const Json cut =
      s.post(kChat, with(chat(), {{"max_tokens", 5}, {"max_completion_tokens", 1}, {"model", "other"}}));
  CHECK(cut["choices"][0]["message"]["content"] == "h");
  CHECK(cut["choices"][0]["finish_reason"] == "length");
  CHECK(cut["model"] == "other");
  const Json none = s.post(kChat, with(chat(), {{"max_tokens", 0}}));
  CHECK(none["choices"][0]["message"]["content"].is_null());
  const Json text = s.post("/v1/completions", {{"prompt", "abcd"}});
  CHECK(text["object"] == "text_completion");
  CHECK(text["choices"][0]["text"] == "hi");
  CHECK(text["usage"]["prompt_tokens"] == 4);
  CHECK(s.post("/v1/completions", {{"prompt", {5, 6}}})["usage"]["prompt_tokens"] == 2);
}

TEST_CASE("server: a stream is the whole answer in pieces") {
  Served s;
  s.stub.answer = "<think>why</think>because<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
  const Json tools = {{"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}};
  const Json whole = s.post(kChat, with(chat(), tools))["choices"][0];
  CHECK(whole["finish_reason"] == "tool_calls");
  const Json& message = whole["message"];
  CHECK(message["content"] == "because");
  CHECK(message["reasoning_content"] == "why");
  CHECK(message["tool_calls"][0]["function"] == Json{{"name", "f"}, {"arguments", "{\"a\":1}"}});
  CHECK(message["tool_calls"][0]["id"].get<std::string>().size() == 5 + 24);
  CHECK(!message["tool_calls"][0].contains("index"));

  const Json body =
      with(with(chat(), tools), {{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const auto answer = test::http(s.port, "POST", kChat, body.dump());
  CHECK(test::contains(answer.head, "text/event-stream"));
  const auto all = events(answer.body);
  REQUIRE(all.size() > 4);
  CHECK(all[0]["choices"][0]["delta"] == Json{{"role", "assistant"}, {"content", ""}});
  std::string content, reasoning;
  Json call;
  for (const Json& event : all) {
    CHECK(event["object"] == "chat.completion.chunk");
    CHECK(event["id"] == all[0]["id"]);
    if (event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    if (delta.contains("tool_calls")) call = delta["tool_calls"][0];
  }
  CHECK(content == message["content"].get<std::string>());
  CHECK(reasoning == message["reasoning_content"].get<std::string>());
  CHECK(call["index"] == 0);
  CHECK(call["function"] == message["tool_calls"][0]["function"]);
  CHECK(all[all.size() - 2]["choices"][0]["finish_reason"] == "tool_calls");
  CHECK(all[all.size() - 2]["choices"][0]["delta"].empty());
  CHECK(all.back()["usage"]["total_tokens"].get<int>() ==
        all.back()["usage"]["completion_tokens"].get<int>() + 3);

  // Without tools, or with a client that wants reasoning in line, the markup is text.
  CHECK(test::contains(s.post(kChat, chat())["choices"][0]["message"]["content"].get<std::string>(),
                       "because<tool_call>"));
  CHECK(s.post(kChat, with(chat(), {{"reasoning_format", "none"}}))["choices"][0]["message"]["content"] ==
        s.stub.answer);
  const auto text = events(
      test::http(s.port, "POST", "/v1/completions", Json{{"prompt", "a"}, {"stream", true}}.dump()).body);
  std::string joined;
  for (const Json& event : text) joined += event["choices"][0]["text"];
  CHECK(joined == s.stub.answer);
}

TEST_CASE("server: stop strings and reasoning that the prompt opens") {
  Served s({}, "{{ messages[-1].content }}<think>\n");
  s.stub.answer = "so</think>one END two";
  const Json choice = s.post(kChat, with(chat(), {{"stop", {"EN", "END"}}}))["choices"][0];
  CHECK(choice["message"]["content"] == "one ");
  CHECK(choice["message"]["reasoning_content"] == "so");
  CHECK(choice["finish_reason"] == "stop");
  CHECK(s.post(kChat, with(chat(), {{"stop", "wo!"}}))["choices"][0]["message"]["content"] == "one END two");
}

TEST_CASE("server: grammars bind the answer, not the reasoning") {
  Served s({}, "{{ messages[-1].content }}<think>\n");
  s.stub.answer = "no</think>[1]";
  s.stub.draws = true;
  const auto content = [&](const Json& more) {
    return s.post(kChat, with(chat(), more))["choices"][0]["message"].value("content", Json()).dump();
  };
  CHECK(content({{"grammar", "root ::= \"[\" [0-9] \"]\""}}) == "\"[1]\"");
  CHECK(content({{"response_format", {{"type", "json_object"}}}}) == "\"[1]\"");
  CHECK(content({{"json_schema", {{"type", "array"}}}}) == "\"[1]\"");
  CHECK(s.stub.ruled_out == 0);
  content(
      {{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "string"}}}}}}}});
  CHECK(s.stub.ruled_out == 1);  // a string does not begin with a bracket
}

TEST_CASE("server: errors") {
  Served s({},
           "{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ "
           "messages[-1].content }}");
  const auto error = [&](const std::string& path, const std::string& body, int status) {
    const auto answer = test::http(s.port, "POST", path, body);
    CHECK(answer.status == status);
    return Json::parse(answer.body)["error"];
  };
  const Json long_prompt = error(kChat, chat(std::string(100, 'x')).dump(), 400);
  CHECK(long_prompt == Json{{"message", "prompt has 100 tokens, but the model context is 100"},
                            {"type", "invalid_request_error"},
                            {"param", "messages"},
                            {"code", "context_length_exceeded"}});
  CHECK(error(kChat, R"({"messages":[{"role":"tool","content":"x"}]})", 400)["message"] == "no tools");
  CHECK(error("/v1/nothing", "{}", 404)["type"] == "not_found_error");
  for (const auto& [body, status, text] : std::initializer_list<std::tuple<const char*, int, const char*>>{
           {"", 400, "is no JSON"},
           {"[]", 400, "the request body is array, not an object"},
           {"{}", 400, "\"messages\" must be a list of at least one message"},
           {R"({"messages":[{"role":"user","content":"x"}],"temperature":"hot"})", 400,
            "\"temperature\" must be a number"},
           {R"({"messages":[{"role":"user","content":"x"}],"top_p":-1})", 400, "top_p"},
           {R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1.5})", 400,
            "\"max_tokens\" must be an integer"},
           {R"({"messages":[{"role":"user","content":"x"}],"stream":1})", 400,
            "\"stream\" must be true or false"},
           {R"({"messages":[{"role":"user","content":"x"}],"stop":[1]})", 400, "\"stop\" must be a string"},
           {R"({"messages":[{"role":"user","content":"x"}],"logit_bias":{"x":1}})", 400, "\"logit_bias\""},
           {R"({"messages":[{"role":"user","content":"x"}],"logit_bias":{"9999":1}})", 400,
            "there is no token 9999"},
           {R"({"messages":[{"role":"user","content":"x"}],"logit_bias":{"5":1e300}})", 400, "1e+300"},
           {R"({"messages":[{"role":"user","content":"x"}],"logit_bias":[[4294967301,1]]})", 400,
            "\"logit_bias\""},
           {R"({"messages":[{"role":"user","content":"x"}],"echo":true})", 501, "\"echo\""},
           {R"({"messages":[{"role":"user","content":"x"}],"best_of":2})", 501, "\"best_of\""},
           {R"({"messages":[{"role":"user","content":"x"}],"suffix":"x"})", 501, "\"suffix\""},
           {R"({"messages":[{"role":"user","content":"x"}],"grammar":"root ::= ("})", 400, ""},
           {R"({"messages":[{"role":"user","content":"x"}],"json_schema":{"type":"nonsense"}})", 400,
            "nonsense"},
           {R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"yaml"}})", 400,
            "\"response_format\""},
           {R"({"messages":[{"role":"user","content":"x"}],"n":2})", 501, "more than one choice"},
           {R"({"messages":[{"role":"user","content":"x"}],"logprobs":true})", 501, "log-probabilities"},
           {R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required"})", 501,
            "\"tool_choice\""}}) {
    CAPTURE(body);
    CHECK(test::contains(error(kChat, body, status)["message"].get<std::string>(), text));
  }
  CHECK(error("/v1/completions", R"({"prompt":[99999]})", 400)["param"] == "prompt");
  std::string keys = R"({"prompt":"x","x":{"k":0)";
  for (int i = 0; i < 2000; i++) keys += fmt::format(",\"k{}\":0", i);
  CHECK(test::contains(error("/v1/completions", keys + "}}", 400)["message"].get<std::string>(),
                       "the request body has an object of more than 1024 keys"));
  std::string objects = R"({"prompt":"","x":[{})";  // of a cost that grows with the square of their number
  for (int i = 0; i < 300000; i++) objects += ",{}";
  const double begin = now_seconds();
  error("/v1/completions", objects + "]}", 400);
  CHECK(now_seconds() - begin < 5);
  const Json large = {{"prompt", "x"}, {"grammar", "root ::= \"a\"\n#" + std::string(2 << 20, 'x')}};
  CHECK(error("/v1/completions", large.dump(), 400)["param"] == "grammar");
  CHECK(error("/v1/completions", R"({"prompt":""})", 400)["message"] == "the prompt is empty");
  s.stub.is_stuck = true;  // by what the request rules out
  CHECK(error(kChat, chat().dump(), 400)["message"] == "no token can be drawn");
  s.stub.is_stuck = false, s.stub.fails = true;
  CHECK(error(kChat, chat().dump(), 500)["type"] == "server_error");
  const auto streamed = test::http(s.port, "POST", kChat, with(chat(), {{"stream", true}}).dump());
  CHECK(test::contains(streamed.body, "the stub fails"));
}

TEST_CASE("server: one request at a time, and none for those who left") {
  Served s({.connections = 16, .waiting = 2});
  s.stub.is_endless = true;
  test::HttpConnection streaming(s.port), waiting(s.port), gone(s.port);
  streaming.send(test::http_request("POST", kChat, with(chat(), {{"stream", true}}).dump()));
  CHECK(test::contains(streaming.read_until("\"x\""), "\"x\""));
  waiting.send(test::http_request("POST", kChat, with(chat(), {{"max_tokens", 3}}).dump()));
  gone.send(test::http_request("POST", kChat, chat().dump()));
  // The others do not wait for the model; one request more than may wait is refused.
  CHECK(test::http(s.port, "GET", "/health").status == 200);
  REQUIRE(eventually([&] { return s.server.pending() == 3; }));
  CHECK(test::http(s.port, "POST", kChat, chat().dump()).status == 503);
  CHECK(s.stub.calls == 1);
  gone.close();
  CHECK(eventually([&] { return s.server.pending() == 2; }));
  streaming.close();  // ends its request, and the next one has its turn
  CHECK(
      Json::parse(test::parse_answer(waiting.read_until("never")).body)["choices"][0]["message"]["content"] ==
      "xxx");
  CHECK(eventually([&] { return s.stub.running == 0; }));
  CHECK(s.stub.calls == 2);  // nothing was done for the one that left
  CHECK(s.stub.most_running == 1);

  // A client of a whole answer may leave as well.
  test::HttpConnection whole(s.port);
  whole.send(test::http_request("POST", kChat, chat().dump()));
  CHECK(eventually([&] { return s.stub.running == 1; }));
  whole.close();
  CHECK(eventually([&] { return s.stub.running == 0; }));

  // And so may the server.
  test::HttpConnection last(s.port);
  last.send(test::http_request("POST", kChat, with(chat(), {{"stream", true}}).dump()));
  CHECK(test::contains(last.read_until("\"x\""), "\"x\""));
  s.server.stop();
  CHECK(s.stub.running == 0);
}
