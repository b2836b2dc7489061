#include "lathe/cpu_limits.h"

#include "base/knobs.h"
#include "base/thread_pool.h"
#include "renderer/target.h"
#include "runtime/cpu/cpu_id.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace lathe {
namespace {

constexpr std::string_view kTable = "cpu limits";
// The best of many short runs counts: others may use the machine.
constexpr double kRunSeconds = 4e-3;
constexpr int kRuns = 20;
// Chains of multiply-adds side by side: two a cycle that take four or five cycles, with all values in the 16
// registers of the older instruction sets.
constexpr int kChains = 12;
constexpr int kStreams = 8;  // vectors in flight of one thread that reads
constexpr int64_t kCoreBytes = 4096;
constexpr int64_t kLeastRead = int64_t{256} << 20, kMostRead = int64_t{1} << 30;

// One step of a chain: acc = function(acc, x, x), as LLVM names it.
struct Step {
  std::string type, operand, function;  // of acc, of x
  double flops;
};

std::optional<Step> step_for(std::string_view dtype, const Target& t) {
  const auto fma = [&](std::string_view element, int bits) {
    const int lanes = t.vector_bits / bits;
    const std::string type = fmt::format("<{} x {}>", lanes, element);
    return Step{type, type, fmt::format("llvm.fma.v{}f{}", lanes, bits), 2.0 * lanes};
  };
  if (dtype == "float32" && t.has_fma) return fma("float", 32);
  if (dtype == "float64" && t.has_fma) return fma("double", 64);
#if defined(__x86_64__)
  if (dtype == "bfloat16" && __builtin_cpu_supports("avx512bf16"))
    return Step{"<16 x float>", "<32 x bfloat>", "llvm.x86.avx512bf16.dpbf16ps.512", 2 * 32};
  if (dtype == "int8" && __builtin_cpu_supports("avx512vnni"))
    return Step{"<16 x i32>", "<16 x i32>", "llvm.x86.avx512.vpdpbusd.512", 2 * 64};
#endif
  return std::nullopt;
}

// `n` passes of a loop over values %a0 … that start as what lies in the core's part of the buffer, 64 bytes
// each, and end there. `before` runs once; `each(i)` is the instruction that makes %b<i> of %a<i>.
template <class F>
std::string loop_text(int n, std::string_view type, std::string_view before, std::string_view declaration,
                      F&& each) {
  std::string first, phis, body, last;
  for (int i = 0; i < n; i++) {
    first += fmt::format(
        "  %p{0} = getelementptr i8, ptr %mine, i64 {1}\n  %s{0} = load {2}, ptr %p{0}, align 4\n", i, 64 * i,
        type);
    phis += fmt::format("  %a{0} = phi {1} [%s{0}, %entry], [%b{0}, %loop]\n", i, type);
    body += each(i);
    last += fmt::format("  store {1} %b{0}, ptr %p{0}, align 4\n", i, type);
  }
  return fmt::format(R"({}
define void @limit(ptr %bufs, ptr %vars, i64 %core) {{
entry:
  %out = load ptr, ptr %bufs
  %n = load i64, ptr %vars
  %at = mul i64 %core, {}
  %mine = getelementptr i8, ptr %out, i64 %at
{}{}  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{}{}  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{}  ret void
}}
)",
                     declaration, kCoreBytes, before, first, phis, body, last);
}

double best_seconds(Program& program, std::span<Buffer* const> buffers, int64_t n, int cores) {
  double best = 1e30;
  for (int i = 0; i < kRuns; i++) best = std::min(best, program.run(buffers, {&n, 1}, cores, true));
  return best;
}

double measure_peak(Device& cpu, Buffer& scratch, const Step& step, int cores) {
  // The operand comes from memory, so that nothing is known about it.
  const std::string text = loop_text(
      kChains, step.type, fmt::format("  %x = load {}, ptr %mine, align 4\n", step.operand),
      fmt::format("declare {0} @{2}({0}, {1}, {1})", step.type, step.operand, step.function), [&](int i) {
        return fmt::format("  %b{0} = call {1} @{3}({1} %a{0}, {2} %x, {2} %x)\n", i, step.type, step.operand,
                           step.function);
      });
  const auto program = cpu.load({"limit", text, {}});
  Buffer* const buffers[] = {&scratch};
  int64_t n = 1 << 14;
  while (program->run(buffers, {&n, 1}, cores, true) < kRunSeconds) n *= 2;
  return step.flops * kChains * static_cast<double>(n) * cores / best_seconds(*program, buffers, n, cores);
}

double measure_read(Device& cpu, Buffer& scratch, const Target& t, int cores) {
  const int64_t vector = t.vector_bits / 8, pass = vector * kStreams;
  const int64_t n = std::clamp(4 * t.l3_bytes, kLeastRead, kMostRead) / cores / pass, share = n * pass;
  const std::string type = fmt::format("<{} x i32>", t.vector_bits / 32);
  const std::string text =
      loop_text(kStreams, type,
                fmt::format("  %where = getelementptr ptr, ptr %bufs, i64 1\n  %all = load ptr, ptr %where\n"
                            "  %skip = mul i64 %core, {}\n  %from = getelementptr i8, ptr %all, i64 %skip\n",
                            share),
                "", [&](int i) {
                  return fmt::format(
                      "  %o{0} = mul i64 %i, {1}\n  %q{0} = add i64 %o{0}, {2}\n  %r{0} = getelementptr i8, "
                      "ptr %from, i64 %q{0}\n"
                      "  %v{0} = load {3}, ptr %r{0}, align 4\n  %b{0} = xor {3} %a{0}, %v{0}\n",
                      i, pass, vector * i, type);
                });
  const auto program = cpu.load({"limit", text, {}});
  const auto data = Buffer::make(cpu, static_cast<size_t>(share * cores));
  auto* const bytes = static_cast<std::byte*>(data->data());
  // Each thread touches what it reads, so that the memory is near it.
  thread_pool().run(cores,
                    [&](int core) { std::memset(bytes + core * share, 1, static_cast<size_t>(share)); });
  Buffer* const buffers[] = {&scratch, data.get()};
  return static_cast<double>(share * cores) / best_seconds(*program, buffers, n, cores);
}

}  // namespace

CpuLimits cpu_limits(bool anew) {
  CpuLimits out;
  out.cpu = cpu_name();
  out.threads = cpu_count();
  const Hash128 key = hash_text(fmt::format("{} {} {}", out.cpu, out.threads, knob(Knob::LLVMOPT)), cpu_id());
  KernelCache* const cache = kernel_cache();
  double values[5] = {};
  if (const auto kept = cache && !anew ? cache->find(kTable, key) : std::nullopt;
      kept && kept->size() == sizeof values) {
    std::memcpy(values, kept->data(), sizeof values);
  } else {
    Device& cpu = device("CPU");
    const auto scratch = Buffer::make(cpu, static_cast<size_t>(kCoreBytes * out.threads));
    std::memset(scratch->data(), 0x3f, scratch->size());  // numbers between 0 and 1
    for (size_t i = 0; i < out.peaks.size(); i++)
      if (const auto step = step_for(out.peaks[i].dtype, cpu.target()))
        values[i] = measure_peak(cpu, *scratch, *step, out.threads);
    values[4] = measure_read(cpu, *scratch, cpu.target(), out.threads);
    cpu.memory().trim();
    if (cache) cache->store(kTable, key, {reinterpret_cast<const char*>(values), sizeof values});
  }
  for (size_t i = 0; i < out.peaks.size(); i++) out.peaks[i].flops = values[i];
  out.read_bytes = values[4];
  return out;
}

}  // namespace lathe
