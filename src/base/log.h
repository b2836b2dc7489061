#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

enum class LogLevel { Debug, Info, Warn, Error };
enum class Color { Red, Green, Yellow, Blue, Magenta, Cyan, White, Gray, Bold };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// All output of the library goes here, a line at a time without its newline, never two calls at once. An
// empty function restores the default, which writes to stderr. Returns the sink it replaces (empty: the
// default).
LogSink set_log_sink(LogSink sink);

void log_text(LogLevel level, std::string_view line);

// True the first time a key is seen in this process.
bool first_time(std::string_view key);

template <class... T>
void log_info(fmt::format_string<T...> format, T&&... args) {
  log_text(LogLevel::Info, fmt::format(format, std::forward<T>(args)...));
}

template <class... T>
void log_warn(fmt::format_string<T...> format, T&&... args) {
  log_text(LogLevel::Warn, fmt::format(format, std::forward<T>(args)...));
}

template <class... T>
void log_error(fmt::format_string<T...> format, T&&... args) {
  log_text(LogLevel::Error, fmt::format(format, std::forward<T>(args)...));
}

template <class... T>
void log_warn_once(std::string_view key, fmt::format_string<T...> format, T&&... args) {
  if (first_time(key)) log_text(LogLevel::Warn, fmt::format(format, std::forward<T>(args)...));
}

// A line of DEBUG output. The caller tests the knob, so that nothing is formatted in vain.
template <class... T>
void debug_line(fmt::format_string<T...> format, T&&... args) {
  log_text(LogLevel::Debug, fmt::format(format, std::forward<T>(args)...));
}

bool stderr_is_terminal();

// `text` in a colour; `text` itself where stderr is not a terminal or NO_COLOR is set.
std::string colored(std::string_view text, Color color);

}  // namespace lathe
