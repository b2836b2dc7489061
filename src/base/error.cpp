#include "base/error.h"

#include <exception>

namespace lathe {

std::string_view to_string(UserError::Kind kind) {
  constexpr std::string_view kNames[] = {"value", "type", "index", "runtime", "overflow", "zero"};
  return kNames[static_cast<size_t>(kind)];
}

namespace detail {
namespace {
thread_local const ErrorFrame* t_innermost = nullptr;
}  // namespace

ErrorFrame::ErrorFrame(Describe describe) : describe_(describe), outer_(t_innermost) { t_innermost = this; }

ErrorFrame::~ErrorFrame() { t_innermost = outer_; }

std::string with_context(std::string text) {
  // Hidden while the frames speak: a frame whose description throws must not describe itself again.
  const ErrorFrame* innermost = std::exchange(t_innermost, nullptr);
  for (const ErrorFrame* frame = innermost; frame != nullptr; frame = frame->outer()) {
    try {
      text += "\n  while " + frame->describe();
    } catch (const std::exception& error) {
      text += fmt::format("\n  while (no description: {})", error.what());
    }
  }
  t_innermost = innermost;
  return text;
}

void throw_user_text(UserError::Kind kind, std::string text) {
  throw UserError(kind, with_context(std::move(text)));
}

void throw_device_text(std::string text) { throw DeviceError(with_context(std::move(text))); }

void check_failed_text(const char* file, int line, const char* condition, const std::string& text) {
  std::string message = fmt::format("{}:{}: check failed: {}", file, line, condition);
  if (!text.empty()) message += ": " + text;
  throw InternalError(with_context(std::move(message)));
}

}  // namespace detail
}  // namespace lathe
