#include "base/error.h"
#include "lathe/command.h"
#include "lathe/model_options.h"
#include "llm/server.h"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace lathe::command {
namespace {

struct Options {
  ModelArguments model;
  std::string host = "127.0.0.1", alias;
  int port = 8080;
  bool no_template = false;
};

int g_signals[2];  // a pipe: what a signal handler may write to

void wait_for_signal() {
  char signal;
  while (read(g_signals[0], &signal, 1) < 0 && errno == EINTR) {
  }
}

void serve(const Options& options) {
  LanguageModel model = options.model.load();
  model.warm();
  std::string name = options.alias;
  if (name.empty()) name = std::filesystem::path(options.model.path).stem().string();
  if (name.empty()) name = model.config().name;
  LlmServer server(served_model(model, name, options.no_template));
  if (pipe(g_signals) != 0) user_runtime_error("cannot make a pipe");
  struct sigaction on_signal = {};
  on_signal.sa_handler = [](int) { (void)!write(g_signals[1], "", 1); };
  on_signal.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends the process
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &on_signal, nullptr);
  const int port = server.start(options.host, options.port);
  fmt::print("listening on http://{}:{}\n", options.host, port);
  std::fflush(stdout);
  wait_for_signal();
  server.stop();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Serves a language model over HTTP as OpenAI's API does.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--alias", options->alias, "Name of the model; that of its file otherwise");
  command->add_flag("--no-template", options->no_template,
                    "Ignore the model's chat template, for a built-in one");
  command->footer(
      "Examples:\n"
      "  lathe serve -m model.gguf\n"
      "  lathe serve -m model.gguf --port 0      prints \"listening on http://127.0.0.1:PORT\" once it "
      "answers\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -d "
      "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}'\n"
      "docs/server.md tells what it answers.");
  command->callback([options] { serve(*options); });
}

}  // namespace lathe::command
