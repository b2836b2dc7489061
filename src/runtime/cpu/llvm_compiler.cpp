#include "base/error.h"
#include "base/knobs.h"
#include "runtime/cpu/compilers.h"
#include "runtime/cpu/llvm_api.h"

#include <memory>
#include <string>
#include <tuple>

namespace lathe {
namespace {

// Counts up when the pipeline or the target options change, so that cached objects of the old ones are not
// used.
constexpr int kPipelineVersion = 2;

// Input arrives vectorised, unrolled and tiled, so level 1 cleans up and nothing more: promote allocas,
// simplify addresses, hoist invariants. Strength reduction of addresses is part of code generation.
const char* pipeline(int level) {
  static constexpr const char kLight[] =
      "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
      "loop-mssa(loop-rotate,licm),instcombine<no-verify-fixpoint>,simplifycfg)";
  switch (level) {
    case 0: return "function(sroa)";
    case 1: return kLight;
    case 2: return "default<O2>";
    default: return "default<O3>";
  }
}

template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, void (*)(T)>;

struct Diagnostics {
  const LlvmApi& api;
  std::string errors;
};

void on_diagnostic(LLVMDiagnosticInfoRef info, void* user) {
  auto* out = static_cast<Diagnostics*>(user);
  if (out->api.LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char* text = out->api.LLVMGetDiagInfoDescription(info);
  out->errors += text;
  out->errors += '\n';
  out->api.LLVMDisposeMessage(text);
}

// A message that LLVM allocated; freed once copied.
std::string take_message(const LlvmApi& api, char* message) {
  std::string text = message ? message : "no reason given";
  if (message) api.LLVMDisposeMessage(message);
  return text;
}

// Target machines hold caches that LLVM does not lock, so each thread keeps its own; building one costs about
// as much as compiling a tiny kernel.
struct ThreadMachines {
  LLVMTargetMachineRef by_level[4] = {};
  ~ThreadMachines() {
    for (LLVMTargetMachineRef machine : by_level)
      if (machine) llvm_api().LLVMDisposeTargetMachine(machine);
  }
};
thread_local ThreadMachines t_machines;

LLVMTargetMachineRef thread_target_machine(const LlvmApi& api, int level) {
  LLVMTargetMachineRef& machine = t_machines.by_level[level];
  if (machine) return machine;

  char* triple = api.LLVMGetDefaultTargetTriple();
  char* cpu = api.LLVMGetHostCPUName();
  char* features = api.LLVMGetHostCPUFeatures();
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  bool failed = api.LLVMGetTargetFromTriple(triple, &target, &message);
  if (!failed) {
    static constexpr LLVMCodeGenOptLevel kLevels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelDefault,
                                                      LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
    machine = api.LLVMCreateTargetMachine(target, triple, cpu, features, kLevels[level], LLVMRelocPIC,
                                          LLVMCodeModelSmall);
  }
  for (char* text : {triple, cpu, features}) api.LLVMDisposeMessage(text);
  if (!machine) device_error("LLVM has no target machine for this host: {}", take_message(api, message));
  return machine;
}

int optimisation_level() {
  int level = knob(Knob::LLVMOPT);
  if (level < 0 || level > 3) value_error("LLVMOPT is {}; it takes 0 to 3", level);
  return level;
}

LLVMModuleRef parse(const LlvmApi& api, LLVMContextRef context, std::string_view ir,
                    const Diagnostics& diagnostics) {
  const std::string text(ir);  // LLVM wants a terminating zero
  LLVMMemoryBufferRef buffer =
      api.LLVMCreateMemoryBufferWithMemoryRange(text.data(), text.size(), "kernel", true);
  LLVMModuleRef module = nullptr;
  char* message = nullptr;
  if (api.LLVMParseIRInContext(context, buffer, &module, &message))  // takes the buffer
    device_error("LLVM cannot parse the kernel: {}\n{}", take_message(api, message), diagnostics.errors);
  return module;
}

void optimise(const LlvmApi& api, LLVMModuleRef module, LLVMTargetMachineRef machine, int level) {
  Owned<LLVMPassBuilderOptionsRef> options(api.LLVMCreatePassBuilderOptions(),
                                           api.LLVMDisposePassBuilderOptions);
  if (LLVMErrorRef error = api.LLVMRunPasses(module, pipeline(level), machine, options.get())) {
    char* text = api.LLVMGetErrorMessage(error);
    std::string copy = text;
    api.LLVMDisposeErrorMessage(text);
    device_error("LLVM cannot optimise the kernel: {}", copy);
  }
}

std::string compile_in(const LlvmApi& api, LLVMContextRef context, std::string_view ir, int level,
                       const Diagnostics& diagnostics) {
  LLVMModuleRef module = parse(api, context, ir, diagnostics);
  LLVMTargetMachineRef machine = thread_target_machine(api, level);
  Owned<LLVMTargetDataRef> layout(api.LLVMCreateTargetDataLayout(machine), api.LLVMDisposeTargetData);
  api.LLVMSetModuleDataLayout(module, layout.get());
  char* message = nullptr;
  if (api.LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
    device_error("the kernel is not valid LLVM IR: {}", take_message(api, message));
  api.LLVMDisposeMessage(message);
  optimise(api, module, machine, level);

  LLVMMemoryBufferRef object = nullptr;
  message = nullptr;
  if (api.LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object))
    device_error("LLVM cannot emit the kernel: {}", take_message(api, message));
  std::string bytes(api.LLVMGetBufferStart(object), api.LLVMGetBufferSize(object));
  api.LLVMDisposeMemoryBuffer(object);
  if (!diagnostics.errors.empty()) device_error("LLVM cannot compile the kernel: {}", diagnostics.errors);
  return bytes;
}

}  // namespace

std::string compile_llvm(std::string_view ir) {
  const LlvmApi& api = llvm_api();
  const int level = optimisation_level();
  Owned<LLVMContextRef> context(api.LLVMContextCreate(), api.LLVMContextDispose);  // owns the module
  Diagnostics diagnostics{api, {}};
  // Without a handler LLVM prints the message and exits the process.
  api.LLVMContextSetDiagnosticHandler(context.get(), on_diagnostic, &diagnostics);
  try {
    return compile_in(api, context.get(), ir, level, diagnostics);
  } catch (const LlvmFatalError& error) {
    // Half-done objects: never to be used again, not even to free them.
    std::ignore = context.release();
    t_machines = {};
    device_error("LLVM cannot compile the kernel: {}", error.reason);
  }
}

std::string llvm_compiler_id() {
  return fmt::format("llvm19 v{} O{}", kPipelineVersion, optimisation_level());
}

}  // namespace lathe
