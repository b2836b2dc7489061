#include "base/clock.h"
#include "base/error.h"
#include "base/small_vec.h"
#include "base/thread_pool.h"
#include "renderer/cstyle.h"
#include "renderer/llvm.h"
#include "runtime/backends.h"
#include "runtime/cpu/compilers.h"
#include "runtime/cpu/cpu_id.h"
#include "runtime/cpu/elf_loader.h"
#include "runtime/kernel_cache.h"

namespace lathe {
namespace {

// From text to an object, and what else the object depends on.
struct CpuCompiler {
  std::string (*compile)(std::string_view source);
  std::string (*id)();
};
constexpr CpuCompiler kLlvmCompiler{compile_llvm, llvm_compiler_id};
constexpr CpuCompiler kCCompiler{compile_c, c_compiler_id};

class CpuProgram final : public Program {
 public:
  CpuProgram(std::unique_ptr<LoadedObject> object, HostEntry entry)
      : object_(std::move(object)), entry_(entry) {}

  double run(std::span<Buffer* const> bufs, std::span<const int64_t> vars, int n_cores, bool wait) override {
    SmallVec<void*, 32> memory;
    for (Buffer* buffer : bufs) memory.push_back(buffer->data());
    const double start = wait ? now_seconds() : 0;
    if (n_cores == 1)
      entry_(memory.data(), vars.data(), 0);
    else
      thread_pool().run(n_cores, [&](int core) { entry_(memory.data(), vars.data(), core); });
    return wait ? now_seconds() - start : 0;
  }
  HostEntry host_entry() const override { return entry_; }

 private:
  std::unique_ptr<LoadedObject> object_;
  HostEntry entry_;
};

std::unique_ptr<Program> link(std::string_view object_bytes, const std::string& entry) {
  std::unique_ptr<LoadedObject> object = LoadedObject::load(object_bytes);
  const void* address = object->symbol(entry);
  if (!address) device_error("the compiled kernel does not define {}", entry);
  return std::make_unique<CpuProgram>(std::move(object),
                                      reinterpret_cast<HostEntry>(const_cast<void*>(address)));
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::string name, std::unique_ptr<Renderer> renderer, CpuCompiler compiler)
      : Device(std::move(name), std::make_unique<HostAllocator>()),
        renderer_(std::move(renderer)),
        compiler_(compiler) {}

  const Target& target() const override { return renderer_->target(); }
  const Renderer* renderer() const override { return renderer_.get(); }

  std::unique_ptr<Program> load(const KernelSource& kernel) override {
    ErrorContext context([&] { return fmt::format("compiling {} for {}", kernel.entry, name()); });
    if (kernel.is_binary) return link(kernel.source, kernel.entry);
    KernelCache* cache = kernel_cache();
    Hash128 key;
    if (cache) {
      key = hash_text(kernel.source, hash_text(compiler_.id(), cpu_id()));
      if (std::optional<std::string> object = cache->find(kTable, key)) {
        try {
          return link(*object, kernel.entry);
        } catch (const DeviceError&) {
          // An object of an older loader or a damaged one: compiled anew below.
        }
      }
    }
    std::string object = compiler_.compile(kernel.source);
    std::unique_ptr<Program> program = link(object, kernel.entry);
    if (cache) cache->store(kTable, key, object);
    return program;
  }

 private:
  static constexpr std::string_view kTable = "cpu object";
  std::unique_ptr<Renderer> renderer_;
  CpuCompiler compiler_;
};

}  // namespace

std::unique_ptr<Renderer> make_cpu_renderer(std::string_view renderer) {
  if (renderer == "C") return std::make_unique<CStyleRenderer>();
  CHECK(renderer == "LLVM", "no CPU renderer {}", renderer);
  return std::make_unique<LlvmRenderer>();
}

std::unique_ptr<Device> make_cpu_device(std::string name, std::string_view renderer) {
  return std::make_unique<CpuDevice>(std::move(name), make_cpu_renderer(renderer),
                                     renderer == "C" ? kCCompiler : kLlvmCompiler);
}

}  // namespace lathe
