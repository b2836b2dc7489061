// Reasoning, tool calls and stop strings in generated text, whatever the pieces it comes in.
#include "llm/output_router.h"

#include <fmt/format.h>

#include "support/test.h"

using namespace lathe;

namespace {

// "C:text R:text T:name(arguments)", pieces of one kind joined.
std::string routed(std::string_view text, size_t piece, const OutputRouter::Options& options = {}) {
  OutputRouter router(options);
  std::string content, reasoning, calls;
  const auto take = [&](const std::vector<OutputPiece>& pieces) {
    for (const OutputPiece& p : pieces) {
      if (p.kind == OutputPiece::Kind::ToolCall) calls += fmt::format(" T:{}({})", p.name, p.arguments);
      (p.kind == OutputPiece::Kind::Content ? content : reasoning) += p.text;
    }
  };
  for (size_t i = 0; i < text.size(); i += piece) take(router.push(text.substr(i, piece)));
  take(router.finish());
  CHECK(router.has_calls() == !calls.empty());
  return fmt::format("C:{} R:{}{}", content, reasoning, calls);
}

void check(std::string_view text, std::string_view expected, const OutputRouter::Options& options = {}) {
  for (size_t piece : {text.size() + 1, size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{19}}) {
    CAPTURE(piece);
    CHECK(routed(text, piece, options) == std::string(expected));
  }
}

}  // namespace

TEST_CASE("output router: reasoning") {
  check("reasoning</think>answer", "C:answer R:reasoning", {.starts_in_reasoning = true});
  check("<think>why</think>\n\nanswer", "C:\n\nanswer R:why");
  check("answer", "C:answer R:");
  check("<thin", "C:<thin R:");
  check(" <think>x", "C: <think>x R:");
  check("<think>unfinished</thi", "C: R:unfinished</thi");
  check("<think>draft <tool_call>{\"name\":\"wrong\",\"arguments\":{}}</tool_call></think>answer",
        "C:answer R:draft <tool_call>{\"name\":\"wrong\",\"arguments\":{}}</tool_call>");
  check("<think>a</think>b", "C:<think>a</think>b R:", {.splits_reasoning = false});
  CHECK(OutputRouter::opens_reasoning("<|im_start|>assistant\n<think>\n"));
  CHECK(!OutputRouter::opens_reasoning("<think>\n\n</think>\n\n"));
}

TEST_CASE("output router: tool calls in JSON") {
  check("before<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"README.md\"}}</tool_call>",
        "C:before R: T:read({\"path\":\"README.md\"})");
  check(
      "<tool_call>\n{\"name\": \"a\", \"parameters\": {\"x\": [1, "
      "\"é\"]}}\n</tool_call>\n<tool_call>{\"name\": \"b\"}",
      "C: R: T:a({\"x\":[1,\"é\"]}) T:b({})");
  check("<tool_call>{\"name\":\"a\",\"arguments\":\"{\\\"x\\\": 1}\"}</tool_call> \n",
        "C: R: T:a({\"x\": 1})");
  check("<tool_call>{\"name\":\"a\"}</tool_call>\n and text", "C:\n and text R: T:a({})");
  check("<tool_call>not a call</tool_call>", "C:<tool_call>not a call</tool_call> R:");
  check("<tool_call>{\"name\":5}</tool_call>", "C:<tool_call>{\"name\":5}</tool_call> R:");
  check("<tool_call>{\"name\":\"a\", ", "C:<tool_call>{\"name\":\"a\",  R:");
  check("<tool_call>{\"name\":\"a\"}</tool_call>",
        "C:<tool_call>{\"name\":\"a\"}</tool_call> R:", {.finds_calls = false});
  check("a < b <tool_cal", "C:a < b <tool_cal R:");
}

TEST_CASE("output router: tool calls in XML") {
  const std::string read =
      "<tool_call><function=read> <parameter=path>\"{}\"</parameter> </function></tool_call>";
  check(fmt::format(fmt::runtime(read), "a") + "\n" + fmt::format(fmt::runtime(read), "b"),
        "C: R: T:read({\"path\":\"a\"}) T:read({\"path\":\"b\"})");
  check(
      "<tool_call>\n<function=write>\n<parameter=content>\nfirst\nsecond\n\n</"
      "parameter>\n<parameter=filePath>\nout.txt\n"
      "</parameter>\n</function>\n</tool_call>",
      "C: R: T:write({\"content\":\"first\\nsecond\\n\",\"filePath\":\"out.txt\"})");
  check("<tool_call><function=f><parameter=n>\r\n5\r\n</parameter>", "C: R: T:f({\"n\":5})");
  check("<tool_call><function=f></tool_call>", "C: R: T:f({})");
  check("<tool_call><function=f><parameter=n>5</tool_call>",
        "C:<tool_call><function=f><parameter=n>5</tool_call> R:");
  check("<tool_call><function=f>junk</function></tool_call>",
        "C:<tool_call><function=f>junk</function></tool_call> R:");
}

TEST_CASE("output router: tool calls in sections") {
  check(
      "before<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"
      "\"path\":\"a.txt\"}"
      "<|tool_call_end|><|tool_calls_section_end|>",
      "C:before R: T:read({\"path\":\"a.txt\"})");
  check(
      "<|tool_calls_section_begin|> <|tool_call_begin|>a.b<|tool_call_argument_begin|>{} <|tool_call_end|>\n"
      "<|tool_call_begin|>functions.c:12<|tool_call_argument_begin|>{}<|tool_call_end|> "
      "<|tool_calls_section_end|>\nend",
      "C:\nend R: T:a.b({}) T:c({})");
  check("<|tool_calls_section_begin|><|tool_call_begin|>x<|tool_call_end|><|tool_calls_section_end|>",
        "C:<|tool_call_begin|>x<|tool_call_end|> R:");
  check("<|tool_calls_section_begin|> words \n", "C: words \n R:");
}

TEST_CASE("stop strings") {
  const auto stopped = [](std::string_view text, size_t piece, std::vector<std::string> stops) {
    StopStrings stop(std::move(stops));
    std::string out;
    for (size_t i = 0; i < text.size(); i += piece) out += stop.push(text.substr(i, piece));
    out += stop.finish();
    return out + "|" + (stop.found() ? *stop.found() : "");
  };
  for (size_t piece = 1; piece < 12; piece++) {
    CAPTURE(piece);
    CHECK(stopped("one END two", piece, {"END", "\n"}) == "one |END");
    CHECK(stopped("one EN two E", piece, {"END"}) == "one EN two E|");
    CHECK(stopped("aab", piece, {"ab", "b"}) == "a|ab");
    CHECK(stopped("abc", piece, {"abc", "b"}) == "|abc");
    CHECK(stopped("abx", piece, {"abc", "b"}) == "a|b");
    CHECK(stopped("ab", piece, {"abc", "b"}) == "a|b");
    CHECK(stopped("text", piece, {}) == "text|");
    CHECK(stopped("text", piece, {""}) == "text|");
  }
  StopStrings stop({"stop"});
  CHECK(stop.push("a st") == "a ");  // held back across tokens
  CHECK(stop.push("ep") == "step");
}
