// Source text to relocatable object bytes for this machine.
#pragma once
#include <string>
#include <string_view>

namespace lathe {

// ---- C, through a system compiler
// Runs $CC (words separated by blanks; no shell sees them) on the source. A DeviceError holds the command and
// what the compiler printed. Thread-safe.
std::string compile_c(std::string_view source);

// Names the compiler's file by path, size and time, so that an upgraded compiler is not served old objects;
// no process is started.
std::string c_compiler_id();

// ---- LLVM IR
// Parses, optimises (LLVMOPT) and emits one module. Thread-safe: every call has a context of its own. A
// DeviceError holds LLVM's message and, for text that does not parse, the line it points at.
std::string compile_llvm(std::string_view ir);

// What besides the source decides the bytes, without opening LLVM: part of a kernel's cache key.
std::string llvm_compiler_id();

}  // namespace lathe
