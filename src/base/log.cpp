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

std::string_view prefix(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
    case LogLevel::Info: return "";
    case LogLevel::Warn: return "warning: ";
    case LogLevel::Error: return "error: ";
  }
  return "";
}

void write_to_stderr(LogLevel level, std::string_view line) {
  std::string_view head = prefix(level);
  std::string out;
  if (Progress::is_any_drawn()) out = "\r\033[K";
  out += head.empty() ? std::string() : colored(head, level == LogLevel::Error ? Color::Red : Color::Yellow);
  out += line;
  out += '\n';
  std::fwrite(out.data(), 1, out.size(), stderr);
}

std::string_view code(Color color) {
  switch (color) {
    case Color::Red: return "\033[31m";
    case Color::Green: return "\033[32m";
    case Color::Yellow: return "\033[33m";
    case Color::Blue: return "\033[34m";
    case Color::Magenta: return "\033[35m";
    case Color::Cyan: return "\033[36m";
    case Color::White: return "\033[37m";
    case Color::Gray: return "\033[90m";
    case Color::Bold: return "\033[1m";
  }
  return "";
}

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
  return fmt::format("{}{}\033[0m", code(color), text);
}

}  // namespace lathe
