// From the messages of a conversation to the text, and the tokens, that a model answers.
#pragma once
#include "llm/jinja/template.h"
#include "llm/tokenizer/tokenizer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

class GgufMetadata;

struct ChatPrompt {
  std::string text;
  // Bytes of it that messages and tools brought, in order: no control token is recognised in them.
  std::vector<TextRange> plain;
};

class ChatTemplate {
 public:
  // The texts of the special tokens that templates print.
  struct Tokens {
    std::string bos, eos;
    bool add_bos = true;  // the fallback prints `bos` first
  };

  // `name` is that of errors. ValueError for a template that does not parse.
  ChatTemplate(std::string_view source, Tokens tokens, std::string name = "chat template");
  // The usual form of models with that pre-tokenizer (`tokenizer.ggml.pre`).
  static ChatTemplate fallback(std::string_view pre, Tokens tokens);
  // `tokenizer.chat_template` of a model; the fallback where there is none or none that parses, and with
  // `ignore_template`.
  static ChatTemplate from_gguf(const GgufMetadata& metadata, const Tokenizer& tokenizer,
                                bool ignore_template = false);

  // `request` has `messages` and may have `tools`, `add_generation_prompt` (true), and other variables of the
  // template, by themselves or in `chat_template_kwargs`. Contents are texts or lists of parts of type text.
  // UserError for messages that are none, of kind jinja::RaisedError where the template refuses them.
  ChatPrompt render(const nlohmann::ordered_json& request, const std::optional<std::tm>& now = {}) const;

  const std::string& source() const { return source_; }
  bool is_fallback() const { return is_fallback_; }

 private:
  bool takes_parts() const;

  Tokens tokens_;
  std::string source_;
  jinja::Template template_;
  bool is_fallback_ = false, takes_parts_ = false;
  jinja::Dict constants_;
};

// With the BOS that the model wants, if the text does not begin with it.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const ChatPrompt& prompt);

}  // namespace lathe
