#include "base/knobs.h"
#include "runtime/buffer.h"
#include "runtime/device.h"

#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/test.h"

using namespace lathe;
using test::contains;
using test::thrown;
using test::user_error;

namespace {

std::vector<std::byte> numbered(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; i++) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::vector<std::byte> contents(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size());
  buffer.copy_out(bytes);
  return bytes;
}

}  // namespace

TEST_CASE("memory comes with the first use and is counted") {
  Device& cpu = device("CPU");
  const int64_t before = memory_used(), here = cpu.memory().used();
  auto buffer = Buffer::make(cpu, 1000);
  CHECK(!buffer->is_allocated());
  CHECK(memory_used() == before);
  buffer->copy_in(numbered(1000));
  CHECK(buffer->is_allocated());
  CHECK(memory_used() == before + 1000);
  CHECK(cpu.memory().used() == here + 1000);
  CHECK(contents(*buffer) == numbered(1000));
  CHECK(std::memcmp(buffer->data(), numbered(1000).data(), 1000) == 0);
  buffer.reset();
  CHECK(memory_used() == before);
}

TEST_CASE("the peak is remembered until it is reset") {
  auto buffer = Buffer::make(device("CPU"), 1 << 20);
  buffer->allocate();
  reset_peak_memory_used();
  const int64_t start = peak_memory_used();
  {
    Buffer::make(device("CPU"), 3 << 20)->allocate();
  }
  CHECK(peak_memory_used() == start + (3 << 20));
  reset_peak_memory_used();
  CHECK(peak_memory_used() == start);
}

TEST_CASE("memory is aligned to cache lines, large memory to huge pages") {
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{65}, size_t{100000}, size_t{(2 << 20) - 1}}) {
    auto buffer = Buffer::make(device("CPU"), bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer->data()) % 64 == 0);
    std::memset(buffer->data(), 1, bytes);
  }
  for (size_t bytes : {size_t{2} << 20, (size_t{2} << 20) + 1, size_t{9000001}}) {
    auto buffer = Buffer::make(device("CPU"), bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer->data()) % (2 << 20) == 0);
    std::memset(buffer->data(), 1, bytes);
  }
}

TEST_CASE("a view shares its base's bytes and keeps them alive") {
  const int64_t before = memory_used();
  auto base = Buffer::make(device("CPU"), 100);
  auto view = Buffer::view(base, 40, 20);
  CHECK(!view->is_allocated());
  base->copy_in(numbered(100));
  CHECK(view->is_allocated());
  CHECK(view->data() == static_cast<std::byte*>(base->data()) + 40);
  auto inner = Buffer::view(view, 4, 8);
  CHECK(inner->offset() == 44);
  CHECK(&inner->base() == base.get());
  const std::vector<std::byte> eight(8, std::byte{9});
  inner->copy_in(eight);
  auto expected = numbered(100);
  std::fill_n(expected.begin() + 44, 8, std::byte{9});
  CHECK(contents(*base) == expected);
  base.reset();
  view.reset();
  CHECK(contents(*inner) == eight);
  CHECK(memory_used() == before + 100);
  inner.reset();
  CHECK(memory_used() == before);
}

TEST_CASE("a view allocates its base") {
  auto base = Buffer::make(device("CPU"), 64);
  auto view = Buffer::view(base, 0, 64);
  view->allocate();
  CHECK(base->is_allocated());
}

TEST_CASE("a view that leaves its base is refused") {
  auto base = Buffer::make(device("CPU"), 100);
  CHECK(contains(user_error([&] { Buffer::view(base, 90, 11); }).what(), "11 bytes at offset 90"));
  CHECK_THROWS_AS(Buffer::view(base, 100, 1), UserError);
  CHECK_THROWS_AS(Buffer::view(base, 0, 0), UserError);
  CHECK_THROWS_AS(Buffer::view(base, 1, SIZE_MAX), UserError);
  CHECK_THROWS_AS(Buffer::make(device("CPU"), 0), UserError);
}

TEST_CASE("foreign memory is used in place, not counted, and its owner is dropped") {
  const int64_t before = memory_used();
  auto owner = std::make_shared<std::vector<std::byte>>(numbered(50));
  std::weak_ptr<std::vector<std::byte>> watch = owner;
  auto buffer = Buffer::external(device("CPU"), owner->data(), 50, owner);
  CHECK(buffer->data() == owner->data());
  CHECK(memory_used() == before);
  owner.reset();
  CHECK(!watch.expired());
  CHECK(contents(*buffer) == numbered(50));
  buffer.reset();
  CHECK(watch.expired());
  CHECK(memory_used() == before);
}

TEST_CASE("freed memory serves the next request of its size while LRU is set") {
  Device& cpu = device("CPU:77");
  void* address = nullptr;
  {
    KnobScope lru(Knob::LRU, 1);
    auto buffer = Buffer::make(cpu, 5 << 20);
    address = buffer->data();
    buffer.reset();
    CHECK(cpu.memory().kept() == 5 << 20);
    auto other = Buffer::make(cpu, 4 << 20);
    CHECK(other->data() != address);
    auto same = Buffer::make(cpu, 5 << 20);
    CHECK(same->data() == address);
    CHECK(cpu.memory().kept() == 0);
    same.reset();
    other.reset();
    cpu.memory().trim();
    CHECK(cpu.memory().kept() == 0);
  }
  KnobScope lru(Knob::LRU, 0);
  Buffer::make(cpu, 5 << 20)->allocate();
  CHECK(cpu.memory().kept() == 0);
}

TEST_CASE("what is kept for reuse is bounded and the oldest goes first") {
  // Address space only: nothing is written, so no page is touched.
  KnobScope lru(Knob::LRU, 1);
  Device& cpu = device("CPU:78");
  for (int i = 0; i < 200; i++)
    Buffer::make(cpu, (size_t{1} << 30) + static_cast<size_t>(i) * 4096)->allocate();
  CHECK(cpu.memory().kept() > 0);
  CHECK(cpu.memory().kept() < int64_t{100} << 30);
  const int64_t kept = cpu.memory().kept();
  Buffer::make(cpu, (size_t{1} << 30) + 199 * 4096)->allocate();  // the newest is still there
  CHECK(cpu.memory().kept() == kept);
  cpu.memory().trim();
}

TEST_CASE("MAX_BUFFER_SIZE bounds a buffer on devices with memory") {
  KnobScope limit(Knob::MAX_BUFFER_SIZE, 1000000);
  Buffer::make(device("CPU"), 1000000)->allocate();
  auto error = user_error([] { Buffer::make(device("CPU"), 1500000)->allocate(); });
  CHECK(error.kind() == UserError::Kind::Runtime);
  CHECK(contains(error.what(), "buffer of size 1.50M is too large"));
  Buffer::make(device("NULL"), 1500000)->allocate();
}

TEST_CASE("running out of memory gives back what is kept, then says how much was used") {
  Device& cpu = device("CPU:79");
  {
    Buffer::make(cpu, 8 << 20)->allocate();
  }
  auto held = Buffer::make(cpu, 3000000);
  held->allocate();
  const int64_t before = memory_used();
  auto error = thrown<DeviceError>([&] { Buffer::make(cpu, size_t{1} << 60)->allocate(); });
  CHECK(contains(error.what(), "Allocation of 1152921504606.85 MB failed on CPU:79. Used: 3.00 MB"));
  CHECK(cpu.memory().kept() == 0);
  CHECK(memory_used() == before);
  CHECK_THROWS_AS(Buffer::make(cpu, SIZE_MAX)->allocate(), DeviceError);
}

TEST_CASE("threads that use a buffer for the first time get one memory") {
  for (int round = 0; round < 50; round++) {
    auto buffer = Buffer::make(device("CPU"), 100);
    void* seen[2] = {};
    std::thread other([&] { seen[0] = buffer->data(); });
    seen[1] = buffer->data();
    other.join();
    CHECK(seen[0] == seen[1]);
  }
}

TEST_CASE("NULL counts and holds nothing") {
  Device& null = device("NULL");
  const int64_t before = memory_used();
  auto buffer = Buffer::make(null, size_t{1} << 50);
  buffer->allocate();
  CHECK(memory_used() == before + (int64_t{1} << 50));
  std::vector<std::byte> bytes(100);
  auto view = Buffer::view(buffer, 1 << 20, 100);
  view->copy_in(bytes);
  auto error = user_error([&] { view->copy_out(bytes); });
  CHECK(error.kind() == UserError::Kind::Runtime);
  CHECK(contains(error.what(), "no copyout on NULL"));
  CHECK(contains(user_error([&] { buffer->data(); }).what(), "no copyout on NULL"));
  KnobScope allow(Knob::NULL_ALLOW_COPYOUT, 1);
  bytes.assign(100, std::byte{5});
  view->copy_out(bytes);
  CHECK(bytes == std::vector<std::byte>(100));
  CHECK_THROWS_AS(Buffer::external(null, bytes.data(), 100), UserError);
  buffer.reset();
  view.reset();
  CHECK(memory_used() == before);
}

TEST_CASE("bytes are copied between devices") {
  auto from = Buffer::make(device("CPU"), 64);
  from->copy_in(numbered(64));
  auto to = Buffer::make(device("INTERP:1"), 64);
  copy_bytes(*to, *from);
  CHECK(contents(*to) == numbered(64));

  auto upper = Buffer::view(from, 8, 32), lower = Buffer::view(from, 0, 32);  // overlap
  copy_bytes(*upper, *lower);
  CHECK(contents(*upper) == numbered(32));

  auto null = Buffer::make(device("NULL"), 64), other = Buffer::make(device("NULL:1"), 64);
  copy_bytes(*null, *from);
  copy_bytes(*other, *null);
  CHECK(other->is_allocated());
  CHECK(contains(user_error([&] { copy_bytes(*to, *null); }).what(), "no copyout on NULL"));
  CHECK_THROWS_AS(copy_bytes(*upper, *from), InternalError);
}

TEST_CASE("device names fold") {
  CHECK(canonical_device_name("cpu") == "CPU");
  CHECK(canonical_device_name("CPU:0") == "CPU");
  CHECK(canonical_device_name("cpu:llvm") == "CPU");
  CHECK(canonical_device_name("cpu:c") == "CPU:C");
  CHECK(canonical_device_name("CPU:1") == "CPU:1");
  CHECK(canonical_device_name("CPU:1:c") == "CPU:C:1");
  CHECK(canonical_device_name("CPU:C:01") == "CPU:C:1");
  CHECK(canonical_device_name("null:3") == "NULL:3");
  CHECK(canonical_device_name("Interp:2") == "INTERP:2");
  CHECK(&device("cpu:0") == &device("CPU"));
  CHECK(&device("CPU:LLVM:1") == &device("cpu:1"));
  CHECK(&device("CPU:1") != &device("CPU:2"));
  CHECK(device("cpu:1").name() == "CPU:1");
  CHECK(device("CPU:C").target().name == "c");
  CHECK(device("INTERP").renderer() == nullptr);
}

TEST_CASE("an unknown device is named together with the known ones") {
  for (const char* bad : {"TPU", "", "CPU:FORTRAN", "CPU:1:2", "CPU:C:LLVM", "INTERP:C", "CPU:-1",
                          "CPU:1:2:3", "CPU:9999999", "A+B+CPU", "CPU:"}) {
    auto error = user_error([&] { device(bad); });
    CHECK(contains(error.what(), std::string("unknown device \"") + bad + "\""));
    CHECK(contains(error.what(), "CPU, CPU:C, CL, INTERP, NULL"));
  }
}

TEST_CASE("DEV names the default device") {
  {
    KnobScope dev(Knob::DEV, "");
    CHECK(default_device().name() == "CPU");
  }
  {
    KnobScope dev(Knob::DEV, "NULL:4");
    CHECK(default_device().name() == "NULL:4");
  }
  {
    KnobScope dev(Knob::DEV, "CPU:C;NULL");
    CHECK(default_device().name() == "CPU:C");
  }
  KnobScope dev(Knob::DEV, "abacus");
  CHECK_THROWS_AS(default_device(), UserError);
}

TEST_CASE("ALLOW_DEVICE_USAGE=0 leaves the interpreter") {
  KnobScope off(Knob::ALLOW_DEVICE_USAGE, 0);
  CHECK(contains(user_error([] { device("CPU:51"); }).what(), "usage of device CPU:51 disallowed"));
  device("INTERP:51");
}

TEST_CASE("threads may ask for devices at once") {
  std::vector<std::thread> threads;
  std::vector<Device*> seen(8);
  for (size_t t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (int i = 100; i < 120; i++) seen[t] = &device("NULL:" + std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  for (Device* one : seen) CHECK(one == &device("NULL:119"));
}
