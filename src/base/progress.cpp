#include "base/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>

namespace lathe {
namespace {

constexpr double kSecondsPerDraw = 0.1;
constexpr int kBarColumns = 24;

std::atomic<int> g_drawn{0};

int terminal_columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string time_text(double seconds) {
  auto whole = static_cast<std::int64_t>(std::min(seconds, 3.6e8));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

std::string rate_text(double rate) {
  if (rate >= 1e6) return fmt::format("{:.1f}M/s", rate / 1e6);
  if (rate >= 1e3) return fmt::format("{:.1f}k/s", rate / 1e3);
  return fmt::format("{:.1f}/s", rate);
}

// Cuts after `width` columns without splitting a UTF-8 sequence. Every code point counts as one column.
void cut_to_width(std::string& text, int width) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); i++) {
    bool starts_code_point = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts_code_point && columns++ == width) return text.resize(i);
  }
}

}  // namespace

Progress::Progress(std::string_view name, std::int64_t total)
    : name_(name), total_(total), active_(stderr_is_terminal()) {
  if (active_)
    start_ = now_seconds();
  else
    next_look_ = std::numeric_limits<std::int64_t>::max();
}

Progress::~Progress() { finish(); }

void Progress::look(std::int64_t done, std::string_view note) {
  if (!active_) return;
  double now = now_seconds();
  done_ = done;
  // About twenty looks per redraw at the present rate.
  double rate = static_cast<double>(done) / std::max(now - start_, 1e-9);
  next_look_ = done + 1 + static_cast<std::int64_t>(std::min(rate * kSecondsPerDraw / 20, 1e9));
  if (total_ > 0 && done < total_) next_look_ = std::min(next_look_, total_);
  if (now - last_draw_ < kSecondsPerDraw && done != total_) return;
  note_ = note;
  draw(now);
}

void Progress::draw(double now) {
  last_draw_ = now;
  if (!drawn_) {
    drawn_ = true;
    g_drawn.fetch_add(1);
  }
  std::string text = "\r\033[K" + line(name_, done_, total_, now - start_, note_, terminal_columns() - 1);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void Progress::finish() {
  if (!active_) return;
  active_ = false;
  next_look_ = std::numeric_limits<std::int64_t>::max();
  if (!drawn_) return;
  draw(now_seconds());
  std::fputc('\n', stderr);
  g_drawn.fetch_sub(1);
}

bool Progress::is_any_drawn() { return g_drawn.load(std::memory_order_relaxed) > 0; }

std::string Progress::line(std::string_view name, std::int64_t done, std::int64_t total, double seconds,
                           std::string_view note, int width) {
  double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  std::string text(name);
  if (total > 0) {
    double part = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    int filled = static_cast<int>(part * kBarColumns);
    text += fmt::format(" {:3.0f}% [", part * 100);
    for (int i = 0; i < kBarColumns; i++) text += i < filled ? '#' : '.';
    text += fmt::format("] {}/{}", done, total);
  } else {
    text += fmt::format(" {}", done);
  }
  text += fmt::format(" {} {}", rate_text(rate), time_text(seconds));
  if (total > done && done > 0)
    text += fmt::format(" left {}", time_text(static_cast<double>(total - done) / rate));
  if (!note.empty()) text += fmt::format(" {}", note);
  cut_to_width(text, width);
  return text;
}

}  // namespace lathe
