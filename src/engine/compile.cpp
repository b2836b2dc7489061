#include "engine/compile.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/mmap.h"
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "engine/profile.h"
#include "uop/print.h"

#include <filesystem>
#include <mutex>
#include <unordered_map>

namespace lathe {
namespace {

// Everything that changes the program: the body, the device and the knobs that lowering reads.
Hash128 cache_key(const UOp& body, const Device& device) {
  std::string key = device.name();
  for (Knob k : {Knob::NOOPT, Knob::TRANSCENDENTAL, Knob::DISABLE_FAST_IDIV, Knob::CPU_COUNT, Knob::LLVMOPT})
    key += fmt::format(":{}", knob(k));
  for (Knob k : {Knob::PASS_OFF, Knob::DEFAULT_FLOAT, Knob::DEFAULT_INT, Knob::EMULATED_DTYPES})
    key += ":" + knob_str(k);
  return hash_text(key, body.hash());
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

std::shared_ptr<const CompiledKernel> compile(const UOp& body, Device& device) {
  if (!body.arg_as<KernelPtr>()->source.empty()) return load_given(body, device);
  const double start = now_seconds();
  const LoweredKernel lowered = lower(body, device.target());
  ErrorContext context(
      [&] { return fmt::format("compiling kernel {} for {}", lowered.name, device.name()); });
  KernelSource source{lowered.name, {}, lowered.linear, false};
  if (const Renderer* renderer = device.renderer()) {
    Rendered text = renderer->render(lowered.name, lowered.linear);
    source.source = std::move(text.source);
    source.entry = std::move(text.entry);
  }
  auto out = std::make_shared<CompiledKernel>();
  out->actions = print_actions(lowered.actions);
  show(lowered, out->actions, source.source);
  record(body, device, lowered.name, source);
  out->program = device.load(source);
  const Signature signature = signature_of(lowered.linear);
  for (const UOp& p : signature.buffers) out->slots.push_back(static_cast<int>(p.param().slot));
  for (const UOp& v : signature.variables) out->variables.push_back(v.param().name);
  out->name = lowered.name;
  out->colored_name = lowered.colored_name;
  out->n_cores = lowered.n_cores;
  out->work = lowered.work;
  out->compile_seconds = now_seconds() - start;
  if (is_profiling())
    profile_event("compile", "compile " + out->name, start, out->compile_seconds,
                  fmt::format(R"("device":{})", json_quoted(device.name())));
  return out;
}

}  // namespace

std::shared_ptr<const CompiledKernel> compile_kernel(const UOp& body, Device& device) {
  static std::mutex mutex;
  static std::unordered_map<Hash128, std::shared_ptr<const CompiledKernel>> cache;
  const Hash128 key = cache_key(body, device);
  {
    std::lock_guard lock(mutex);
    if (const auto it = cache.find(key); it != cache.end()) return it->second;
  }
  stop_if_cancelled();
  auto made = compile(body, device);
  std::lock_guard lock(mutex);
  count([](Counters& c) { c.compiled++; });
  return cache.emplace(key, std::move(made)).first->second;
}

}  // namespace lathe
