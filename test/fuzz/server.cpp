// Whatever the body of a request: a prompt that fits, or an error with a text. Whatever a model says: the
// same parts, in any pieces, and nothing lost but tags and what calls are made of.
#include "base/log.h"
#include "llm/output_router.h"
#include "llm/server_request.h"

#include <cstdlib>

using namespace lathe;

namespace {

ServedModel small_model() {
  Vocabulary v;
  v.tokens = {"<s>", "</s>"};
  v.types = {TokenType::Control, TokenType::Control};
  v.model = "llama";
  for (int b = 0; b < 256; b++) {
    v.tokens.push_back(fmt::format("<0x{:02X}>", b));
    v.types.push_back(TokenType::Byte);
  }
  v.scores.assign(v.tokens.size(), 0);
  v.bos = 0, v.eos = 1;
  return {.name = "fuzz",
          .tokenizer = Tokenizer(v),
          .chat_template = ChatTemplate(
              "{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.tool_calls|string }}{% endfor %}"
              "{{ tools|default([])|tojson }}",
              {}),
          .context = 4096,
          .generate = nullptr};
}

std::string routed(std::string_view text, size_t piece) {
  OutputRouter router({});
  std::string parts[2], calls;
  const auto take = [&](const std::vector<OutputPiece>& pieces) {
    for (const OutputPiece& p : pieces) {
      if (p.kind == OutputPiece::Kind::ToolCall)
        calls += p.name + "\n" + p.arguments + "\n";
      else
        parts[p.kind == OutputPiece::Kind::Content] += p.text;
    }
  };
  for (size_t i = 0; i < text.size(); i += piece) take(router.push(text.substr(i, piece)));
  take(router.finish());
  return parts[0] + "\n--\n" + parts[1] + "\n--\n" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ServedModel model = small_model();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (auto* read : {read_chat_request, read_completion_request}) {
    try {
      const CompletionRequest request = read(text, model);
      if (request.prompt.empty() || static_cast<int64_t>(request.prompt.size()) >= model.context)
        std::abort();
    } catch (const ApiError& error) {
      if (error.message.empty() || error.status < 400) std::abort();
    }
  }
  set_log_sink([](LogLevel, std::string_view) {});
  const std::string whole = routed(text, size + 1);
  if (whole != routed(text, 1) || whole != routed(text, 5)) std::abort();
  return 0;
}
