#include "base/knobs.h"
#include "base/thread_pool.h"
#include "runtime/cpu/compilers.h"
#include "runtime/cpu/cpu_id.h"
#include "runtime/cpu/elf_loader.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "support/test.h"

using namespace lathe;
using test::contains;
using test::TempDir;
using test::thrown;

#ifndef __has_feature
#define __has_feature(name) 0
#endif

namespace {

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool kHasLeakChecker = true;
#else
constexpr bool kHasLeakChecker = false;
#endif

// out[core * n + i] = a[i] * scale + core, with n and scale as variables.
constexpr const char kScaleLlvm[] = R"(
define void @scale(ptr %bufs, ptr %vars, i64 %core) nounwind {
entry:
  %out = load ptr, ptr %bufs, align 8
  %a.at = getelementptr inbounds ptr, ptr %bufs, i64 1
  %a = load ptr, ptr %a.at, align 8
  %n = load i64, ptr %vars, align 8
  %scale.at = getelementptr inbounds i64, ptr %vars, i64 1
  %scale = load i64, ptr %scale.at, align 8
  %s = sitofp i64 %scale to float
  %c = sitofp i64 %core to float
  %first = mul i64 %core, %n
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr inbounds float, ptr %a, i64 %i
  %x = load float, ptr %from, align 4
  %y = fmul contract float %x, %s
  %z = fadd contract float %y, %c
  %j = add i64 %first, %i
  %to = getelementptr inbounds float, ptr %out, i64 %j
  store float %z, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";

constexpr const char kScaleC[] = R"(
#include <stdint.h>
void scale(void* const* bufs, const int64_t* vars, int64_t core) {
  float* out = bufs[0];
  const float* a = bufs[1];
  for (int64_t i = 0; i < vars[0]; i++) out[core * vars[0] + i] = a[i] * (float)vars[1] + (float)core;
}
)";

std::shared_ptr<Buffer> floats(Device& device, const std::vector<float>& values) {
  auto buffer = Buffer::make(device, values.size() * sizeof(float));
  buffer->copy_in(std::as_bytes(std::span(values)));
  return buffer;
}

std::vector<float> read_floats(const Buffer& buffer) {
  std::vector<float> values(buffer.size() / sizeof(float));
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}

KernelSource kernel(const char* entry, std::string source) { return {entry, std::move(source), {}}; }

void check_scale(Device& device, const char* source) {
  std::unique_ptr<Program> program = device.load(kernel("scale", source));
  auto a = floats(device, {1, 2, 3});
  auto out = floats(device, std::vector<float>(12, -1.0f));
  Buffer* bufs[] = {out.get(), a.get()};
  const int64_t vars[] = {3, 10};
  CHECK(program->run(bufs, vars, 1, false) == 0);
  CHECK(read_floats(*out) == std::vector<float>{10, 20, 30, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  CHECK(program->run(bufs, vars, 4, true) > 0);
  CHECK(read_floats(*out) == std::vector<float>{10, 20, 30, 11, 21, 31, 12, 22, 32, 13, 23, 33});
  const bool has_entry = program->host_entry() != nullptr;
  REQUIRE(has_entry);
  void* memory[] = {out->data(), a->data()};
  program->host_entry()(memory, vars, 0);
}

// A cache of its own for a test.
struct FreshCache {
  TempDir folder;
  KnobScope file{Knob::CACHEDB, folder.file("kernels.db")};
  KnobScope level{Knob::CACHELEVEL, 2};
};

}  // namespace

TEST_CASE("LLVM text runs, also on several cores") {
  FreshCache cache;
  check_scale(device("CPU"), kScaleLlvm);
}

TEST_CASE("C text runs, also on several cores") {
  FreshCache cache;
  check_scale(device("CPU:C"), kScaleC);
}

TEST_CASE("kernels run without a cache") {
  KnobScope off(Knob::CACHELEVEL, 0);
  check_scale(device("CPU"), kScaleLlvm);
}

TEST_CASE("every level of LLVMOPT gives the same results") {
  FreshCache cache;
  for (int level = 0; level <= 3; level++) {
    KnobScope scope(Knob::LLVMOPT, level);
    check_scale(device("CPU"), kScaleLlvm);
  }
  KnobScope bad(Knob::LLVMOPT, 9);
  CHECK_THROWS_AS(compile_llvm(kScaleLlvm), UserError);
}

TEST_CASE("a view and a buffer of another CPU device are arguments") {
  FreshCache cache;
  std::unique_ptr<Program> program = device("CPU").load(kernel("scale", kScaleLlvm));
  auto base = floats(device("CPU:1"), {0, 0, 5, 6});
  auto a = Buffer::view(base, 8, 8);
  auto out = Buffer::make(device("CPU:2"), 8);
  Buffer* bufs[] = {out.get(), a.get()};
  const int64_t vars[] = {2, 3};
  program->run(bufs, vars, 1, true);
  CHECK(read_floats(*out) == std::vector<float>{15, 18});
}

TEST_CASE("with at most as many cores as the pool holds, each core is a thread") {
  FreshCache cache;
  const int n = thread_pool().size();
  // Each core waits until all have arrived.
  std::unique_ptr<Program> program = device("CPU:C").load(kernel("meet", R"(
    #include <stdint.h>
    void meet(void* const* bufs, const int64_t* vars, int64_t core) {
      int* arrived = bufs[0];
      __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
      while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < vars[0]) __builtin_ia32_pause();
    })"));
  auto counter = floats(device("CPU"), {0});
  Buffer* bufs[] = {counter.get()};
  const int64_t vars[] = {n};
  program->run(bufs, vars, n, true);
  int arrived = 0;
  std::memcpy(&arrived, counter->data(), sizeof(arrived));
  CHECK(arrived == n);
}

TEST_CASE("a second load of the same text comes from the cache") {
  FreshCache cache;
  for (const char* name : {"CPU", "CPU:C"}) {
    const char* text = std::string_view(name) == "CPU" ? kScaleLlvm : kScaleC;
    const auto before = kernel_cache()->counts();
    device(name).load(kernel("scale", text));
    const auto cold = kernel_cache()->counts();
    CHECK(cold.misses == before.misses + 1);
    CHECK(cold.stores == before.stores + 1);
    check_scale(device(name), text);
    const auto warm = kernel_cache()->counts();
    CHECK(warm.hits == cold.hits + 1);
    CHECK(warm.stores == cold.stores);
    device(name).load(kernel("scale", std::string(text) + "\n"));  // other text, other entry
    CHECK(kernel_cache()->counts().misses == warm.misses + 1);
  }
}

TEST_CASE("what decides the bytes decides the key") {
  FreshCache cache;
  device("CPU").load(kernel("scale", kScaleLlvm));
  const auto before = kernel_cache()->counts();
  {
    KnobScope level(Knob::LLVMOPT, 3);
    device("CPU").load(kernel("scale", kScaleLlvm));
  }
  CHECK(kernel_cache()->counts().misses == before.misses + 1);
  CHECK(cpu_id() == cpu_id());
  CHECK(cpu_id() != Hash128{});
  const std::string system = c_compiler_id();
  KnobScope cc(Knob::CC, "gcc -O1");
  CHECK(c_compiler_id() != system);
}

TEST_CASE("a cached object that does not load is compiled anew") {
  FreshCache cache;
  // The same checksum-valid entry under the kernel's key, but no object: as an older loader's format would
  // be.
  const Hash128 key = hash_text(kScaleLlvm, hash_text(llvm_compiler_id(), cpu_id()));
  kernel_cache()->store("cpu object", key, "not an object");
  const auto before = kernel_cache()->counts();
  check_scale(device("CPU"), kScaleLlvm);
  CHECK(kernel_cache()->counts().hits == before.hits + 1);
  CHECK(kernel_cache()->counts().stores == before.stores + 1);
  CHECK(kernel_cache()->find("cpu object", key) != "not an object");
}

TEST_CASE("text that does not compile is a device error with the compiler's words") {
  FreshCache cache;
  auto llvm =
      thrown<DeviceError>([] { device("CPU").load(kernel("k", "define void @k() {\n  ret nonsense\n}\n")); });
  CHECK(contains(llvm.what(), "cannot parse"));
  CHECK(contains(llvm.what(), "ret nonsense"));
  CHECK(contains(llvm.what(), "while compiling k for CPU"));
  auto type = thrown<DeviceError>([] {
    device("CPU").load(
        kernel("k", "define i32 @k() {\n  %x = call float @llvm.sqrt.f32(i32 1)\n  ret i32 0\n}\n"));
  });
  CHECK(contains(type.what(), "LLVM"));
  auto c =
      thrown<DeviceError>([] { device("CPU:C").load(kernel("k", "void k(void) { undeclared_name = 1; }")); });
  CHECK(contains(c.what(), "exit status 1"));
  CHECK(contains(c.what(), "undeclared_name"));
  auto entry = thrown<DeviceError>([] { device("CPU").load(kernel("other", kScaleLlvm)); });
  CHECK(contains(entry.what(), "does not define other"));
}

TEST_CASE("IR that fails in code generation is an error, not the end of the process") {
  KnobScope off(Knob::CACHELEVEL, 0);
  auto error = thrown<DeviceError>([] {
    device("CPU").load(kernel("k", R"(
      define void @k(ptr %b, ptr %v, i64 %c) {
        call void asm sideeffect "not an instruction", ""()
        ret void
      })"));
  });
  CHECK(contains(error.what(), "LLVM"));
}

TEST_CASE("LLVM's fatal errors are device errors, and the next kernel compiles") {
  if (kHasLeakChecker)
    return test::skip("what LLVM held when it gave up is lost, which the leak checker reports");
  KnobScope off(Knob::CACHELEVEL, 0);
  auto error = thrown<DeviceError>([] {
    device("CPU").load(kernel("k", R"(
      declare i32 @llvm.amdgcn.workitem.id.x()
      define void @k(ptr %b, ptr %v, i64 %c) {
        %x = call i32 @llvm.amdgcn.workitem.id.x()
        store i32 %x, ptr %b
        ret void
      })"));
  });
  CHECK(contains(error.what(), "amdgcn"));
  check_scale(device("CPU"), kScaleLlvm);
}

TEST_CASE("CC is started without a shell") {
  KnobScope off(Knob::CACHELEVEL, 0);
  TempDir folder;
  const std::string trap = folder.file("trap");
  for (const std::string& cc :
       {"cc;touch " + trap, "cc -w $(touch${IFS}" + trap + ")", "`touch " + trap + "`"}) {
    KnobScope scope(Knob::CC, cc);
    CHECK_THROWS_AS(compile_c("int x;"), DeviceError);
    CHECK(!std::filesystem::exists(trap));
  }
  KnobScope missing(Knob::CC, "no-such-compiler-here");
  auto error = thrown<DeviceError>([] { compile_c("int x;"); });
  CHECK(contains(error.what(), "no-such-compiler-here"));
  CHECK(contains(error.what(), "CC"));
}

TEST_CASE("a compiler leaves no files behind") {
  TempDir folder;
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before ? before : "";
  setenv("TMPDIR", folder.path().c_str(), 1);
  compile_c("int x;");
  CHECK_THROWS_AS(compile_c("int x = ;"), DeviceError);
  before ? setenv("TMPDIR", saved.c_str(), 1) : unsetenv("TMPDIR");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("several threads compile at once") {
  KnobScope off(Knob::CACHELEVEL, 0);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; i++) {
        auto object = LoadedObject::load(compile_llvm(kScaleLlvm));
        good += object->symbol("scale") != nullptr;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 20);
}

TEST_CASE("the cheap pipeline promotes scratch, fuses multiply-add and hoists") {
  // Eight accumulators in an alloca, updated in a loop by explicit vectors: nothing may be left on the stack.
  std::string ir = R"(
define void @k(ptr %bufs, ptr %vars, i64 %core) nounwind {
entry:
  %acc = alloca [16 x float], align 64
  %out = load ptr, ptr %bufs, align 8
  %n = load i64, ptr %vars, align 8
  store <16 x float> zeroinitializer, ptr %acc, align 64
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %off = mul i64 %i, 16
  %at = getelementptr inbounds float, ptr %out, i64 %off
  %x = load <16 x float>, ptr %at, align 4
  %old = load <16 x float>, ptr %acc, align 64
  %m = fmul contract <16 x float> %x, %x
  %new = fadd contract <16 x float> %m, %old
  store <16 x float> %new, ptr %acc, align 64
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %last = load <16 x float>, ptr %acc, align 64
  store <16 x float> %last, ptr %out, align 4
  ret void
}
)";
  const std::string object = compile_llvm(ir);
  // sub rsp / and rsp, -64 of a frame that holds the alloca
  CHECK(object.find("\x48\x83\xe4\xc0") == std::string::npos);
  FreshCache cache;
  std::unique_ptr<Program> program = device("CPU").load(kernel("k", ir));
  std::vector<float> values(32, 3.0f);
  auto out = floats(device("CPU"), values);
  Buffer* bufs[] = {out.get()};
  const int64_t vars[] = {2};
  program->run(bufs, vars, 1, true);
  CHECK(read_floats(*out)[0] == 18.0f);
  CHECK(read_floats(*out)[16] == 3.0f);
}
