#include "runtime/cpu/compilers.h"
#include "runtime/cpu/elf_loader.h"

#include <elf.h>

#include <cstring>
#include <string>

#include "support/test.h"

using namespace lathe;
using test::contains;
using test::thrown;

namespace {

template <class F>
F* function(const LoadedObject& object, const char* name) {
  const void* address = object.symbol(name);
  REQUIRE(address != nullptr);
  return reinterpret_cast<F*>(const_cast<void*>(address));
}

// Constants, initialised and zeroed data, pointers in data, a jump table, libm and memcpy: every section and
// relocation that compilers make of plain C.
const std::string& sample_object() {
  static const std::string kBytes = compile_c(R"(
    float sqrtf(float); float fmaf(float, float, float); float expf(float);
    void* memcpy(void*, const void*, unsigned long);
    static const double kTable[4] = {1.5, 2.5, 3.5, 4.5};
    static const double* const kPointers[2] = {&kTable[1], &kTable[3]};
    int counter = 40;
    static int zeroed[1000];
    double pick(int i) { return kTable[i & 3]; }
    double follow(volatile int* i) { return *kPointers[*i & 1]; }
    int count(void) { zeroed[counter]++; counter += zeroed[counter - 1] == 0; return ++counter; }
    int sum_zeroed(void) { int s = 0; for (int i = 0; i < 1000; i++) s += zeroed[i]; return s; }
    float call_libm(float x) { return expf(x); }
    void copy(void* to, const void* from, unsigned long n) { memcpy(to, from, n); }
    double (*chosen(int which))(int) { return which ? pick : 0; }
    int jump(int x) {
      switch (x) { case 0: return 7; case 1: return 1; case 2: return 22; case 3: return -3; case 4: return 99;
                   case 5: return 5; case 6: return 61; default: return 0; }
    }
  )");
  return kBytes;
}

}  // namespace

TEST_CASE("a compiled C object is loaded and runs") {
  auto object = LoadedObject::load(sample_object());
  CHECK(function<double(int)>(*object, "pick")(2) == 3.5);
  volatile int one = 1;
  CHECK(function<double(volatile int*)>(*object, "follow")(&one) == 4.5);
  CHECK(function<float(float)>(*object, "call_libm")(0.0f) == 1.0f);
  CHECK(function<int(int)>(*object, "jump")(4) == 99);
  CHECK(function<int(int)>(*object, "jump")(6) == 61);
  CHECK(function<int(int)>(*object, "jump")(7) == 0);
  auto chosen = function<double (*(int))(int)>(*object, "chosen")(1);
  CHECK(chosen(0) == 1.5);

  char to[32] = {};
  function<void(void*, const void*, unsigned long)>(*object, "copy")(to, "some text", 10);
  CHECK(std::string(to) == "some text");
}

TEST_CASE("data of an object is its own and writable") {
  auto first = LoadedObject::load(sample_object());
  auto second = LoadedObject::load(sample_object());
  CHECK(function<int()>(*first, "sum_zeroed")() == 0);
  CHECK(function<int()>(*first, "count")() == 42);
  CHECK(function<int()>(*first, "sum_zeroed")() == 1);
  CHECK(function<int()>(*second, "sum_zeroed")() == 0);
  CHECK(function<int()>(*second, "count")() == 42);
}

TEST_CASE("only global symbols that the object defines are found") {
  auto object = LoadedObject::load(sample_object());
  CHECK(object->symbol("expf") == nullptr);
  CHECK(object->symbol("zeroed") == nullptr);
  CHECK(object->symbol("counter") != nullptr);
  CHECK(object->symbol("") == nullptr);
}

TEST_CASE("an undefined symbol outside the list is named") {
  std::string bytes = compile_c("int launch_missiles(int); int f(int x) { return launch_missiles(x) + 1; }");
  auto error = thrown<DeviceError>([&] { LoadedObject::load(bytes); });
  CHECK(contains(error.what(), "undefined symbol launch_missiles"));
}

TEST_CASE("an object that is cut short or damaged is refused or loaded, never more") {
  const std::string& good = sample_object();
  for (size_t size = 0; size < good.size(); size += 1 + size / 16)
    CHECK_THROWS_AS(LoadedObject::load(good.substr(0, size)), DeviceError);

  // Every byte of the headers, symbols and relocations in turn; code bytes are not interpreted.
  int refused = 0;
  for (size_t at = 0; at < good.size(); at++) {
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      try {
        LoadedObject::load(bad);
      } catch (const DeviceError&) {
        refused++;
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("other kinds of files are refused with a reason") {
  CHECK(contains(thrown<DeviceError>([] { LoadedObject::load(std::string(100, 'x')); }).what(),
                 "not an ELF file"));
  std::string other = sample_object();
  Elf64_Ehdr header;
  std::memcpy(&header, other.data(), sizeof(header));
  header.e_machine = EM_AARCH64;
  std::memcpy(other.data(), &header, sizeof(header));
  CHECK(contains(thrown<DeviceError>([&] { LoadedObject::load(other); }).what(),
                 "not an x86-64 relocatable object"));
  CHECK_THROWS_AS(LoadedObject::load(""), DeviceError);
}
