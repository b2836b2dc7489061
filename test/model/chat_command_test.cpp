// `lathe template`, `lathe chat` and `lathe serve` as their users meet them.
#include "base/mmap.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include "support/command.h"
#include "support/data.h"
#include "support/http_client.h"
#include "support/test.h"

using namespace lathe;

namespace {

// `lathe serve`, from when it is open until this is gone.
class RunningServer {
 public:
  explicit RunningServer(const std::string& model) {
    REQUIRE(pipe(out_) == 0);
    fcntl(out_[0], F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out_[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    std::string arguments[] = {LATHE_COMMAND, "serve", "--port", "0", "-m", model};
    char* argv[7] = {};
    for (size_t i = 0; i < 6; i++) argv[i] = arguments[i].data();
    REQUIRE(posix_spawn(&process_, LATHE_COMMAND, &actions, nullptr, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out_[1]);
    std::string said;
    for (char c; said.find('\n') == std::string::npos && read(out_[0], &c, 1) == 1;) said += c;
    REQUIRE(said.starts_with("listening on http://127.0.0.1:"));
    port = std::stoi(said.substr(said.rfind(':') + 1));
  }
  ~RunningServer() {
    if (process_ > 0) stop();
    close(out_[0]);
  }
  int stop() {
    kill(process_, SIGTERM);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return status;
  }
  int port = 0;

 private:
  int out_[2];
  pid_t process_ = 0;
};

}  // namespace

TEST_CASE("template") {
  test::TempDir dir;
  write_file_atomically(dir.file("t.jinja"),
                        std::string_view("{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content "
                                         "}}{% endfor %}{{ strftime_now('%Y') }}{{ x }}"));
  write_file_atomically(
      dir.file("m.json"),
      std::string_view(R"({"messages":[{"role":"user","content":"é"}],"x":1,"bos_token":"<s>"})"));
  write_file_atomically(dir.file("bad.json"), std::string_view("{"));
  const std::string base = fmt::format("template '{}' --now '2026-01-02 03:04:05'", dir.file("t.jinja"));
  CHECK(test::run_command(fmt::format("{} --input '{}'", base, dir.file("m.json"))).out == "<s><user>é20261");
  const auto json = nlohmann::json::parse(
      test::run_command(fmt::format("{} --json --input '{}'", base, dir.file("m.json"))).out);
  CHECK(json == nlohmann::json{{"text", "<s><user>é20261"}, {"plain", {{9, 11}}}});
  const auto bad = test::run_command(fmt::format("{} --input '{}'", base, dir.file("bad.json")));
  CHECK(bad.code == 1);
  CHECK(test::contains(bad.err, "bad.json is no JSON"));
  CHECK(test::run_command(fmt::format("template --input '{}'", dir.file("m.json"))).code == 2);
}

TEST_CASE("chat") {
  const auto folder = test::data_folder("llm/stories260K");
  if (!folder) return;
  const std::string model = fmt::format("chat -m '{}'", (*folder / "stories260K-f32.gguf").string());
  const auto answer = test::run_command(model + " --temp 0 -n 5", "Hi\n/help\n\n/reset\nHi");
  CHECK(answer.code == 0);
  const size_t half = answer.out.size() / 2;
  CHECK(answer.out.size() > 4);
  CHECK(answer.out.substr(0, half) == answer.out.substr(half));  // each question begins a new conversation
  CHECK(test::contains(answer.err, "/reset  forget the conversation"));
  CHECK(test::contains(answer.err, "5 out at"));
  const auto drawn = [&](int seed) {
    return test::run_command(fmt::format("{} -n 8 --temp 2 --seed {}", model, seed), "Hi").out;
  };
  CHECK(drawn(1) == drawn(1));
  CHECK(drawn(1) != drawn(2));
  const auto long_question = test::run_command(model, std::string(1000, 'x'));
  CHECK(long_question.code == 1);
  CHECK(test::contains(long_question.err, "but the context is 128; /reset begins a new one"));
}

TEST_CASE("serve") {
  const auto folder = test::data_folder("llm/stories260K");
  if (!folder) return;
  RunningServer server((*folder / "stories260K-f32.gguf").string());
  const auto post = [&](const char* path, const nlohmann::json& body) {
    return test::http(server.port, "POST", path, body.dump());
  };
  const auto completion = [&](const char* prompt) {
    return nlohmann::json::parse(
        post("/v1/completions", {{"prompt", prompt}, {"max_tokens", 20}, {"temperature", 0}}).body);
  };
  const auto first = completion("Once upon a time");
  CHECK(first["choices"][0]["text"] == ", there was a little girl named Lily. She loved to play outsid");
  CHECK(first["choices"][0]["finish_reason"] == "length");
  CHECK(first["usage"]["completion_tokens"] == 20);
  const auto again = completion("Once upon a time");
  CHECK(again["choices"] == first["choices"]);
  CHECK(again["usage"]["prompt_tokens_details"]["cached_tokens"] ==
        again["usage"]["prompt_tokens"].get<int>() - 1);
  const nlohmann::json chat = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 8}, {"temperature", 0}};
  const auto whole =
      nlohmann::json::parse(post("/v1/chat/completions", chat).body)["choices"][0]["message"]["content"];
  auto streamed = chat;
  streamed["stream"] = true;
  std::string joined;
  const std::string events = post("/v1/chat/completions", streamed).body;
  for (size_t at = 0; events.compare(at, 7, "data: {") == 0; at = events.find("\n\n", at) + 2)
    joined +=
        nlohmann::json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6))["choices"][0]["delta"]
            .value("content", "");
  CHECK(joined == whole.get<std::string>());
  auto digits = chat;
  digits["grammar"] = "root ::= [0-9]{4}";
  const auto number = nlohmann::json::parse(post("/v1/chat/completions", digits).body)["choices"][0];
  const auto text = number["message"]["content"].get<std::string>();
  CHECK(text.size() == 4);
  CHECK(text.find_first_not_of("0123456789") == std::string::npos);
  CHECK(number["finish_reason"] == "stop");
  CHECK(post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", std::string(500, 'x')}}}}})
            .status == 400);
  CHECK(server.stop() == 0);
}
