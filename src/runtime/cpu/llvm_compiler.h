// LLVM IR text to relocatable object bytes for this machine.
#pragma once
#include <string>
#include <string_view>

namespace lathe {

// Parses, optimises (LLVMOPT) and emits one module. Thread-safe: every call has a context of its own. A
// DeviceError holds LLVM's message and, for text that does not parse, the line it points at.
std::string compile_llvm(std::string_view ir);

// What besides the source decides the bytes, without opening LLVM: part of a kernel's cache key.
std::string llvm_compiler_id();

}  // namespace lathe
