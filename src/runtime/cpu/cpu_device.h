// The processor we run on.
#pragma once
#include "renderer/renderer.h"
#include "runtime/device.h"

#include <memory>
#include <string>
#include <string_view>

namespace lathe {

// Renders for this machine: "LLVM" or "C".
std::unique_ptr<Renderer> make_cpu_renderer(std::string_view renderer);

// Kernels are compiled once per machine and compiler and kept in the kernel cache as objects; a cached one is
// mapped without opening LLVM or starting a compiler.
std::unique_ptr<Device> make_cpu_device(std::string name, std::string_view renderer);

}  // namespace lathe
