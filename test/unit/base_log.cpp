#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"

#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

// Collects what is logged as long as it lives.
class Capture {
 public:
  Capture() {
    before_ =
        set_log_sink([this](LogLevel level, std::string_view text) { lines.emplace_back(level, text); });
  }
  ~Capture() { set_log_sink(std::move(before_)); }
  std::vector<std::pair<LogLevel, std::string>> lines;

 private:
  LogSink before_;
};

}  // namespace

TEST_CASE("lines reach the sink with their level") {
  Capture capture;
  log_info("a {}", 1);
  log_warn("b");
  log_error("c {}", "x");
  debug_line("d");
  REQUIRE(capture.lines.size() == 4);
  CHECK(capture.lines[0] == std::pair(LogLevel::Info, std::string("a 1")));
  CHECK(capture.lines[1].first == LogLevel::Warn);
  CHECK(capture.lines[2] == std::pair(LogLevel::Error, std::string("c x")));
  CHECK(capture.lines[3].first == LogLevel::Debug);
}

TEST_CASE("a warning is given once a key") {
  Capture capture;
  for (int i = 0; i < 3; i++) log_warn_once("base_log test", "try {}", i);
  log_warn_once("base_log other", "other");
  REQUIRE(capture.lines.size() == 2);
  CHECK(capture.lines[0].second == "try 0");
}

TEST_CASE("a sink may log and may replace itself") {
  std::vector<std::string> lines;
  LogSink before = set_log_sink([&](LogLevel, std::string_view text) {
    lines.emplace_back(text);
    if (text == "first") log_info("second");
    if (text == "second") set_log_sink({});
  });
  log_info("first");
  CHECK(lines == std::vector<std::string>{"first", "second"});
  set_log_sink(std::move(before));
}

TEST_CASE("colours are for terminals") {
  if (stderr_is_terminal()) return test::skip("stderr is a terminal");
  CHECK(colored("text", Color::Red) == "text");
}

TEST_CASE("a progress line shows count, rate and time left") {
  CHECK(Progress::line("train", 50, 200, 10, "loss 0.12", 200) ==
        "train  25% [######..................] 50/200 5.0/s 00:10 left 00:30 loss 0.12");
  CHECK(Progress::line("load", 4000, 0, 2, "", 200) == "load 4000 2.0k/s 00:02");
  CHECK(Progress::line("load", 3, 3, 7300, "", 200) ==
        "load 100% [########################] 3/3 0.0/s 2:01:40");
  CHECK(Progress::line("train", 50, 200, 10, "", 8) == "train  2");
  CHECK(Progress::line("\u00e9\u00e9\u00e9", 0, 0, 1, "", 2) == "\u00e9\u00e9");
}

TEST_CASE("an update that draws nothing is cheap") {
  constexpr int kUpdates = 1'000'000;
  Progress bar("updates", kUpdates);
  double start = now_seconds();
  for (int i = 1; i <= kUpdates; i++) bar.update(i, "note");
  bar.finish();
  // The aim is 50 ns; sanitizers and loaded machines get tenfold.
  CHECK((now_seconds() - start) / kUpdates < 500e-9);
  CHECK(!Progress::is_any_drawn());
}
