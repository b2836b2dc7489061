#include "runtime/opencl/driver.h"

#include "base/error.h"

#include <dlfcn.h>

#include <string>

namespace lathe::opencl {
namespace {

Driver load() {
  Driver driver;
  void* library = nullptr;
  for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"})
    // Local: what drivers bring along (an LLVM of their own) is nobody else's.
    if (!library) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    device_error("no OpenCL driver: {}", reason ? reason : "libOpenCL.so.1 cannot be opened");
  }
#define OPENCL_CALL(name, parameters)                                           \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name)); \
  if (!driver.name) device_error("no OpenCL driver: the library found lacks " #name);
#define OPENCL_FACTORY OPENCL_CALL
#include "runtime/opencl/driver_calls.def"
  return driver;
}

}  // namespace

const Driver& driver() {
  static const auto* const loaded = new Driver(load());
  return *loaded;
}

void check(Code code, const char* call) {
  if (code != 0) device_error("OpenCL: {} failed with {}", call, code);
}

}  // namespace lathe::opencl
