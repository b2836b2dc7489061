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

// The functions used, and nothing else: headers give the types, dlsym the addresses.
#define LATHE_LLVM_FUNCTIONS(F)                 \
  F(LLVMContextCreate)                          \
  F(LLVMContextDispose)                         \
  F(LLVMContextSetDiagnosticHandler)            \
  F(LLVMInstallFatalErrorHandler)               \
  F(LLVMGetDiagInfoDescription)                 \
  F(LLVMGetDiagInfoSeverity)                    \
  F(LLVMCreateMemoryBufferWithMemoryRange)      \
  F(LLVMParseIRInContext)                       \
  F(LLVMVerifyModule)                           \
  F(LLVMDisposeModule)                          \
  F(LLVMSetTarget)                              \
  F(LLVMSetModuleDataLayout)                    \
  F(LLVMDisposeMessage)                         \
  F(LLVMGetDefaultTargetTriple)                 \
  F(LLVMGetTargetFromTriple)                    \
  F(LLVMGetHostCPUName)                         \
  F(LLVMGetHostCPUFeatures)                     \
  F(LLVMCreateTargetMachine)                    \
  F(LLVMDisposeTargetMachine)                   \
  F(LLVMCreateTargetDataLayout)                 \
  F(LLVMDisposeTargetData)                      \
  F(LLVMTargetMachineEmitToMemoryBuffer)        \
  F(LLVMGetBufferStart)                         \
  F(LLVMGetBufferSize)                          \
  F(LLVMDisposeMemoryBuffer)                    \
  F(LLVMCreatePassBuilderOptions)               \
  F(LLVMDisposePassBuilderOptions)              \
  F(LLVMPassBuilderOptionsSetLoopUnrolling)     \
  F(LLVMPassBuilderOptionsSetLoopVectorization) \
  F(LLVMPassBuilderOptionsSetSLPVectorization)  \
  F(LLVMRunPasses)                              \
  F(LLVMGetErrorMessage)                        \
  F(LLVMDisposeErrorMessage)

// What LLVM throws at compile_llvm instead of aborting. Objects that LLVM was working on must be left as they
// are.
struct LlvmFatalError {
  std::string reason;
};

struct LlvmApi {
#define LATHE_LLVM_MEMBER(name) decltype(&::name) name = nullptr;
  LATHE_LLVM_FUNCTIONS(LATHE_LLVM_MEMBER)
#undef LATHE_LLVM_MEMBER
};

// Opens the library and registers the host target the first time. A DeviceError says which names were tried;
// the outcome, good or bad, is kept for the life of the process.
const LlvmApi& llvm_api();

}  // namespace lathe
