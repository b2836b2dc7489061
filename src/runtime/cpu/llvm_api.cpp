#include "runtime/cpu/llvm_api.h"

#include "base/error.h"
#include "base/knobs.h"

#include <dlfcn.h>

#include <string>

namespace lathe {
namespace {

#if defined(__x86_64__)
constexpr const char* kArchitecture = "X86";
#elif defined(__aarch64__)
constexpr const char* kArchitecture = "AArch64";
#else
#error "no LLVM target is named for this processor"
#endif

// LLVM's last resort before it aborts the process. Its frames carry unwind tables, so the exception passes;
// what they held is lost (see compile_llvm).
void throw_fatal(const char* reason) { throw LlvmFatalError{reason}; }

void* open_library() {
  std::string tried;
  const std::string& given = knob_str(Knob::LLVM_PATH);
  const char* const names[] = {given.c_str(), "libLLVM.so.19.1", "libLLVM-19.so", "libLLVM-19.so.1",
                               "/usr/lib/llvm-19/lib/libLLVM.so.19.1"};
  for (const char* name : names) {
    if (!*name) continue;
    // Local: another library in the process may bring an LLVM of its own (OpenCL drivers do).
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return handle;
    const char* reason = dlerror();
    tried += std::string("\n  ") + (reason ? reason : name);
  }
  device_error("cannot open LLVM 19; install libllvm19, name the file in LLVM_PATH, or use DEV=CPU:C:{}",
               tried);
}

LlvmApi load() {
  LlvmApi api;
  void* const handle = open_library();
#define LLVM_FUNCTION(name)                                              \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, #name)); \
  if (!api.name) device_error("the LLVM library found lacks " #name "; version 19 is needed");
#include "runtime/cpu/llvm_functions.def"
  for (const char* part : {"TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"}) {
    const std::string name = fmt::format("LLVMInitialize{}{}", kArchitecture, part);
    auto initialize = reinterpret_cast<void (*)()>(dlsym(handle, name.c_str()));
    if (!initialize)
      device_error("the LLVM library found lacks {}: it has no target for this processor", name);
    initialize();
  }
  api.LLVMInstallFatalErrorHandler(throw_fatal);
  return api;
}

}  // namespace

const LlvmApi& llvm_api() {
  // Never destroyed: kernels may be compiled while the process exits.
  static const auto* const api = new LlvmApi(load());
  return *api;
}

}  // namespace lathe
