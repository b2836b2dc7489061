#pragma once
#include "base/mmap.h"

#include <iostream>
#include <iterator>
#include <string>

namespace lathe::command {

// The bytes of a file, or of standard input for "-".
inline std::string read_text(const std::string& path) {
  return path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
}

}  // namespace lathe::command
