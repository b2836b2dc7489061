// Builds small linear programs, renders them with every renderer, compiles and runs them.
#pragma once
#include "base/knobs.h"
#include "renderer/cstyle.h"
#include "renderer/llvm.h"
#include "renderer/program.h"
#include "runtime/cpu/compilers.h"
#include "runtime/cpu/elf_loader.h"
#include "runtime/program.h"
#include "uop/uop.h"

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/emulated.h"
#include "support/test.h"

namespace lathe::test {

// A program in the order of its `emit` calls; sources that are missing come first.
class LinearProgram {
 public:
  UOp emit(const UOp& u) {
    if (!seen_.insert(u).second) return u;
    for (const UOp& s : u.srcs()) emit(s);
    nodes_.push_back(u);
    return u;
  }
  UOp open(const UOp& end, AxisType type = AxisType::Loop) { return emit(range(end, next_range_++, type)); }
  UOp open(int64_t end) { return open(constant(DType::Int32, end)); }
  void close(const UOp& effect, const UOp& r) { ends_.push_back(emit(UOp::make(Op::End, {effect, r}))); }
  std::vector<UOp> finish() {
    emit(sink(ends_));
    return nodes_;
  }
  std::vector<UOp> nodes() const { return nodes_; }

 private:
  std::vector<UOp> nodes_, ends_;
  std::unordered_set<UOp> seen_;
  int next_range_ = 0;
};

inline UOp i32(int64_t v) { return constant(DType::Int32, v); }
inline UOp f32(double v) { return constant(DType::Float32, v); }
inline UOp vec(const UOp& buffer, const UOp& at, int64_t n) {
  return UOp::make(Op::Shrink,
                   {buffer, stack(std::array{at}), stack(std::array{constant(static_cast<int>(n))})});
}
inline UOp load_if(const UOp& address, const UOp& otherwise, const UOp& gate) {
  return UOp::make(Op::Load, {address, otherwise, gate});
}
inline UOp store_if(const UOp& address, const UOp& value, const UOp& gate) {
  return UOp::make(Op::Store, {address, value, gate});
}
inline UOp scratch(int64_t n, DType d) { return new_buffer({n}, d, "", AddrSpace::Reg); }
inline UOp after(const UOp& x, std::initializer_list<UOp> deps) {
  std::vector<UOp> srcs{x};
  srcs.insert(srcs.end(), deps);
  return UOp::make(Op::After, DType::Void, srcs);
}
// Lanes of a vector value.
inline UOp pick(const UOp& x, std::initializer_list<int> lanes) {
  std::vector<UOp> numbers;
  for (int k : lanes) numbers.push_back(constant(k));
  return index(x, stack(numbers));
}

// The bytes of one buffer argument.
struct Memory {
  std::vector<std::byte> bytes;
  Memory() = default;
  template <class T>
  Memory(const std::vector<T>& v) : bytes(v.size() * sizeof(T)) {  // NOLINT(google-explicit-constructor)
    std::memcpy(bytes.data(), v.data(), bytes.size());
  }
  template <class T>
  std::vector<T> as() const {
    std::vector<T> v(bytes.size() / sizeof(T));
    std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
    return v;
  }
};
inline Memory filled(size_t bytes, uint8_t value = 0xEE) {
  return Memory(std::vector<uint8_t>(bytes, value));
}

struct Backend {
  std::string name;
  std::string cc;  // compiler of C text; empty is LLVM
  int llvm_level = 1;
};
inline const std::vector<Backend>& backends() {
  static const std::vector<Backend> all{
      {"LLVM level 1", "", 1}, {"LLVM level 3", "", 3}, {"C, cc", "cc"}, {"C, clang-19", "clang-19"}};
  return all;
}

inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

inline const Renderer& renderer_of(const Backend& b) {
  static const LlvmRenderer llvm;
  static const CStyleRenderer c;
  if (b.cc.empty()) return llvm;
  return c;
}

// Runs `linear` on each backend with fresh copies of `memory` and hands what the buffers then hold to
// `check`.
inline void run_everywhere(const std::string& name, const std::vector<UOp>& linear,
                           const std::vector<Memory>& memory,
                           const std::function<void(const std::vector<Memory>&)>& check,
                           std::vector<int64_t> vars = {}, int64_t core = 0) {
  static std::map<std::string, bool> present;
  for (const Backend& b : backends()) {
    if (!b.cc.empty() && !present.try_emplace(b.cc, has_program(b.cc)).first->second) continue;
    const Renderer& renderer = renderer_of(b);
    const Rendered text = renderer.render(name, emulated(linear, renderer.target()));
    INFO(b.name, ":\n", text.source);
    KnobScope cc(Knob::CC, b.cc);
    KnobScope level(Knob::LLVMOPT, b.llvm_level);
    const std::string object = b.cc.empty() ? compile_llvm(text.source) : compile_c(text.source);
    const auto loaded = LoadedObject::load(object);
    const void* address = loaded->symbol(text.entry);
    REQUIRE(address != nullptr);
    const auto entry = reinterpret_cast<HostEntry>(const_cast<void*>(address));
    std::vector<Memory> copies = memory;
    std::vector<void*> pointers;
    for (Memory& m : copies) pointers.push_back(m.bytes.data());
    entry(pointers.data(), vars.data(), core);
    check(copies);
  }
}

}  // namespace lathe::test
