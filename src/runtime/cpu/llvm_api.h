// libLLVM's C API, opened on first use: a process that finds all its kernels in the cache never maps the
// library.
#pragma once
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <string>

namespace lathe {

// What LLVM throws at compile_llvm instead of aborting. Objects that LLVM was working on must be left as they
// are.
struct LlvmFatalError {
  std::string reason;
};

struct LlvmApi {
#define LLVM_FUNCTION(name) decltype(&::name) name = nullptr;
#include "runtime/cpu/llvm_functions.def"
};

// Opens the library and registers the host target the first time. A DeviceError says which names were tried.
const LlvmApi& llvm_api();

}  // namespace lathe
