#include "llm/server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/cancel.h"
#include "formats/gguf/gguf.h"
#include "llm/output_router.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <thread>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr auto kPoll = 20ms;  // between two looks at whether a client is still there

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string random_id(std::string_view prefix) {
  std::random_device random;
  std::string out(prefix);
  for (int i = 0; i < 3; i++) out += fmt::format("{:08x}", random());
  return out;
}

HttpReply error_reply(const ApiError& error) { return {.status = error.status, .body = error.body()}; }

// Ends what the engine does when the client goes away, so that a long prompt need not be done first.
class Watch {
 public:
  explicit Watch(const std::function<bool()>& is_gone)
      : thread_([this, is_gone](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any stopped;
          std::unique_lock lock(mutex);
          while (!stopped.wait_for(lock, stop, kPoll, [] { return false; }) && !stop.stop_requested()) {
            if (!is_gone()) continue;
            fired_ = true;
            cancel();
            return;
          }
        }) {}
  ~Watch() {
    thread_.request_stop();
    thread_.join();
    if (!fired_) return;
    try {  // what came too late must not end another's request
      stop_if_cancelled();
    } catch (const Cancelled&) {
    }
  }

 private:
  std::atomic<bool> fired_ = false;
  std::jthread thread_;
};

Json call_json(const OutputPiece& call, const std::string& id) {
  return {
      {"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

// The answer so far, in the forms of the interface.
class Answer {
 public:
  explicit Answer(const CompletionRequest& request)
      : request_(request),
        id_(random_id(request.is_chat ? "chatcmpl-" : "cmpl-")),
        created_(std::time(nullptr)) {}

  void add(const OutputPiece& piece) {
    if (piece.kind == OutputPiece::Kind::ToolCall)
      calls_.push_back(call_json(piece, random_id("call_")));
    else
      (piece.kind == OutputPiece::Kind::Content ? content_ : reasoning_) += piece.text;
  }

  // An event of the stream for the piece that add() took last.
  std::string event(const OutputPiece& piece) const {
    if (!request_.is_chat)
      return chunk({{"text", piece.text}, {"index", 0}, {"logprobs", nullptr}, {"finish_reason", nullptr}});
    Json delta;
    if (piece.kind == OutputPiece::Kind::ToolCall) {
      Json call = {{"index", calls_.size() - 1}};
      call.update(calls_.back());
      delta["tool_calls"] = Json::array({call});
    } else {
      delta[piece.kind == OutputPiece::Kind::Content ? "content" : "reasoning_content"] = piece.text;
    }
    return delta_chunk(delta, nullptr);
  }
  std::string first_event() const {
    return request_.is_chat ? delta_chunk({{"role", "assistant"}, {"content", ""}}, nullptr) : std::string();
  }
  std::string last_events(const std::string& finish, const Json& usage) const {
    std::string out =
        request_.is_chat
            ? delta_chunk(Json::object(), finish)
            : chunk({{"text", ""}, {"index", 0}, {"logprobs", nullptr}, {"finish_reason", finish}});
    if (request_.includes_usage) {
      Json last = head(true);
      last["choices"] = Json::array();
      last["usage"] = usage;
      out += "data: " + dump(last) + "\n\n";
    }
    return out + "data: [DONE]\n\n";
  }

  std::string whole(const std::string& finish, const Json& usage) const {
    Json choice = {{"index", 0}};
    if (request_.is_chat) {
      Json message = {{"role", "assistant"}, {"content", content_.empty() ? Json() : Json(content_)}};
      if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
      if (!calls_.empty()) message["tool_calls"] = calls_;
      choice["message"] = message;
    } else {
      choice["text"] = content_;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish;
    Json out = head(false);
    out["choices"] = Json::array({choice});
    out["usage"] = usage;
    return dump(out);
  }

 private:
  Json head(bool is_chunk) const {
    const char* object = !request_.is_chat ? "text_completion"
                         : is_chunk        ? "chat.completion.chunk"
                                           : "chat.completion";
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", request_.model}};
  }
  std::string chunk(const Json& choice) const {
    Json out = head(true);
    out["choices"] = Json::array({choice});
    return "data: " + dump(out) + "\n\n";
  }
  std::string delta_chunk(const Json& delta, const Json& finish) const {
    return chunk({{"index", 0}, {"delta", delta}, {"finish_reason", finish}});
  }

  const CompletionRequest& request_;
  const std::string id_;
  const std::time_t created_;
  std::string content_, reasoning_;
  std::vector<Json> calls_;
};

}  // namespace

ServedModel served_model(LanguageModel& model, std::string name, bool ignore_template) {
  const Tokenizer& tokenizer = model.tokenizer();
  int64_t parameters = 0;
  for (const GgufTensor& tensor : model.file().tensors()) parameters += tensor.elements();
  const Json meta = {{"vocab_type", tokenizer.vocabulary().model},
                     {"n_vocab", tokenizer.size()},
                     {"n_ctx", model.context()},
                     {"n_ctx_train", model.config().context},
                     {"n_embd", model.config().dim},
                     {"n_params", parameters},
                     {"size", model.weight_bytes()}};
  return {.name = std::move(name),
          .tokenizer = tokenizer,
          .chat_template = ChatTemplate::from_gguf(model.file().metadata(), tokenizer, ignore_template),
          .context = model.context(),
          .meta = dump(meta),
          .generate = [&model](std::span<const int32_t> prompt, const GenerateOptions& options,
                               const std::function<bool(const GeneratedToken&)>& callback) {
            return model.generate(prompt, options, callback);
          }};
}

struct LlmServer::Outcome {
  GenerateResult result;
  std::string finish = "stop";
  bool gone = false;  // nobody waits for the answer any more
  double begin = now_seconds();

  Json usage() const {
    const auto completion = static_cast<int64_t>(result.ids.size());
    return {{"prompt_tokens", result.prompt_tokens},
            {"completion_tokens", completion},
            {"total_tokens", result.prompt_tokens + completion},
            {"prompt_tokens_details", {{"cached_tokens", result.cached_tokens}}}};
  }
};

// A place in the queue for the model; who has waited for it has the model.
class LlmServer::Turn {
 public:
  explicit Turn(LlmServer& server) : server_(server) {
    const std::lock_guard lock(server.mutex_);
    if (server.queue_.size() > server.options_.waiting)
      throw ApiError{503, fmt::format("{} requests are waiting; try again later", server.queue_.size() - 1),
                     "", "queue_full"};
    server.queue_.push_back(number_ = server.next_turn_++);
  }
  ~Turn() {
    const std::lock_guard lock(server_.mutex_);
    std::erase(server_.queue_, number_);
    server_.moved_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False where the client has gone away before.
  bool wait(const std::function<bool()>& is_gone) {
    std::unique_lock lock(server_.mutex_);
    while (server_.queue_.front() != number_) {
      server_.moved_.wait_for(lock, kPoll);
      lock.unlock();
      const bool gone = is_gone();
      lock.lock();
      if (gone) return false;
    }
    return true;
  }

 private:
  LlmServer& server_;
  uint64_t number_ = 0;
};

LlmServer::LlmServer(ServedModel model, const ServerOptions& options)
    : model_(std::move(model)), options_(options), http_({.threads = options.connections}) {
  http_.route("GET", "/health", [](const HttpRequest&) { return HttpReply{.body = R"({"status":"ok"})"}; });
  http_.route("GET", "/v1/health",
              [](const HttpRequest&) { return HttpReply{.body = R"({"status":"ok"})"}; });
  for (const char* path : {"/v1/models", "/models"})
    http_.route("GET", path, [this](const HttpRequest&) { return models(); });
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    http_.route("POST", path, [this](const HttpRequest& request) { return complete(request, true); });
  http_.route("POST", "/v1/completions",
              [this](const HttpRequest& request) { return complete(request, false); });
  http_.set_error_body([](int status, const HttpRequest& request) {
    const std::string message = status == 404 ? fmt::format("there is no {} {}", request.method, request.path)
                                : status == 411 ? "a request body must come with its Content-Length"
                                : status == 413 ? "the request body is too large"
                                : status == 415 ? "a request body may have no Content-Encoding"
                                : status >= 500 ? "the server has failed; its log tells more"
                                                : "this is no request of HTTP";
    return ApiError{status, message}.body();
  });
}

LlmServer::~LlmServer() { stop(); }

int LlmServer::start(const std::string& host, int port) { return http_.start(host, port); }

void LlmServer::stop() {
  stopping_ = true;
  http_.stop();
}

size_t LlmServer::pending() {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

HttpReply LlmServer::models() const {
  const Json model = {
      {"id", model_.name}, {"object", "model"}, {"owned_by", "lathe"}, {"meta", Json::parse(model_.meta)}};
  return {.body = dump({{"object", "list"}, {"data", Json::array({model})}})};
}

HttpReply LlmServer::complete(const HttpRequest& http_request, bool is_chat) {
  std::shared_ptr<const CompletionRequest> request;
  std::shared_ptr<Turn> turn;
  try {
    request = std::make_shared<const CompletionRequest>(
        is_chat ? read_chat_request(http_request.body, model_)
                : read_completion_request(http_request.body, model_));
    turn = std::make_shared<Turn>(*this);
  } catch (const ApiError& error) {
    return error_reply(error);
  }
  const std::string path = http_request.path;
  if (!request->streams) {
    Answer answer(*request);
    const auto is_gone = [&] { return stopping_ || http_request.is_gone(); };
    if (!turn->wait(is_gone)) return error_reply({503, "the request was given up"});
    try {
      const Outcome outcome = generate(*request, is_gone, [&](const OutputPiece& piece) {
        answer.add(piece);
        return true;
      });
      log(path, *request, outcome);
      if (outcome.gone) return error_reply({503, "the request was given up"});
      return {.body = answer.whole(outcome.finish, outcome.usage())};
    } catch (const ApiError& error) {
      return error_reply(error);
    }
  }
  const auto write = [this, request, turn, path](HttpStream& out) {
    Answer answer(*request);
    const auto is_gone = [&] { return stopping_ || out.is_gone(); };
    if (!turn->wait(is_gone)) return;
    try {
      out.write(answer.first_event());
      const Outcome outcome = generate(*request, is_gone, [&](const OutputPiece& piece) {
        answer.add(piece);
        return out.write(answer.event(piece));
      });
      log(path, *request, outcome);
      if (!outcome.gone) out.write(answer.last_events(outcome.finish, outcome.usage()));
    } catch (const ApiError& error) {
      out.write("data: " + error.body() + "\n\n");
    } catch (const std::exception& error) {
      log_error("{}: {}", path, error.what());
      out.write("data: " + ApiError{500, error.what()}.body() + "\n\n");
    }
  };
  return {.type = "text/event-stream", .stream = write};
}

LlmServer::Outcome LlmServer::generate(const CompletionRequest& request, const std::function<bool()>& is_gone,
                                       const std::function<bool(const OutputPiece&)>& emit) {
  Outcome out;
  const Tokenizer& tokenizer = model_.tokenizer;
  StreamDecoder decoder(tokenizer, {.show_special = true}, !request.is_chat);
  StopStrings stops(request.stop);
  OutputRouter router({request.splits_reasoning, request.starts_in_reasoning, request.finds_calls});
  const auto emit_all = [&](const std::vector<OutputPiece>& pieces) {
    return std::all_of(pieces.begin(), pieces.end(), emit);
  };
  GenerateOptions options;
  options.max_tokens = request.max_tokens;
  options.stop_at_end = !request.ignores_end;
  options.sampling = request.sampling;
  std::optional<GrammarMatcher> matcher;
  bool is_bound = false;  // the next token, by the grammar
  if (request.grammar) {
    matcher.emplace(*request.grammar, tokenizer);
    options.mask = [&](std::span<float> logits) {
      is_bound = !router.is_in_reasoning();
      if (is_bound) matcher->mask(logits);
    };
  }
  try {
    const Watch watch(is_gone);
    out.result = model_.generate(request.prompt, options, [&](const GeneratedToken& token) {
      out.gone = is_gone();
      if (out.gone || token.is_end) return !out.gone;
      if (is_bound) matcher->accept(token.id);
      const bool is_complete = is_bound && matcher->must_end();
      // Control tokens are no text, but for those that part the answer.
      if (tokenizer.is_control(token.id) && !OutputRouter::is_tag(tokenizer.piece(token.id))) return true;
      out.gone = !emit_all(router.push(stops.push(decoder.push(token.id))));
      return !out.gone && !stops.found() && !is_complete;
    });
  } catch (const Cancelled&) {
    out.gone = true;
  } catch (const NoTokenError& error) {
    throw ApiError{400, error.what()};
  }
  if (out.gone) return out;
  if (!stops.found()) out.gone = !emit_all(router.push(stops.push(decoder.finish())));
  out.gone = out.gone || !emit_all(router.push(stops.finish())) || !emit_all(router.finish());
  if (out.result.reason == StopReason::Length && !stops.found())
    out.finish = "length";
  else if (router.has_calls())
    out.finish = "tool_calls";
  return out;
}

void LlmServer::log(const std::string& path, const CompletionRequest& request, const Outcome& outcome) const {
  const GenerateResult& r = outcome.result;
  const int64_t fresh = r.prompt_tokens - r.cached_tokens;
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  const auto written = static_cast<double>(r.ids.size());
  const std::string total = fmt::format("{:.2f} s", now_seconds() - outcome.begin);
  log_info("{}  prep {:.1f} ms  in: {} + {}  prefill {:.1f} tok/s  gen {:.1f} tok/s  out: {}  total {}{}",
           path, 1e3 * request.prepare_seconds, r.cached_tokens, fresh,
           rate(static_cast<double>(fresh), r.prefill_seconds),
           rate(std::max(written - 1, 0.0), r.decode_seconds), r.ids.size(),
           outcome.gone ? colored(total, Color::Red) : total, outcome.gone ? " (given up)" : "");
}

}  // namespace lathe
