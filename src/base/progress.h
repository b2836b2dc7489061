#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

// A bar on stderr with rate and time left; silent where stderr is not a terminal. At most about ten redraws a
// second, and an update that draws nothing costs a comparison.
class Progress {
 public:
  // A total of 0 is unknown: counts and rate are shown, no bar.
  Progress(std::string_view name, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` items are finished; `note` is shown after the bar.
  void update(std::int64_t done, std::string_view note = {}) {
    if (done >= next_look_) look(done, note);
  }
  // Draws the last state and ends the line. The destructor does it too.
  void finish();

  // Whether a bar stands on the last line of the terminal, so that a log line has to clear it.
  static bool is_any_drawn();

  // The text of the bar, without control codes, at most `width` columns.
  static std::string line(std::string_view name, std::int64_t done, std::int64_t total, double seconds,
                          std::string_view note, int width);

 private:
  void look(std::int64_t done, std::string_view note);
  void draw(double now);

  std::string name_;
  std::string note_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  std::int64_t next_look_ = 0;  // the clock is not read before this many items
  double start_ = 0;
  double last_draw_ = 0;
  bool active_ = false;
  bool drawn_ = false;
};

}  // namespace lathe
