// The lathe command as its users meet it: answers on stdout, the rest on stderr, exit codes 0, 1 and 2.
#include "base/knobs.h"
#include "base/mmap.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tensor/tensor.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "support/onnx_writer.h"
#include "support/test.h"

using namespace lathe;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::string& arguments, const std::string& under = "") {
  test::TempDir dir;
  const std::string command = fmt::format("{} '{}' {} >'{}' 2>'{}' </dev/null", under, LATHE_COMMAND,
                                          arguments, dir.file("out"), dir.file("err"));
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read_file(dir.file("out")), read_file(dir.file("err"))};
}

}  // namespace

TEST_CASE("help has examples") {
  for (const char* arguments :
       {"--help", "demo --help", "devices --help", "knobs --help", "tensors --help", "trace --help",
        "profile --help", "onnx --help", "onnx info --help", "onnx run --help", "onnx test --help",
        "onnx bench --help", "tune --help", "tokenize --help", "template --help", "chat --help",
        "serve --help", "perplexity --help", "eval --help"}) {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments);
    CHECK(outcome.code == 0);
    CHECK(test::contains(outcome.out, "Examples:\n  lathe"));
    CHECK(outcome.err.empty());
  }
  CHECK(run("--version").out.starts_with("lathe 0."));
}

TEST_CASE("wrong usage is 2 and says what is wrong") {
  for (auto [arguments, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "Examples:"},
           {"nonsense", "nonsense"},
           {"demo --epochs many", "--epochs"},
           {"demo --epochs -1", "--epochs"},
           {"bench --repetitions 0", "0 is not a number above 0"},
           {"demo --nonsense", "--nonsense"},
           {"trace", "FILE"},
           {"tune", "MODEL"},
           {"eval", "--file"},
           {"perplexity -f x --window 2", "--window"},
           {"tune --beam 0 m", "MODEL"},
           {"trace f --rule a:1 --pass b", "--pass"}}) {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments);
    CHECK(outcome.code == 2);
    CHECK(test::contains(outcome.err, text));
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("work that fails is 1 and says why") {
  const Outcome outcome = run("demo --epochs 0 --save /no/such/folder/file");
  CHECK(outcome.code == 1);
  CHECK(test::contains(outcome.err, "lathe: cannot "));
  CHECK(test::contains(outcome.err, "/no/such/folder/file"));
}

TEST_CASE("devices") {
  const Outcome outcome = run("devices --json");
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  int defaults = 0;
  bool has_interp = false;
  for (const auto& device : json.at("devices")) {
    defaults += device.at("default").get<bool>();
    has_interp |= device.at("name") == "INTERP" && device.at("available").get<bool>();
  }
  CHECK(defaults == 1);
  CHECK(has_interp);
  const auto& machine = json.at("machine");
  CHECK(machine.at("threads").get<int>() >= 1);
  CHECK(machine.at("fma_flops").at("float32").get<double>() > 1e8);
  CHECK(machine.at("read_bytes_per_second").get<double>() > 1e8);
  CHECK(nlohmann::json::parse(run("devices --json").out).at("machine") == machine);  // kept
  CHECK(nlohmann::json::parse(run("devices --json --measure").out).at("machine") != machine);
  const std::string text = run("devices").out;
  CHECK(test::contains(text, "* CPU"));
  CHECK(test::contains(text, "GFLOP/s: float32 "));
}

TEST_CASE("what a file of tensors holds") {
  test::TempDir dir;
  const std::string path = dir.file("t.safetensors");
  safe_save({{"w", Tensor::from({{1.5, -2}})}}, path, {{"format", "lathe"}});
  const Outcome listed = run("tensors --json '" + path + "'");
  CHECK(listed.code == 0);
  const auto json = nlohmann::json::parse(listed.out);
  CHECK(json.at("format") == "safetensors");
  CHECK(json.at("bytes") == 8);
  CHECK(json.at("metadata").at("format") == "lathe");
  CHECK(json.at("tensors").at(0) ==
        nlohmann::json{{"name", "w"}, {"dtype", "float32"}, {"shape", {1, 2}}, {"bytes", 8}});
  CHECK(run("tensors '" + path + "'").out ==
        "safetensors, 1 tensor, 8 bytes\nformat = lathe\nw  float32   (1, 2)\n");
  write_file_atomically(path, std::string_view("text"));
  CHECK(run("tensors '" + path + "'").code == 1);
}

TEST_CASE("an ONNX model") {
  test::TempDir dir;
  const std::string file = dir.file("m.onnx"), quoted = "'" + file + "'";
  write_file_atomically(file, test::model(test::input("x", 1, {-1, 2}) + test::node("Neg", {"x"}, {"y/z"}) +
                                          test::output("y/z", 1, {-1, 2})));
  const Outcome info = run("onnx info --json " + quoted);
  CHECK(info.code == 0);
  CHECK(nlohmann::json::parse(info.out).at("ops").at("Neg") == 1);
  save_npy(Tensor::from({{1.5, -2}}), dir.file("x.npy"));
  const Outcome ran = run("onnx run --json " + quoted + " --input 'x=" + dir.file("x.npy") + "' --output '" +
                          dir.file("out") + "'");
  CHECK(ran.code == 0);
  CHECK(nlohmann::json::parse(ran.out).at("outputs").at(0).at("type") == "float32[1, 2]");
  CHECK(load_npy(dir.file("out/y_z.npy")).to_vector<float>() == std::vector<float>{-1.5, 2});
  CHECK(test::contains(run("onnx run " + quoted + " --input x=ones --dim N=3").out,
                       "y/z float32[3, 2] -1 -1 -1 -1 -1 -1"));
  CHECK(nlohmann::json::parse(run("onnx bench --json -n 2 " + quoted).out).at("runs") == 2);
  // What fails is 1, what was not asked well is 2.
  CHECK(run("onnx run " + quoted).code == 1);
  CHECK(run("onnx run " + quoted + " --input nonsense").code == 2);
  CHECK(run("onnx run /no/such/file").code == 2);
  CHECK(run("onnx").code == 2);
  std::filesystem::create_directories(dir.path() / "case/test_data_set_0");
  std::filesystem::copy(file, dir.path() / "case/model.onnx");
  write_file_atomically(dir.file("case/test_data_set_0/input_0.pb"),
                        test::tensor("x", {1, 2}, std::vector<float>{1, 2}));
  for (const auto& [second, code] : std::initializer_list<std::pair<float, int>>{{-2.0F, 0}, {-3.0F, 1}}) {
    write_file_atomically(dir.file("case/test_data_set_0/output_0.pb"),
                          test::tensor("y", {1, 2}, std::vector<float>{-1, second}));
    const Outcome tested = run("onnx test --json '" + dir.file("case") + "'");
    CHECK(tested.code == code);
    const auto json = nlohmann::json::parse(tested.out);
    CHECK(json.at("total") == 1);
    CHECK(json.at("failed") == code);
    CHECK(json.at("failures").size() == static_cast<size_t>(code));
  }
}

TEST_CASE("knobs") { CHECK(run("knobs").out == knobs_help()); }

TEST_CASE("perplexity and eval of the embedded model") {
  test::TempDir dir;
  const std::string text = dir.file("text.txt"), questions = dir.file("questions.json");
  std::string words;
  for (int i = 0; i < 40; i++) words += "I was glad of it: I never liked long walks. ";
  write_file_atomically(text, words);
  const Outcome perplexity = run("perplexity --json --window 32 --windows 2 -f '" + text + "'");
  REQUIRE(perplexity.code == 0);
  const auto measured = nlohmann::json::parse(perplexity.out);
  CHECK(measured.at("windows") == 2);
  CHECK(measured.at("scored") == 2 * 15);
  CHECK(measured.at("perplexity") > 1);
  write_file_atomically(questions, R"({"prompt":"On the other","choices":["hand","was"],"answer":0})");
  const Outcome eval = run("eval --json -f '" + questions + "'");
  REQUIRE(eval.code == 0);
  CHECK(nlohmann::json::parse(eval.out).at("accuracy") == 1);
  write_file_atomically(questions, R"({"prompt":"On the other","choices":["hand"],"answer":0})");
  const Outcome wrong = run("eval -f '" + questions + "'");
  CHECK(wrong.code == 1);
  CHECK(test::contains(wrong.err, "item 1: has no \"choices\""));
}

TEST_CASE("the demo in one epoch") {
  test::TempDir dir;
  const std::string file = dir.file("digits.safetensors");
  const Outcome outcome = run("demo --epochs 1 --json --save '" + file + "'");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());  // the bar is for terminals
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json.at("test_digits") == 360);
  CHECK(json.at("test_accuracy").get<double>() > 0.5);
  CHECK(safe_load(file).size() == 6);
}

TEST_CASE("a traced run, its sums and its rewrites") {
  test::TempDir dir;
  const std::string file = dir.file("demo.trace"), quoted = "'" + file + "'";
  ::setenv("TRACE", file.c_str(), 1);
  const Outcome demo = run("demo --epochs 0 --json");
  ::unsetenv("TRACE");
  CHECK(demo.code == 0);

  const Outcome sums = run("trace --json " + quoted);
  CHECK(sums.code == 0);
  CHECK(sums.err.empty());
  const auto json = nlohmann::json::parse(sums.out);
  CHECK(json.at("complete") == true);
  CHECK(json.at("rewrites").get<int>() > 100);
  int lowered = 0, applied = 0, unused = 0;
  for (const auto& pass : json.at("passes"))
    lowered += pass.at("name") == "lower" ? pass.at("runs").get<int>() : 0;
  for (const auto& rule : json.at("rules")) (rule.at("rewrites") == 0 ? unused : applied)++;
  CHECK(lowered > 0);
  CHECK(applied > 10);
  CHECK(unused > 10);
  CHECK(test::contains(run("trace " + quoted).out, "rules never applied"));

  const auto& rule = json.at("rules").at(0);
  const std::string place =
      fmt::format("{}:{}", rule.at("file").get<std::string>(), rule.at("line").get<int>());
  CHECK(place.starts_with("src/"));
  CHECK(test::contains(run("trace " + quoted + " --rule " + place).out, " -> "));
  CHECK(test::contains(run("trace " + quoted + " --pass prepare --top 1").out, "more; --top"));
  const Outcome missing = run("trace " + quoted + " --pass nothing");
  CHECK(missing.code == 1);
  CHECK(test::contains(missing.err, "no pass nothing"));

  // As a crash would leave it.
  const std::string bytes = read_file(file);
  write_file_atomically(file, std::string_view(bytes).substr(0, bytes.size() / 2));
  const Outcome cut = run("trace --json " + quoted);
  CHECK(cut.code == 0);
  CHECK(test::contains(cut.err, "ends at byte"));
  CHECK(nlohmann::json::parse(cut.out).at("complete") == false);
  write_file_atomically(file, std::string_view("nonsense"));
  CHECK(run("trace " + quoted).code == 1);
}

TEST_CASE("a model is tuned once, unless Ctrl-C ends it") {
  test::TempDir dir;
  const std::string file = dir.file("m.onnx"), quoted = "'" + file + "'";
  write_file_atomically(
      file, test::model(test::input("x", 1, {96, 96}) + test::input("y", 1, {96, 96}) +
                        test::node("MatMul", {"x", "y"}, {"z"}) + test::output("z", 1, {96, 96})));
  ::setenv("CACHEDB", dir.file("k.db").c_str(), 1);
  const Outcome cancelled =
      run("tune --seconds 0 --beam 100 -n 2 " + quoted, "timeout --preserve-status -s INT 2");
  CHECK(cancelled.code == 1);
  CHECK(cancelled.err == "lathe: cancelled\n");
  ::setenv("CACHEDB", dir.file("other.db").c_str(), 1);
  for (const size_t searched : {1, 0}) {
    const Outcome outcome = run("tune --json --seconds 1 --beam 1 -n 2 " + quoted);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    const auto json = nlohmann::json::parse(outcome.out);
    REQUIRE(json.at("searched").size() == searched);
    CHECK(json.at("before_ms").get<double>() > 0);
    CHECK(json.at("after_ms").get<double>() > 0);
    if (!searched) continue;
    const auto& kernel = json.at("searched")[0];
    CHECK(kernel.at("after_us").get<double>() <= kernel.at("before_us").get<double>());
    CHECK(kernel.at("schedules").get<int>() > 2);
  }
  const Outcome text = run("tune -n 2 " + quoted);
  CHECK(test::contains(text.out, "0 of them searched"));
  CHECK(test::contains(text.out, "times as fast"));
  ::unsetenv("CACHEDB");
}

TEST_CASE("a profiled run, and one that Ctrl-C ends") {
  test::TempDir dir;
  const std::string file = dir.file("demo.json"), quoted = "'" + file + "'";
  ::setenv("PROFILE", file.c_str(), 1);
  const pid_t child = fork();
  if (child == 0) {
    for (const int output : {STDOUT_FILENO, STDERR_FILENO})
      ::dup2(::open(dir.file(output == STDOUT_FILENO ? "out" : "err").c_str(), O_WRONLY | O_CREAT, 0600),
             output);
    ::execl(LATHE_COMMAND, "lathe", "demo", "--epochs", "1000", nullptr);
    _exit(127);
  }
  ::unsetenv("PROFILE");
  const auto is_training = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
      if (entry.path().extension() == ".tmp" && test::contains(read_file(entry.path()), "\"replay\""))
        return true;
    return false;
  };
  while (!is_training()) {
    REQUIRE(::waitpid(child, nullptr, WNOHANG) == 0);
    ::usleep(20'000);
  }
  ::kill(child, SIGINT);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(read_file(dir.file("err")) == "lathe: cancelled\n");

  const Outcome outcome = run("profile --json " + quoted);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json.at("complete") == true);
  CHECK(json.at("host").at("compile").at("events").get<int>() > 10);
  const auto& kernels = json.at("kernels");
  CHECK(kernels.size() == 20);
  CHECK(json.at("distinct").get<size_t>() > 20);
  double share = 0, before = 1;
  for (const auto& k : kernels) {
    CHECK(k.at("share").get<double>() <= before);
    share += before = k.at("share").get<double>();
    CHECK(k.at("calls").get<int>() > 0);
    CHECK(k.at("ms").get<double>() > 0);
    CHECK((k.at("fma_fraction").is_number() || k.at("fma_fraction").is_null()));
    CHECK(k.at("read_fraction").is_number());
    CHECK(!k.at("buffers").empty());
  }
  CHECK(share > 0.5);
  CHECK(share <= 1.0001);
  CHECK(test::contains(run("profile --top 3 " + quoted).out, "more; --top"));

  // As a process that is killed would leave it.
  const std::string bytes = read_file(file);
  write_file_atomically(file, std::string_view(bytes).substr(0, bytes.size() / 2));
  const Outcome cut = run("profile --json " + quoted);
  CHECK(cut.code == 0);
  CHECK(test::contains(cut.err, "ends early"));
  CHECK(nlohmann::json::parse(cut.out).at("complete") == false);
  for (const char* wrong : {"", "nonsense", "{}", "[1]\n]\n", "[\n]\n", "[{\"ph\":\"X\"}\n]\n"}) {
    CAPTURE(wrong);
    write_file_atomically(file, std::string_view(wrong));
    const Outcome refused = run("profile " + quoted);
    CHECK(refused.code == 1);
    CHECK(test::contains(refused.err, "is no profile"));
  }
}
