// GPUs, and whatever else OpenCL drives.
#pragma once
#include "runtime/device.h"

#include <memory>
#include <string>
#include <string_view>

namespace lathe {

// "CL:n" is the driver's device number n, GPUs first; from its number of devices on they are counted anew,
// each with a queue and memory of its own. DeviceError "no OpenCL driver: …" where there is none.
std::unique_ptr<Device> make_opencl_device(std::string name, std::string_view renderer);

}  // namespace lathe
