#include "base/clock.h"
#include "base/error.h"
#include "runtime/backends.h"
#include "runtime/interp/executor.h"
#include "uop/eval.h"

namespace lathe {
namespace {

// Every op that has a meaning on values, every type that has storage.
Target interp_target() {
  Target t;
  t.name = "interp";
  t.arch = "any";
  for (int i = 0; i < kNumOps; i++)
    if (has_eval(static_cast<Op>(i))) t.native_ops.insert(static_cast<Op>(i));
  for (int i = 0; i < kNumDTypes; i++)
    if (static_cast<DType>(i) != DType::Void && !is_weak(static_cast<DType>(i))) t.dtypes |= 1u << i;
  t.dots = all_dots();
  return t;
}

class InterpProgram final : public Program {
 public:
  explicit InterpProgram(const KernelSource& kernel) : code_(kernel.entry, kernel.linear) {}

  double run(std::span<Buffer* const> bufs, std::span<const int64_t> vars, int n_cores, bool wait) override {
    std::vector<std::span<std::byte>> memory;
    for (Buffer* buffer : bufs) memory.push_back({static_cast<std::byte*>(buffer->data()), buffer->size()});
    const double start = wait ? now_seconds() : 0;
    for (int core = 0; core < n_cores; core++) code_.run(memory, vars, core);
    return wait ? now_seconds() - start : 0;
  }

 private:
  interp::Code code_;
};

class InterpDevice final : public Device {
 public:
  explicit InterpDevice(std::string name)
      : Device(std::move(name), std::make_unique<HostAllocator>()), target_(interp_target()) {}

  const Target& target() const override { return target_; }
  std::unique_ptr<Program> load(const KernelSource& kernel) override {
    return std::make_unique<InterpProgram>(kernel);
  }

 private:
  Target target_;
};

}  // namespace

std::unique_ptr<Device> make_interp_device(std::string name, std::string_view) {
  return std::make_unique<InterpDevice>(std::move(name));
}

}  // namespace lathe
