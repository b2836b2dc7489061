// Whether tests can run on an OpenCL device here.
#pragma once
#include "runtime/device.h"

#include "support/test.h"

namespace lathe::test {

// False, and the test case counts as skipped, where there is none.
inline bool has_opencl() {
  try {
    device("CL");
    return true;
  } catch (const DeviceError& error) {
    skip(error.what());
    return false;
  }
}

}  // namespace lathe::test
