#include "base/error.h"
#include "base/knobs.h"
#include "renderer/cstyle.h"
#include "runtime/backends.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr double kProgramSeconds = 1e-3;

class NullAllocator final : public Allocator {
 public:
  void* allocate(size_t) override { return this; }  // any address that is not null
  void release(void*, size_t) noexcept override {}
  void copy_in(void*, size_t, std::span<const std::byte>) override {}
  void copy_out(void*, size_t, std::span<std::byte> to) override {
    if (knob(Knob::NULL_ALLOW_COPYOUT) == 0) user_runtime_error("no copyout on NULL");
    std::ranges::fill(to, std::byte{0});
  }
  void* host_pointer(void*) override { user_runtime_error("no copyout on NULL: its buffers have no memory"); }
  bool is_host_visible() const override { return false; }
  bool has_memory() const override { return false; }
};

class NullProgram final : public Program {
 public:
  double run(std::span<Buffer* const> bufs, std::span<const int64_t>, int, bool) override {
    for (Buffer* buffer : bufs) buffer->allocate();
    return kProgramSeconds;
  }
};

class NullDevice final : public Device {
 public:
  NullDevice(std::string name, std::unique_ptr<Renderer> renderer)
      : Device(std::move(name), std::make_unique<NullAllocator>()), renderer_(std::move(renderer)) {}

  const Target& target() const override { return renderer_->target(); }
  const Renderer* renderer() const override { return renderer_.get(); }
  std::unique_ptr<Program> load(const KernelSource&) override { return std::make_unique<NullProgram>(); }

 private:
  std::unique_ptr<Renderer> renderer_;
};

}  // namespace

std::unique_ptr<Device> make_null_device(std::string name, std::string_view renderer) {
  return std::make_unique<NullDevice>(std::move(name),
                                      renderer == "OPENCL"
                                          ? std::make_unique<CStyleRenderer>(opencl_target(), kOpenClDialect)
                                          : make_cpu_renderer(renderer));
}

}  // namespace lathe
