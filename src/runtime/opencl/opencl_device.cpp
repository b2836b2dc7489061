#include "base/error.h"
#include "base/small_vec.h"
#include "renderer/cstyle.h"
#include "renderer/program.h"
#include "runtime/backends.h"
#include "runtime/opencl/driver.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <mutex>

namespace lathe {
namespace {

using namespace opencl;
using Sizes = std::array<size_t, 3>;

// One device of the driver and a queue of its own. Commands run in the order they are given.
struct Queue {
  Handle device, context, queue;
};

// GPUs of all platforms first.
std::vector<Handle> all_devices() {
  const Driver& cl = driver();
  uint32_t n = 0;
  cl.clGetPlatformIDs(0, nullptr, &n);
  std::vector<Handle> platforms(n), out;
  if (n) check(cl.clGetPlatformIDs(n, platforms.data(), nullptr), "clGetPlatformIDs");
  for (uint64_t type : {kDeviceGpu, kDeviceAny})
    for (Handle platform : platforms) {
      uint32_t count = 0;
      if (cl.clGetDeviceIDs(platform, type, 0, nullptr, &count) != 0) continue;  // none of this type
      std::vector<Handle> found(count);
      check(cl.clGetDeviceIDs(platform, type, count, found.data(), nullptr), "clGetDeviceIDs");
      for (Handle d : found)
        if (std::ranges::find(out, d) == out.end()) out.push_back(d);
    }
  if (out.empty()) device_error("no OpenCL driver: the library found has no device");
  return out;
}

Queue open_queue(Handle device) {
  const Driver& cl = driver();
  Code code = 0;
  Queue q{device, cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code), nullptr};
  check(code, "clCreateContext");
  q.queue = cl.clCreateCommandQueue(q.context, device, kQueueProfiling, &code);
  check(code, "clCreateCommandQueue");
  return q;
}

template <class T>
T device_info(Handle device, Name name) {
  T value{};
  check(driver().clGetDeviceInfo(device, name, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string device_text(Handle device, Name name) {
  size_t bytes = 0;
  check(driver().clGetDeviceInfo(device, name, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(driver().clGetDeviceInfo(device, name, bytes, text.data(), nullptr), "clGetDeviceInfo");
  return text.substr(0, text.find('\0'));
}

Target target_of(Handle device) {
  Target t = opencl_target();
  t.arch = device_text(device, kDeviceName);
  const auto items = device_info<Sizes>(device, kDeviceMaxItemSizes);
  for (size_t i = 0; i < 3; i++) t.work_groups->items[i] = static_cast<int64_t>(items[i]);
  t.work_groups->group_items = static_cast<int64_t>(device_info<size_t>(device, kDeviceMaxGroupItems));
  t.work_groups->local_bytes = static_cast<int64_t>(device_info<uint64_t>(device, kDeviceLocalBytes));
  if (!device_info<uint64_t>(device, kDeviceDoubleFp)) t.dtypes &= ~(1u << static_cast<int>(DType::Float64));
  return t;
}

class OpenClAllocator final : public Allocator {
 public:
  explicit OpenClAllocator(Queue queue) : queue_(queue) {}
  void* allocate(size_t bytes) override {
    Code code = 0;
    Handle memory = driver().clCreateBuffer(queue_.context, kMemReadWrite, bytes, nullptr, &code);
    for (Code full : {kMemObjectAllocationFailure, kOutOfResources, kOutOfHostMemory, kInvalidBufferSize})
      if (code == full) return nullptr;
    check(code, "clCreateBuffer");
    return memory;
  }
  // Commands that were given already keep it until they are done.
  void release(void* handle, size_t) noexcept override { driver().clReleaseMemObject(handle); }
  void copy_in(void* handle, size_t offset, std::span<const std::byte> from) override {
    check(driver().clEnqueueWriteBuffer(queue_.queue, handle, kBlocking, offset, from.size(), from.data(), 0,
                                        nullptr, nullptr),
          "clEnqueueWriteBuffer");
  }
  void copy_out(void* handle, size_t offset, std::span<std::byte> to) override {
    check(driver().clEnqueueReadBuffer(queue_.queue, handle, kBlocking, offset, to.size(), to.data(), 0,
                                       nullptr, nullptr),
          "clEnqueueReadBuffer");
  }
  void* host_pointer(void*) override {
    user_runtime_error("memory of an OpenCL device is not the host's: copy it with to(\"CPU\")");
  }
  bool is_host_visible() const override { return false; }

 private:
  static constexpr uint32_t kBlocking = 1;
  Queue queue_;
};

class OpenClProgram final : public Program {
 public:
  OpenClProgram(Queue queue, Handle program, const KernelSource& source) : queue_(queue), program_(program) {
    Code code = 0;
    kernel_ = driver().clCreateKernel(program, source.entry.c_str(), &code);
    check(code, "clCreateKernel");
    const Signature s = signature_of(source.linear);
    const auto written = written_buffers(source.linear);
    for (const UOp& b : s.buffers)
      buffers_.push_back({static_cast<size_t>(item_size(b.dtype())), written.contains(b.node())});
    for (const UOp& v : s.variables) variable_bytes_.push_back(static_cast<size_t>(item_size(v.dtype())));
    size_t items = 1;
    for (size_t i = 0; i < 3; i++) {
      const auto n = static_cast<size_t>(launch_extent(s.items[i]));
      total_[i] = static_cast<size_t>(launch_extent(s.groups[i])) * n;
      group_[i] = n;
      items *= n;
      is_grouped_ = is_grouped_ || s.items[i];
    }
    // The user's text says neither what it writes nor how many work items a group has.
    is_text_ = std::ranges::all_of(source.linear, [](const UOp& u) { return u.op() == Op::Param; });
    if (is_text_) is_grouped_ = true, group_ = {};
    check(driver().clGetKernelWorkGroupInfo(kernel_, queue.device, kKernelGroupItems, sizeof(most_items_),
                                            &most_items_, nullptr),
          "clGetKernelWorkGroupInfo");
    if (items > most_items_)
      device_error("a group of {} work items: this kernel runs with at most {}", items, most_items_);
  }
  ~OpenClProgram() override {
    driver().clReleaseKernel(kernel_);
    driver().clReleaseProgram(program_);
  }

  double run(std::span<Buffer* const> bufs, std::span<const int64_t> vars, int n_cores, bool wait) override {
    std::lock_guard lock(mutex_);  // arguments are kept in the kernel
    if (is_text_) total_[0] = static_cast<size_t>(n_cores);
    bind_all(bufs);
    for (size_t i = 0; i < vars.size(); i++) {
      const auto narrow = static_cast<int32_t>(vars[i]);
      const bool is_wide = variable_bytes_[i] == sizeof(int64_t);
      set_argument(2 * bufs.size() + i, variable_bytes_[i],
                   is_wide ? static_cast<const void*>(&vars[i]) : static_cast<const void*>(&narrow));
    }
    if (!is_grouped_) choose_group(bufs);
    return launch(wait);
  }

 private:
  struct Argument {
    size_t item_bytes;
    bool is_written;
  };

  void set_argument(size_t at, size_t bytes, const void* value) {
    check(driver().clSetKernelArg(kernel_, static_cast<uint32_t>(at), bytes, value), "clSetKernelArg");
  }

  void bind(size_t i, Handle memory, size_t offset) {
    const uint64_t start = offset / buffers_[i].item_bytes;
    set_argument(2 * i, sizeof(memory), &memory);
    set_argument(2 * i + 1, sizeof(start), &start);
  }
  void bind_all(std::span<Buffer* const> bufs) {
    for (size_t i = 0; i < bufs.size(); i++) bind(i, bufs[i]->handle(), bufs[i]->offset());
  }

  double launch(bool wait) const {
    const Driver& cl = driver();
    Handle event = nullptr;
    const bool is_chosen = group_[0] != 0;  // else the driver chooses
    check(cl.clEnqueueNDRangeKernel(queue_.queue, kernel_, 3, nullptr, total_.data(),
                                    is_chosen ? group_.data() : nullptr, 0, nullptr, wait ? &event : nullptr),
          "clEnqueueNDRangeKernel");
    if (!wait) return 0;
    uint64_t start = 0, end = 0;  // nanoseconds
    check(cl.clWaitForEvents(1, &event), "clWaitForEvents");
    cl.clGetEventProfilingInfo(event, kProfilingStart, sizeof(start), &start, nullptr);
    cl.clGetEventProfilingInfo(event, kProfilingEnd, sizeof(end), &end, nullptr);
    cl.clReleaseEvent(event);
    return static_cast<double>(end - start) * 1e-9;
  }

  void choose_group(std::span<Buffer* const> bufs) {
    is_grouped_ = true;
    try {
      try_groups(bufs);
    } catch (const DeviceError&) {
      group_ = {};  // no room for copies: the driver chooses
    }
    bind_all(bufs);
  }

  // The best number of work items a group where the program leaves it open, tried once over copies of what it
  // writes.
  void try_groups(std::span<Buffer* const> bufs) {
    std::vector<std::shared_ptr<Buffer>> copies;
    for (size_t i = 0; i < bufs.size(); i++) {
      if (!buffers_[i].is_written) continue;
      copies.push_back(Buffer::make(bufs[i]->device(), bufs[i]->size()));
      check(driver().clEnqueueCopyBuffer(queue_.queue, bufs[i]->handle(), copies.back()->handle(),
                                         bufs[i]->offset(), 0, bufs[i]->size(), 0, nullptr, nullptr),
            "clEnqueueCopyBuffer");
      bind(i, copies.back()->handle(), 0);
    }
    Sizes best{};
    double best_seconds = std::numeric_limits<double>::infinity();
    for (size_t n : {0, 16, 64, 256}) {  // 0: the driver chooses
      if (n > most_items_ || (n && total_[0] % n)) continue;
      group_ = {n, 1, 1};
      launch(true);  // drivers may compile for this number
      const double seconds = launch(true);
      if (seconds < best_seconds) best = group_;
      best_seconds = std::min(best_seconds, seconds);
    }
    group_ = best;
  }

  Queue queue_;
  Handle program_, kernel_;
  std::vector<Argument> buffers_;
  std::vector<size_t> variable_bytes_;
  Sizes total_{}, group_{};  // work items of the launch, and of one group
  bool is_grouped_ = false;  // group_ is settled
  bool is_text_ = false;     // of the user: as many work items as it asks for cores
  size_t most_items_ = 0;
  std::mutex mutex_;
};

// Drivers do not survive an exit while kernels run. After the first build, so that it comes before the
// destructors of what the driver loaded for it.
void finish_at_exit(Handle queue) {
  static std::mutex mutex;
  static auto* const queues = new std::vector<Handle>;
  std::lock_guard lock(mutex);
  if (std::ranges::find(*queues, queue) != queues->end()) return;
  queues->push_back(queue);
  [[maybe_unused]] static const int once = std::atexit([] {
    for (Handle q : *queues) driver().clFinish(q);
  });
}

class OpenClDevice final : public Device {
 public:
  OpenClDevice(std::string name, Queue queue)
      : Device(std::move(name), std::make_unique<OpenClAllocator>(queue)),
        queue_(queue),
        renderer_(target_of(queue.device), kOpenClDialect) {
    options_ = "-cl-std=CL1.2";
    if (device_info<uint64_t>(queue.device, kDeviceSingleFp) & kFpCorrectlyRoundedDivideSqrt)
      options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
  }

  const Target& target() const override { return renderer_.target(); }
  const Renderer* renderer() const override { return &renderer_; }
  void synchronize() override { check(driver().clFinish(queue_.queue), "clFinish"); }

  // Drivers keep what they compiled; the kernel cache has nothing to add.
  std::unique_ptr<Program> load(const KernelSource& kernel) override {
    if (kernel.is_binary) user_runtime_error("{} runs graphs and source, no binaries", name());
    const Driver& cl = driver();
    ErrorContext context([&] { return fmt::format("compiling {} for {}", kernel.entry, name()); });
    const char* text = kernel.source.c_str();
    Code code = 0;
    Handle program = cl.clCreateProgramWithSource(queue_.context, 1, &text, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    code = cl.clBuildProgram(program, 1, &queue_.device, options_.c_str(), nullptr, nullptr);
    if (code == 0) {
      finish_at_exit(queue_.queue);
      return std::make_unique<OpenClProgram>(queue_, program, kernel);
    }
    size_t bytes = 0;
    cl.clGetProgramBuildInfo(program, queue_.device, kProgramBuildLog, 0, nullptr, &bytes);
    std::string log(bytes, '\0');
    cl.clGetProgramBuildInfo(program, queue_.device, kProgramBuildLog, bytes, log.data(), nullptr);
    cl.clReleaseProgram(program);
    device_error("OpenCL: clBuildProgram failed with {}: {}", code, log.substr(0, log.find('\0')));
  }

 private:
  Queue queue_;
  CStyleRenderer renderer_;
  std::string options_;
};

}  // namespace

std::unique_ptr<Device> make_opencl_device(std::string name, std::string_view) {
  const std::vector<Handle> devices = all_devices();
  size_t index = 0;  // "CL" or "CL:1"
  const size_t at = name.find(':') + 1;
  if (at) std::from_chars(name.data() + at, name.data() + name.size(), index);
  return std::make_unique<OpenClDevice>(std::move(name), open_queue(devices[index % devices.size()]));
}

}  // namespace lathe
