#include "lathe/line_reader.h"

#include <editline/readline.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>

namespace lathe::command {

LineReader::LineReader() : is_terminal_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
  if (!is_terminal_) return;
  std::setlocale(LC_CTYPE, "");  // how many bytes and columns a character has
  using_history();
}

std::optional<std::string> LineReader::read(const char* prompt) {
  if (!is_terminal_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  char* typed = readline(prompt);
  if (!typed) return std::nullopt;
  std::string line = typed;
  std::free(typed);
  if (!line.empty()) add_history(line.c_str());
  return line;
}

}  // namespace lathe::command
