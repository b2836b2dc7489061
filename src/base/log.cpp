#include "base/log.h"

#include "base/knobs.h"
#include "base/progress.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>

namespace lathe {
namespace {

// Never destroyed: a destructor of a static object may still log.
struct LogState {
  std::recursive_mutex mutex;  // a sink may log
  LogSink sink;
  std::set<std::string, std::less<>> seen;
};

LogState& state() {
  static auto* log_state = new LogState;
  return *log_state;
}

void write_to_stderr(LogLevel level, std::string_view line) {
  std::string out;
  if (Progress::is_any_drawn()) out = "\r\033[K";
  if (level == LogLevel::Warn) out += colored("warning: ", Color::Yellow);
  if (level == LogLevel::Error) out += colored("error: ", Color::Red);
  out += line;
  out += '\n';
  std::fwrite(out.data(), 1, out.size(), stderr);
}

// In the order of Color.
constexpr std::string_view kCodes[] = {"\033[31m", "\033[32m", "\033[33m", "\033[34m", "\033[35m",
                                       "\033[36m", "\033[37m", "\033[90m", "\033[1m"};
static_assert(static_cast<size_t>(Color::Bold) + 1 == std::size(kCodes));

}  // namespace

LogSink set_log_sink(LogSink sink) {
  std::lock_guard lock(state().mutex);
  return std::exchange(state().sink, std::move(sink));
}

void log_text(LogLevel level, std::string_view line) {
  std::lock_guard lock(state().mutex);
  // A copy, because the sink may replace itself.
  if (LogSink sink = state().sink) return sink(level, line);
  write_to_stderr(level, line);
}

bool first_time(std::string_view key) {
  std::lock_guard lock(state().mutex);
  return state().seen.emplace(key).second;
}

bool stderr_is_terminal() {
  static const bool is_terminal = isatty(STDERR_FILENO) != 0;
  return is_terminal;
}

std::string colored(std::string_view text, Color color) {
  if (!stderr_is_terminal() || !knob_str(Knob::NO_COLOR).empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", kCodes[static_cast<size_t>(color)], text);
}

}  // namespace lathe
