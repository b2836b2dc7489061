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

// F(name, parameters), each returning a Code unless the name is in the second list.
#define LATHE_OPENCL_CALLS(F)                                                                                \
  F(clGetPlatformIDs, (uint32_t, Handle*, uint32_t*))                                                        \
  F(clGetDeviceIDs, (Handle, uint64_t, uint32_t, Handle*, uint32_t*))                                        \
  F(clGetDeviceInfo, (Handle, Name, size_t, void*, size_t*))                                                 \
  F(clBuildProgram, (Handle, uint32_t, const Handle*, const char*, void (*)(Handle, void*), void*))          \
  F(clGetProgramBuildInfo, (Handle, Handle, Name, size_t, void*, size_t*))                                   \
  F(clReleaseProgram, (Handle))                                                                              \
  F(clGetKernelWorkGroupInfo, (Handle, Handle, Name, size_t, void*, size_t*))                                \
  F(clSetKernelArg, (Handle, uint32_t, size_t, const void*))                                                 \
  F(clReleaseKernel, (Handle))                                                                               \
  F(clReleaseMemObject, (Handle))                                                                            \
  F(clEnqueueReadBuffer,                                                                                     \
    (Handle, Handle, uint32_t, size_t, size_t, void*, uint32_t, const Handle*, Handle*))                     \
  F(clEnqueueWriteBuffer,                                                                                    \
    (Handle, Handle, uint32_t, size_t, size_t, const void*, uint32_t, const Handle*, Handle*))               \
  F(clEnqueueCopyBuffer, (Handle, Handle, Handle, size_t, size_t, size_t, uint32_t, const Handle*, Handle*)) \
  F(clEnqueueNDRangeKernel, (Handle, Handle, uint32_t, const size_t*, const size_t*, const size_t*,          \
                             uint32_t, const Handle*, Handle*))                                              \
  F(clWaitForEvents, (uint32_t, const Handle*))                                                              \
  F(clGetEventProfilingInfo, (Handle, Name, size_t, void*, size_t*))                                         \
  F(clReleaseEvent, (Handle))                                                                                \
  F(clFinish, (Handle))
#define LATHE_OPENCL_FACTORIES(F)                                                       \
  F(clCreateContext, (const intptr_t*, uint32_t, const Handle*,                         \
                      void (*)(const char*, const void*, size_t, void*), void*, Code*)) \
  F(clCreateCommandQueue, (Handle, Handle, uint64_t, Code*))                            \
  F(clCreateBuffer, (Handle, uint64_t, size_t, void*, Code*))                           \
  F(clCreateProgramWithSource, (Handle, uint32_t, const char**, const size_t*, Code*))  \
  F(clCreateKernel, (Handle, const char*, Code*))

struct Driver {
#define LATHE_OPENCL_MEMBER(name, parameters) Code(*name) parameters = nullptr;
  LATHE_OPENCL_CALLS(LATHE_OPENCL_MEMBER)
#undef LATHE_OPENCL_MEMBER
#define LATHE_OPENCL_MEMBER(name, parameters) Handle(*name) parameters = nullptr;
  LATHE_OPENCL_FACTORIES(LATHE_OPENCL_MEMBER)
#undef LATHE_OPENCL_MEMBER
};

// Opens the library the first time. DeviceError "no OpenCL driver: …" where there is none; the outcome is
// kept for the life of the process.
const Driver& driver();

// DeviceError that names the call unless it succeeded.
void check(Code code, const char* call);

}  // namespace lathe::opencl
