// Lines that a user types.
#pragma once
#include <optional>
#include <string>

namespace lathe::command {

// Reads lines from standard input: with editing and a history at a terminal, plainly otherwise.
class LineReader {
 public:
  LineReader();
  bool is_terminal() const { return is_terminal_; }
  // Without its end; nothing at the end of the input. The prompt is shown at a terminal only.
  std::optional<std::string> read(const char* prompt);

 private:
  bool is_terminal_;
};

}  // namespace lathe::command
