#include "renderer/target.h"

#include "base/error.h"
#include "base/knobs.h"
#include "base/thread_pool.h"
#include "uop/number_formats.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <optional>

namespace lathe {
namespace {

constexpr OpSet kCpuOps{Op::Sqrt,   Op::Trunc, Op::Reciprocal, Op::Neg,  Op::Add, Op::Sub, Op::Mul,
                        Op::MulAcc, Op::FDiv,  Op::CDiv,       Op::CMod, Op::Shl, Op::Shr, Op::Max,
                        Op::CmpLt,  Op::CmpNe, Op::CmpEq,      Op::Xor,  Op::Or,  Op::And, Op::Where};

constexpr uint32_t dtype_bits(std::initializer_list<DType> types) {
  uint32_t bits = 0;
  for (DType d : types) bits |= 1u << static_cast<int>(d);
  return bits;
}

constexpr uint32_t kCommonDTypes =
    dtype_bits({DType::Bool, DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
                DType::UInt32, DType::Int64, DType::UInt64, DType::Float32, DType::Float64});

// Sizes that the system does not tell keep their defaults.
void read_caches(Target& t) {
  constexpr int kMaxIndex = 8;
  for (int i = 0; i < kMaxIndex; i++) {
    const std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    std::string level, type;
    int64_t bytes = 0;
    char unit = 'B';  // sizes are written as "48K"
    if (!(std::ifstream(dir + "level") >> level)) break;
    std::ifstream(dir + "type") >> type;
    if (!(std::ifstream(dir + "size") >> bytes >> unit) || bytes <= 0 || type == "Instruction") continue;
    bytes <<= unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (level == "1") t.l1d_bytes = bytes;
    if (level == "2") t.l2_bytes = bytes;
    if (level == "3") t.l3_bytes = bytes;
  }
}

enum class Feature : uint8_t { Avx512Vnni, AvxVnni, Avx512Bf16, Avx512Bw, Avx2, Sse2 };

// AVX-512 of 256 and 128 bits comes with AVX512VL, which every CPU with the dot instructions has; LLVM takes
// the same names for AVX-VNNI.
struct DotRow {
  Feature feature;
  DotInstruction dot;
};
constexpr DType kU8 = DType::UInt8, kI8 = DType::Int8, kI16 = DType::Int16, kI32 = DType::Int32,
                kBf16 = DType::BFloat16, kF32 = DType::Float32;
constexpr DotRow kDots[] = {
    {Feature::Avx512Vnni, {kU8, kI8, kI32, 16, "llvm.x86.avx512.vpdpbusd.512", "i32", true}},
    {Feature::AvxVnni, {kU8, kI8, kI32, 8, "llvm.x86.avx512.vpdpbusd.256", "i32", true}},
    {Feature::AvxVnni, {kU8, kI8, kI32, 4, "llvm.x86.avx512.vpdpbusd.128", "i32", true}},
    {Feature::Avx512Bf16, {kBf16, kBf16, kF32, 16, "llvm.x86.avx512bf16.dpbf16ps.512", "bfloat", true}},
    {Feature::Avx512Bf16, {kBf16, kBf16, kF32, 8, "llvm.x86.avx512bf16.dpbf16ps.256", "bfloat", true}},
    {Feature::Avx512Bf16, {kBf16, kBf16, kF32, 4, "llvm.x86.avx512bf16.dpbf16ps.128", "bfloat", true}},
    {Feature::Avx512Bw, {kI16, kI16, kI32, 16, "llvm.x86.avx512.pmaddw.d.512", "i16", false}},
    {Feature::Avx2, {kI16, kI16, kI32, 8, "llvm.x86.avx2.pmadd.wd", "i16", false}},
    {Feature::Sse2, {kI16, kI16, kI32, 4, "llvm.x86.sse2.pmadd.wd", "i16", false}},
};

#if defined(__x86_64__)
bool has_feature(Feature f) {
  const bool vl = __builtin_cpu_supports("avx512vl"), vnni = vl && __builtin_cpu_supports("avx512vnni");
  switch (f) {
    case Feature::Avx512Vnni: return vnni;
    case Feature::AvxVnni: return vnni || __builtin_cpu_supports("avxvnni");
    case Feature::Avx512Bf16: return vl && __builtin_cpu_supports("avx512bf16");
    case Feature::Avx512Bw: return __builtin_cpu_supports("avx512bw");
    case Feature::Avx2: return __builtin_cpu_supports("avx2");
    case Feature::Sse2: return true;
  }
  return false;
}
#endif

// Vector instructions, and half floats where they can be converted: without instructions LLVM calls functions
// that a JIT process may not have.
void read_instructions(Target& t) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  t.arch = "x86_64";
  t.has_fma = __builtin_cpu_supports("fma");
  if (__builtin_cpu_supports("avx")) t.vector_bits = 256;
  // Every CPU with AVX2 converts half floats (F16C came a generation earlier).
  if (__builtin_cpu_supports("avx2")) t.dtypes |= dtype_bits({DType::Float16});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    t.vector_bits = 512;
    t.vector_registers = 32;
  }
  for (const DotRow& row : kDots)
    if (has_feature(row.feature)) t.dots.push_back(row.dot);
#elif defined(__aarch64__)
  t.arch = "aarch64";
  t.vector_registers = 32;
  t.has_fma = true;
  t.dtypes |= dtype_bits({DType::Float16});
#else
  t.arch = "generic";
#endif
}

Target host_target(std::string name) {
  static const Target host = [] {
    Target t;
    t.native_ops = kCpuOps;
    t.dtypes = kCommonDTypes;
    read_caches(t);
    read_instructions(t);
    return t;
  }();
  Target t = host;
  t.name = std::move(name);
  t.max_threads = std::max(1, cpu_count());
  return t;
}

}  // namespace

Target without_emulated(Target t) {
  if (!knob(Knob::DOT)) t.dots.clear();
  std::string_view names = knob_str(Knob::EMULATED_DTYPES);
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    const std::optional<DType> d = parse_dtype(name);
    if (d && is_narrow_float(*d))
      t.dtypes &= ~dtype_bits({*d});
    else if (d == DType::Int64 || d == DType::UInt64)
      t.dtypes &= ~dtype_bits({DType::Int64, DType::UInt64, DType::Float64});
    else
      value_error("EMULATED_DTYPES: '{}' is neither long nor a float narrower than float32", name);
  }
  return t;
}

const DotInstruction* Target::dot(DType a, DType b, DType acc) const {
  const auto found = std::ranges::find_if(
      dots, [&](const DotInstruction& d) { return d.a == a && d.b == b && d.acc == acc; });
  return found == dots.end() ? nullptr : &*found;
}

std::vector<DotInstruction> all_dots() {
  std::vector<DotInstruction> out;
  for (const DotRow& row : kDots) out.push_back(row.dot);
  return out;
}

Target llvm_target() { return host_target("llvm"); }

Target c_target() {
  Target t = host_target("c");
  t.dtypes &= ~dtype_bits({DType::Float16});
  t.dots.clear();
  t.has_long_vectors = false;  // compilers compare and convert those lane by lane
  return t;
}

Target opencl_target() {
  Target t;
  t.name = "opencl";
  t.has_threads = false;
  t.has_long_vectors = false;
  t.max_lanes = 16;
  t.native_ops = kCpuOps;
  t.dtypes = kCommonDTypes;
  // What the standard promises, except for the groups: those have no limit of their own.
  constexpr int64_t kGroups = (int64_t{1} << 31) - 1;
  t.work_groups = WorkGroupLimits{{kGroups, kGroups, kGroups}, {256, 256, 256}, 256, 32 << 10};
  return t;
}

std::string Target::key() const {
  std::string out = fmt::format(
      "{}:{}:threads={}/{}:vector={}x{}{}<={}:fma={}:caches={},{},{}:ops={:x}.{:x}:dtypes={:x}:{}:{}", name,
      arch, has_threads, max_threads, vector_registers, vector_bits, has_long_vectors ? "+" : "", max_lanes,
      has_fma, l1d_bytes, l2_bytes, l3_bytes, native_ops.words[1], native_ops.words[0], dtypes, cpu,
      features);
  for (const DotInstruction& d : dots) out += fmt::format(":{}x{}", d.intrinsic, d.lanes);
  if (const auto& w = work_groups)
    out += fmt::format(":groups={},{},{}:items={},{},{}/{}:local={}", w->groups[0], w->groups[1],
                       w->groups[2], w->items[0], w->items[1], w->items[2], w->group_items, w->local_bytes);
  return out;
}

}  // namespace lathe
