#include "runtime/opencl/driver.h"

#include "base/error.h"

#include <dlfcn.h>

#include <string>

namespace lathe::opencl {
namespace {

struct Loaded {
  Driver driver;
  std::string error;
};

Loaded load() {
  Loaded out;
  void* library = nullptr;
  for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"})
    // Local: what drivers bring along (an LLVM of their own) is nobody else's.
    if (!library) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    out.error = fmt::format("no OpenCL driver: {}", reason ? reason : "libOpenCL.so.1 cannot be opened");
    return out;
  }
#define OPENCL_CALL(name, parameters)                                                   \
  out.driver.name = reinterpret_cast<decltype(out.driver.name)>(dlsym(library, #name)); \
  if (!out.driver.name) out.error = "no OpenCL driver: the library found lacks " #name;
#define OPENCL_FACTORY OPENCL_CALL
#include "runtime/opencl/driver_calls.def"
  return out;
}

}  // namespace

const Driver& driver() {
  static const Loaded* const loaded = new Loaded(load());
  if (!loaded->error.empty()) device_error("{}", loaded->error);
  return loaded->driver;
}

void check(Code code, const char* call) {
  if (code != 0) device_error("OpenCL: {} failed with {}", call, code);
}

}  // namespace lathe::opencl
