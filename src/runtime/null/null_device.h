#pragma once
#include "runtime/device.h"

#include <memory>
#include <string>
#include <string_view>

namespace lathe {

// Renders like the CPU and counts memory, but allocates, compiles and runs nothing: kernel counts, memory
// plans and very large graphs in no time.
std::unique_ptr<Device> make_null_device(std::string name, std::string_view renderer);

}  // namespace lathe
