// libOpenCL's API as far as it is used, opened on first use. Types and numbers are those of the OpenCL 1.2
// specification; no header of a vendor is needed to build.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lathe::opencl {

using Handle = void*;  // platforms, devices, contexts, queues, memory, programs, kernels
using Code = int32_t;  // 0 is success
using Name = uint32_t;

inline constexpr uint64_t kDeviceGpu = 1 << 2, kDeviceAny = 0xFFFFFFFF;
inline constexpr uint64_t kMemReadWrite = 1 << 0;
inline constexpr uint64_t kFpCorrectlyRoundedDivideSqrt = 1 << 7;
inline constexpr uint64_t kQueueProfiling = 1 << 1;
inline constexpr Name kDeviceMaxGroupItems = 0x1004, kDeviceMaxItemSizes = 0x1005, kDeviceLocalBytes = 0x1023,
                      kDeviceSingleFp = 0x101B, kDeviceName = 0x102B, kDeviceDoubleFp = 0x1032,
                      kProgramBuildLog = 0x1183, kKernelGroupItems = 0x11B0, kProfilingStart = 0x1282,
                      kProfilingEnd = 0x1283;
inline constexpr Code kMemObjectAllocationFailure = -4, kOutOfResources = -5, kOutOfHostMemory = -6,
                      kInvalidBufferSize = -61;

struct Driver {
#define OPENCL_CALL(name, parameters) Code(*name) parameters = nullptr;
#define OPENCL_FACTORY(name, parameters) Handle(*name) parameters = nullptr;
#include "runtime/opencl/driver_calls.def"
};

// Opens the library the first time. DeviceError "no OpenCL driver: …" where there is none.
const Driver& driver();

// DeviceError that names the call unless it succeeded.
void check(Code code, const char* call);

}  // namespace lathe::opencl
