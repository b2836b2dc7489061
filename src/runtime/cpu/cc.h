// C source to relocatable object bytes through a system compiler.
#pragma once
#include <string>
#include <string_view>

namespace lathe {

// Runs $CC (words separated by blanks; no shell sees them) on the source. A DeviceError holds the command and
// what the compiler printed. Thread-safe.
std::string compile_c(std::string_view source);

// Names the compiler's file by path, size and time, so that an upgraded compiler is not served old objects;
// no process is started.
std::string c_compiler_id();

}  // namespace lathe
