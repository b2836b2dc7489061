#pragma once
#include "base/error.h"

#include <cstdio>
#include <memory>
#include <string>

namespace lathe::command {

// The bytes of a file, or of standard input for "-".
inline std::string read_text(const std::string& path) {
  const auto close = [](std::FILE* file) {
    if (file != nullptr && file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> in(path == "-" ? stdin : std::fopen(path.c_str(), "rb"),
                                                       close);
  if (!in) user_runtime_error("cannot open {}", path);
  std::string out;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, in.get())) > 0;) out.append(buffer, n);
  if (std::ferror(in.get())) user_runtime_error("cannot read {}", path == "-" ? "standard input" : path);
  return out;
}

}  // namespace lathe::command
