#include "runtime/cpu/elf_loader.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

namespace lathe {
namespace {

template <class F>
const void* address(F* function) {
  return reinterpret_cast<const void*>(function);
}

using One32 = float(float);
using One64 = double(double);
using Two32 = float(float, float);
using Two64 = double(double, double);

// One row for both precisions: name and name + "f".
#define LATHE_UNARY(name) \
  {#name, address<One64>(std::name)}, { #name "f", address<One32>(std::name) }
#define LATHE_BINARY(name) \
  {#name, address<Two64>(std::name)}, { #name "f", address<Two32>(std::name) }

const std::unordered_map<std::string_view, const void*>& table() {
  static const auto* const kTable = new std::unordered_map<std::string_view, const void*>{
      {"memcpy", address<void*(void*, const void*, size_t)>(std::memcpy)},
      {"memmove", address<void*(void*, const void*, size_t)>(std::memmove)},
      {"memset", address<void*(void*, int, size_t)>(std::memset)},
      {"memcmp", address<int(const void*, const void*, size_t)>(std::memcmp)},
      {"bcmp", address<int(const void*, const void*, size_t)>(std::memcmp)},
      LATHE_UNARY(sqrt),
      LATHE_UNARY(trunc),
      LATHE_UNARY(floor),
      LATHE_UNARY(ceil),
      LATHE_UNARY(rint),
      LATHE_UNARY(fabs),
      LATHE_UNARY(exp),
      LATHE_UNARY(exp2),
      LATHE_UNARY(log),
      LATHE_UNARY(log2),
      LATHE_UNARY(sin),
      LATHE_UNARY(cos),
      LATHE_BINARY(pow),
      LATHE_BINARY(fmod),
      LATHE_BINARY(fmin),
      LATHE_BINARY(fmax),
      {"fma", address<double(double, double, double)>(std::fma)},
      {"fmaf", address<float(float, float, float)>(std::fma)},
  };
  return *kTable;
}

}  // namespace

const void* external_symbol(std::string_view name) {
  auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace lathe
