#include "engine/compile.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/mmap.h"
#include "base/thread_pool.h"
#include "codegen/actions.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "engine/profile.h"
#include "engine/tune.h"
#include "uop/print.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <unordered_map>

namespace lathe {
namespace {

// Everything that changes the program: the body, the device and the knobs.
Hash128 cache_key(const UOp& body, const Device& device) {
  return hash_text(fmt::format("{}:{}{}", device.name(), knob(Knob::BEAM) > 0, lowering_knobs()),
                   body.hash());
}

void show(const LoweredKernel& k, const std::string& actions, const std::string& source) {
  if (knob(Knob::DEBUG) >= 3 && !k.actions.empty()) debug_line("{}: {}", k.name, actions);
  if (knob(Knob::DEBUG) >= 4) debug_line("{}", source);
  if (knob(Knob::DEBUG) >= 5) debug_line("{}", print_list(k.linear));
}

// A file a kernel, named by the hash of its text, so that processes do not get into each other's way.
void record(const UOp& body, const Device& device, const std::string& name, const KernelSource& k) {
  const std::string& folder = knob_str(Knob::RECORD);
  if (folder.empty()) return;
  const std::string text = fmt::format("# kernel {} for {}\n{}# code\n{}", name, device.name(), print(body),
                                       k.source.empty() ? print_list(k.linear) : k.source);
  const std::string file = fmt::format("{}/{}.txt", folder, to_hex(hash_text(text)));
  if (!std::filesystem::exists(file)) write_file_atomically(file, text);
}

// A kernel that the user wrote in the language of the device, or compiled for it.
std::shared_ptr<const CompiledKernel> load_given(const UOp& body, Device& device) {
  const KernelArg& given = *body.arg_as<KernelPtr>();
  ErrorContext context([&] { return fmt::format("loading kernel {} for {}", given.name, device.name()); });
  if (!device.renderer()) user_runtime_error("{} runs graphs only, no source", device.name());
  if (knob(Knob::DEBUG) >= 4 && !given.is_binary) debug_line("{}", given.source);
  auto out = std::make_shared<CompiledKernel>();
  out->program =
      device.load({given.name, given.source, {body.srcs().begin(), body.srcs().end()}, given.is_binary});
  for (const UOp& p : body.srcs()) {
    out->slots.push_back(static_cast<int>(p.param().slot));
    out->work.bytes += static_cast<double>(prod(p.shape()).vmax() * item_size(p.dtype()));
  }
  out->name = out->colored_name = given.name;
  out->n_cores = given.n_cores;
  return out;
}

// Renders, compiles and loads; a trial without a word.
std::unique_ptr<CompiledKernel> load(const UOp& body, const LoweredKernel& lowered, Device& device,
                                     bool is_trial) {
  ErrorContext context(
      [&] { return fmt::format("compiling kernel {} for {}", lowered.name, device.name()); });
  KernelSource source{lowered.name, {}, lowered.linear, false};
  if (const Renderer* renderer = device.renderer()) {
    Rendered text = renderer->render(lowered.name, lowered.linear);
    source.source = std::move(text.source);
    source.entry = std::move(text.entry);
  }
  auto out = std::make_unique<CompiledKernel>();
  out->actions = print_actions(lowered.actions);
  if (!is_trial) {
    show(lowered, out->actions, source.source);
    record(body, device, lowered.name, source);
  }
  out->program = device.load(source);
  const Signature signature = signature_of(lowered.linear);
  for (const UOp& p : signature.buffers) out->slots.push_back(static_cast<int>(p.param().slot));
  for (const UOp& v : signature.variables) out->variables.push_back(v.param().name);
  out->name = lowered.name;
  out->colored_name = lowered.colored_name;
  out->n_cores = lowered.n_cores;
  out->work = lowered.work;
  return out;
}

// Under the schedule that a search found, where there is one. One that an older optimiser found may be
// illegal by now.
LoweredKernel lower_for(const UOp& body, Device& device) {
  if (const auto found = found_schedule(body, device)) {
    try {
      return lower(body, device.target(), &*found);
    } catch (const UserError& e) {
      log_warn_once(e.what(), "a schedule in the kernel cache is not used: {}", e.what());
    }
  }
  return lower(body, device.target());
}

std::shared_ptr<const CompiledKernel> compile(const UOp& body, Device& device) {
  if (!body.arg_as<KernelPtr>()->source.empty()) return load_given(body, device);
  const double start = now_seconds();
  auto out = load(body, lower_for(body, device), device, false);
  out->compile_seconds = now_seconds() - start;
  if (is_profiling())
    profile_event("compile", "compile " + out->name, start, out->compile_seconds,
                  fmt::format(R"("device":{})", json_quoted(device.name())));
  return out;
}

// What was compiled in this process.
class CompiledKernels {
 public:
  std::shared_ptr<const CompiledKernel> find(const Hash128& key) {
    std::lock_guard lock(mutex_);
    const auto it = kernels_.find(key);
    return it == kernels_.end() ? nullptr : it->second;
  }
  std::shared_ptr<const CompiledKernel> get(const Hash128& key, const KernelRequest& r) {
    if (auto found = find(key)) return found;
    stop_if_cancelled();
    auto made = compile(r.body, *r.device);
    std::lock_guard lock(mutex_);
    count([](Counters& c) { c.compiled++; });
    return kernels_.emplace(key, std::move(made)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Hash128, std::shared_ptr<const CompiledKernel>> kernels_;
};

// Reports of several kernels at a time would be in no order.
bool is_reporting() { return knob(Knob::DEBUG) >= 3 || knob(Knob::PASS_TIME); }

}  // namespace

std::string lowering_knobs() {
  std::string out;
  for (Knob k : {Knob::NOOPT, Knob::TRANSCENDENTAL, Knob::DISABLE_FAST_IDIV, Knob::CPU_COUNT, Knob::LLVMOPT,
                 Knob::DOT})
    out += fmt::format(":{}", knob(k));
  for (Knob k : {Knob::PASS_OFF, Knob::DEFAULT_FLOAT, Knob::DEFAULT_INT, Knob::EMULATED_DTYPES})
    out += ":" + knob_str(k);
  return out;
}

std::unique_ptr<CompiledKernel> try_compile(const UOp& body, Device& device,
                                            const std::vector<Action>& actions) {
  return load(body, lower(body, device.target(), &actions), device, true);
}

std::vector<std::shared_ptr<const CompiledKernel>> compile_kernels(std::span<const KernelRequest> requests) {
  static CompiledKernels cache;
  std::vector<std::shared_ptr<const CompiledKernel>> out;
  std::vector<Hash128> keys;
  std::unordered_map<Hash128, size_t> missing;  // the first request of each
  for (const KernelRequest& r : requests) {
    keys.push_back(cache_key(r.body, *r.device));
    out.push_back(cache.find(keys.back()));
    if (!out.back()) missing.emplace(keys.back(), keys.size() - 1);
  }
  std::vector<size_t> todo;
  for (const auto& [key, i] : missing) todo.push_back(i);
  std::ranges::sort(todo);
  for (const size_t i : todo) find_schedule(requests[i].body, *requests[i].device);
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  const int threads = is_reporting() ? 1 : std::min(cpu_count(), static_cast<int>(todo.size()));
  thread_pool().run(threads > 1 ? threads : 0, [&](int) {
    for (size_t i = 0; !stop && (i = next++) < todo.size();) {
      try {
        out[todo[i]] = cache.get(keys[todo[i]], requests[todo[i]]);
      } catch (const Cancelled&) {
        stop = true;
        throw;
      } catch (...) {
        stop = true;  // happens again below, on the thread that knows what all this is for
      }
    }
  });
  for (size_t i = 0; i < out.size(); i++)
    if (!out[i]) out[i] = cache.get(keys[i], requests[i]);
  return out;
}

}  // namespace lathe
