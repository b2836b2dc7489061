// The backends, by the kind of device that they make.
#pragma once
#include "renderer/renderer.h"
#include "runtime/device.h"

namespace lathe {

// Renders for this machine: "LLVM" or "C".
std::unique_ptr<Renderer> make_cpu_renderer(std::string_view renderer);

// Kernels are compiled once per machine and compiler and kept in the kernel cache as objects; a cached one is
// mapped without opening LLVM or starting a compiler.
std::unique_ptr<Device> make_cpu_device(std::string name, std::string_view renderer);

// Runs linear programs value by value with the reference ALU: what every backend must agree with.
std::unique_ptr<Device> make_interp_device(std::string name, std::string_view renderer);

// Renders like the CPU and counts memory, but allocates, compiles and runs nothing: kernel counts, memory
// plans and very large graphs in no time.
std::unique_ptr<Device> make_null_device(std::string name, std::string_view renderer);

// "CL:n" is the driver's device number n, GPUs first; from its number of devices on they are counted anew,
// each with a queue and memory of its own. DeviceError "no OpenCL driver: …" where there is none.
std::unique_ptr<Device> make_opencl_device(std::string name, std::string_view renderer);

}  // namespace lathe
