// Serves a language model over HTTP as OpenAI's API does: one request after the other, in the order they
// come.
#pragma once
#include "llm/net/http.h"
#include "llm/server_request.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

namespace lathe {

// `model` must outlive it.
ServedModel served_model(LanguageModel& model, std::string name, bool ignore_template = false);

struct ServerOptions {
  size_t connections = 64;  // at a time
  size_t waiting = 48;      // requests that wait for the model; more are answered 503
};

// POST /v1/chat/completions and /v1/completions (streamed or not), GET /v1/models and /health. A client that
// closes its connection ends its request, also during the prompt.
class LlmServer {
 public:
  explicit LlmServer(ServedModel model, const ServerOptions& options = {});
  ~LlmServer();  // stops

  // Begins to serve and returns the port; 0 takes a free one. RuntimeError where the address cannot be had.
  int start(const std::string& host, int port);
  // Ends the requests that run, and takes no more.
  void stop();
  // Requests that have the model or wait for it.
  size_t pending();

 private:
  struct Outcome;
  class Turn;
  HttpReply complete(const HttpRequest& request, bool is_chat);
  HttpReply models() const;
  Outcome generate(const CompletionRequest& request, const std::function<bool()>& is_gone,
                   const std::function<bool(const struct OutputPiece&)>& emit);
  void log(const std::string& path, const CompletionRequest& request, const Outcome& outcome) const;

  const ServedModel model_;
  const ServerOptions options_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // of the queue: who is at its front has the model
  std::condition_variable moved_;
  std::deque<uint64_t> queue_;
  uint64_t next_turn_ = 0;
  HttpServer http_;
};

}  // namespace lathe
