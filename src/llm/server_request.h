// Requests of the OpenAI-compatible interface, read and checked.
#pragma once
#include "llm/chat_template.h"
#include "llm/grammar/grammar.h"
#include "llm/language_model.h"
#include "llm/sampling.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lathe {

// Grammars of late requests, with the masks that have been worked out for them.
class GrammarCache {
 public:
  // ApiError of `param` for a text that is none. `kind`: "gbnf", "schema", or "json" for any.
  Grammar find(std::string_view kind, const std::string& text, const std::string& param);

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::string, Grammar>> kept_;  // the latest in front
};

// What the server needs of a model; tests bring one of their own.
struct ServedModel {
  using Generate =
      std::function<GenerateResult(std::span<const int32_t> prompt, const GenerateOptions& options,
                                   const std::function<bool(const GeneratedToken&)>& callback)>;
  std::string name;
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  int64_t context = 0;
  std::string meta = "{}";  // JSON, of /v1/models
  Generate generate;        // for one thread at a time
  std::shared_ptr<GrammarCache> grammars = std::make_shared<GrammarCache>();
};

// An answer that is an error.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {}, code = {};  // "" is null
  std::string body() const;
};

struct CompletionRequest {
  bool is_chat = true, streams = false, includes_usage = false;
  std::string model;  // echoed
  std::vector<int32_t> prompt;
  int64_t max_tokens = -1;
  SamplingOptions sampling;
  bool ignores_end = false;
  std::vector<std::string> stop;
  std::optional<Grammar> grammar;  // of the answer, behind what reasoning there is
  bool splits_reasoning = true, starts_in_reasoning = false, finds_calls = false;
  double prepare_seconds = 0;  // template and tokenizer
};

// Throw ApiError.
CompletionRequest read_chat_request(std::string_view body, const ServedModel& model);
CompletionRequest read_completion_request(std::string_view body, const ServedModel& model);

}  // namespace lathe
