#pragma once
#include "runtime/device.h"

#include <memory>
#include <string>
#include <string_view>

namespace lathe {

// Runs linear programs value by value with the reference ALU: what every backend must agree with.
std::unique_ptr<Device> make_interp_device(std::string name, std::string_view renderer);

}  // namespace lathe
