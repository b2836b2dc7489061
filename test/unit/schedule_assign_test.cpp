// Assignments: what memory holds afterwards, and how many kernels that takes.
#include "base/knobs.h"
#include "engine/counters.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"
#include "unit/kernels_of.h"
#include "unit/tensor_check.h"

#include <numeric>

using namespace lathe;
using namespace lathe::test;

namespace {

UOp written(const UOp& state, const UOp& value) { return UOp::make(Op::After, {state, store(state, value)}); }

}  // namespace

TEST_CASE("a slice of itself plus one") {
  Tensor x = floats({1, 2, 3, 4});
  x.set({Slice{2, 4}}, x.at(Slice{2, 4}) + 1);
  CHECK(kernels_of({x}) == 1);
  check_values(x, {1, 2, 4, 5});
}

TEST_CASE("a slice from one that overlaps it") {
  Tensor x = floats({1, 2, 3, 4});
  x.set({Slice{1, 3}}, x.at(Slice{2, 4}) + 1);
  CHECK(kernels_of({x}) == 2);
  check_values(x, {1, 4, 5, 4});
}

TEST_CASE("a slice from one apart from it needs no copy") {
  Tensor x = floats({1, 2, 3, 4});
  x.set({Slice{0, 2}}, x.at(Slice{2, 4}));
  CHECK(kernels_of({x}) == 1);
  check_values(x, {3, 4, 3, 4});
}

TEST_CASE("reversed and added to itself") {
  Tensor x = floats({1, 2, 3, 5});
  x.at(Slice{none, none, -1}) += x;
  CHECK(kernels_of({x}) == 2);
  check_values(x, {6, 5, 5, 6});
}

TEST_CASE("an element that grows many times stays in its memory") {
  for (int times : {1, 2, 10, 100}) {
    CAPTURE(times);
    Tensor x = Tensor::zeros({2}).realize();
    const UOp buffer = x.uop();
    for (int i = 0; i < times; i++) x.at(0) += 1;
    check_values(x, {static_cast<double>(times), 0});
    CHECK(x.uop() == buffer);
  }
}

TEST_CASE("readers between writes") {
  Tensor x = floats({0});
  const Tensor y0 = x + 0;
  x += 1;
  const Tensor y1 = x + 0;
  x += 1;
  const Tensor y2 = x + 0;
  x += 1;
  check_values(y0, {0});
  check_values(y1, {1});
  check_values(y2, {2});
  check_values(x, {3});
}

TEST_CASE("two tensors that take from each other in turn") {
  Tensor a = floats({2}), b = floats({3});
  a += b;
  b += a;
  check_values(a, {5});
  check_values(b, {8});
}

TEST_CASE("two tensors that take the other's value from before") {
  Tensor a = floats({2}), b = floats({3});
  const Tensor four_a = (a * 4).contiguous(), b_and_three = (b + 3).contiguous();
  b += four_a;
  a += b_and_three;
  Tensor::realize(std::vector{a, b});
  check_values(b, {11});
  check_values(a, {8});
}

TEST_CASE("values of before a write live on in tensors") {
  Tensor a = floats({1});
  const Tensor tripled = a * 3;
  a.assign(floats({2}));
  check_values(a + (tripled - 1), {4});
  Tensor c = floats({2}), b = floats({3});
  const Tensor before = c + 9;
  c += b;
  b += before;
  Tensor::realize(std::vector{b, c});
  check_values(c, {5});
  check_values(b, {14});
}

TEST_CASE("one kernel cannot read memory before and after a write") {
  const auto has_cycle = [](const std::vector<UOp>& roots) {
    const UserError error = user_error([&] { make_schedule(roots); });
    return error.kind() == UserError::Kind::Runtime &&
           contains(error.what(), "cycle detected in assign graph");
  };
  const UOp a = new_buffer({SInt(4)}, DType::Float32, "CPU"),
            b = new_buffer({SInt(4)}, DType::Float32, "CPU");
  const UOp two = broadcast_to(constant(DType::Float32, 2.0), a.shape());
  const UOp after = written(a, two), before = a * constant(3.0) - constant(1.0);
  CHECK(has_cycle({after + before}));
  CHECK(has_cycle({UOp::make(Op::Contiguous, {after}) + before}));
  CHECK(make_schedule({{after + UOp::make(Op::Contiguous, {before})}}).kernels.size() == 3);
  // Each is written from the other's old value, computed in the writing kernel.
  CHECK(has_cycle({written(a, a + b), written(b, b + (a + constant(9.0)))}));
}

TEST_CASE("values in another order are read before they are written") {
  Tensor p = floats({1, 2, 3, 4}, {2, 2}), f = floats({1, 2, 3}), r = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  p.assign(p.permute({1, 0}) + 10);
  check_values(p, {11, 13, 12, 14});
  f.assign(f.flip(0) + f);
  check_values(f, {4, 4, 4});
  r.assign(r.reshape({3, 2}).permute({1, 0}) + r);
  check_values(r, {2, 5, 8, 6, 9, 12});
}

TEST_CASE("a masked view of itself") {
  Tensor a = Tensor::ones({4, 4}).realize();
  a += a.shrink({none, {0, 2}}).pad({none, {0, 2}}, PadMode::Constant, 2);
  CHECK(kernels_of({a}) == 1);
  check_values(a, {2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3});
  Tensor b = Tensor::ones({4, 4}).realize();
  b += b.shrink({none, {0, 2}}).pad({none, {0, 2}}, PadMode::Constant, 2).permute({1, 0});
  check_values(b, {2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3});
}

TEST_CASE("shifted copies within one buffer") {
  for (int no_opt : {0, 1}) {
    const KnobScope scope(Knob::NOOPT, no_opt);
    std::vector<int32_t> values(100000);
    std::iota(values.begin(), values.end(), 0);
    Tensor right = ints(values), left = ints(values);
    right.set({Slice{1000, none}}, right.at(Slice{none, -1000}));
    left.set({Slice{none, -1000}}, left.at(Slice{1000, none}));
    const std::vector<int32_t> r = right.to_vector<int32_t>(), l = left.to_vector<int32_t>();
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
      wrong += r[static_cast<size_t>(i)] != (i < 1000 ? i : i - 1000);
      wrong += l[static_cast<size_t>(i)] != (i < 99000 ? i + 1000 : i);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("overlapping writes happen in order") {
  Tensor x = Tensor::zeros({8}).realize(), y = Tensor::zeros({8}).realize();
  x.set({Slice{0, 4}}, 1);
  x.set({Slice{2, 6}}, 2);
  check_values(x, {1, 1, 2, 2, 2, 2, 0, 0});
  y.set({Slice{2, 6}}, 2);
  y.set({Slice{0, 4}}, 1);
  check_values(y, {1, 1, 1, 1, 2, 2, 0, 0});
}

TEST_CASE("caches, each filled from the one before") {
  std::vector<Tensor> caches;
  for (int i = 0; i < 5; i++) caches.push_back(Tensor::zeros({4, 2}).realize());
  Tensor x = floats({1, 2});
  for (Tensor& c : caches) {
    c.set({1}, x);
    x = c.at(1) * 2;
  }
  CHECK(kernels_of(caches) == 5);
  check_values(caches[4], {0, 0, 16, 32, 0, 0, 0, 0});
}

TEST_CASE("layers that share contiguous values") {
  std::vector<Tensor> wanted;
  Tensor x = floats({1, 2});
  for (int i = 0; i < 16; i++) {
    Tensor cache = Tensor::zeros({4, 2}).realize();
    x = (x + 1).contiguous();
    cache.set({1}, x);
    x = x + cache.at(1);
    wanted.push_back(cache);
  }
  wanted.push_back(x);
  CHECK(kernels_of(wanted) <= 33);
  check_values(wanted[1], {0, 0, 5, 7, 0, 0, 0, 0});
}

TEST_CASE("what is written over unread is not written") {
  Tensor x = Tensor::zeros({4});
  x.assign(Tensor::constant_of({4}, 1.0, DType::Float32));
  x.assign(Tensor::constant_of({4}, 1.0, DType::Float32));
  CHECK(kernels_of({x}) == 1);
  check_values(x, {1, 1, 1, 1});

  Tensor y = Tensor::zeros({4});
  y.assign(floats({1, 2, 3, 4}));
  y.reshape({2, 2}).permute({1, 0}).assign(floats({5, 6, 7, 8}, {2, 2}));
  CHECK(kernels_of({y}) == 1);
  check_values(y, {5, 7, 6, 8});

  Tensor read = Tensor::ones({4});  // its first value is needed
  read.assign(read + 1);
  check_values(read, {2, 2, 2, 2});
  Tensor partly = Tensor::ones({4});
  partly.set({Slice{1, 3}}, 5);
  check_values(partly, {1, 5, 5, 1});
  Tensor seen = Tensor::ones({4});
  const Tensor sum = seen.sum();
  seen.assign(floats({1, 2, 3, 4}));
  check_values(seen, {1, 2, 3, 4});
  check_values(sum, {4});
}

TEST_CASE("the same value into the same place twice") {
  Tensor x = floats({1, 2, 3, 4});
  const Tensor value = floats({7, 8}) + 1;
  x.set({Slice{1, 3}}, value);
  x.set({Slice{1, 3}}, value);
  CHECK(kernels_of({x}) <= 2);
  check_values(x, {1, 8, 9, 4});
}

TEST_CASE("its own contents") {
  Tensor x = floats({1, 2, 3, 4});
  x.at(Slice{1, 3}).assign(x.at(Slice{1, 3}));
  CHECK(kernels_of({x}) == 0);
  check_values(x, {1, 2, 3, 4});
}

TEST_CASE("contiguous values go straight into the memory they are assigned to") {
  for (bool is_initialised : {false, true}) {
    Tensor nested = Tensor::ones({4});
    if (is_initialised) nested.realize();
    nested.assign((nested + 1).contiguous().contiguous());
    CHECK(kernels_of({nested}) <= (is_initialised ? 1 : 2));
    check_values(nested, {2, 2, 2, 2});
  }
  Tensor x = floats({1, 2});
  x.assign((x + 1).contiguous());
  CHECK(kernels_of({x}) == 1);
  check_values(x, {2, 3});
  Tensor fresh = Tensor::zeros({2, 2});
  fresh.assign(floats({1, 2, 3, 4}, {2, 2}).permute({1, 0}).contiguous());
  CHECK(kernels_of({fresh}) == 1);
  check_values(fresh, {1, 3, 2, 4});
  // A value of before a write is not moved behind it.
  Tensor a = floats({1}), b = floats({5});
  const Tensor old = (a * 3).contiguous();
  a.assign(floats({2}));
  b += a;
  b.assign(old);
  Tensor::realize(std::vector{a, b});
  check_values(b, {3});
}

TEST_CASE("bitcast views of memory") {
  Tensor x = floats({1, 2, 3, 4});
  const UOp buffer = x.uop();
  x.bitcast(DType::UInt32).assign(x.bitcast(DType::UInt32).flip(0));
  check_values(x, {4, 3, 2, 1});
  CHECK(x.uop() == buffer);
  Tensor twice = floats({1, 2, 3, 4});
  twice.bitcast(DType::UInt32).bitcast(DType::Int32).assign(floats({4, 3, 2, 1}).bitcast(DType::Int32));
  check_values(twice, {4, 3, 2, 1});
  Tensor part = floats({1, 2, 3, 4});
  part.bitcast(DType::Int32).at(Slice{0, 2}).assign(floats({4, 3}).bitcast(DType::Int32));
  check_values(part, {4, 3, 3, 4});
  Tensor number = floats({1, 2});
  number.bitcast(DType::Int32).set({1}, 0x40400000);
  check_values(number, {1, 3});
}

TEST_CASE("bitcast views of elements of another size") {
  Tensor x = ints({1, 2});
  const UOp buffer = x.uop();
  Tensor bytes = x.bitcast(DType::UInt8);
  x += 0x100;
  CHECK(bytes.to_vector<int>() == std::vector{1, 1, 0, 0, 2, 1, 0, 0});
  bytes.set({Slice{0, 2}}, 0);
  bytes.at(7).assign(1);
  CHECK(kernels_of({x}) <= 2);
  check_values(x, {0, 0x01000102});
  CHECK(x.uop() == buffer);
  bytes.set({Slice{none, none, 3}}, 9);  // the last step ends outside
  check_values(x, {0x09000009, 0x01090102});
  bytes.realize();
  bytes.assign(bytes.flip(0));
  check_values(x, {0x02010901, 0x09000009});
  Tensor raw = Tensor::from(std::vector<uint8_t>(8, 1));
  raw.bitcast(DType::Float32).set({1}, 1.5);
  raw.bitcast(DType::UInt16).bitcast(DType::Float32).at(0).assign(-2.0);
  CHECK(raw.to_vector<int>() == std::vector{0, 0, 0, 0xc0, 0, 0, 0xc0, 0x3f});
}

TEST_CASE("an optimiser's pattern gives the values of running step by step") {
  const auto train = [](bool eager) {
    Tensor m = Tensor::zeros({3}).realize(), p = floats({1, 2, 3}), b = floats({1});
    for (int i = 0; i < 10; i++) {
      const Tensor g = p * 2;
      b *= 0.9;
      m.assign(m * 0.9 + g * 0.1);
      p.assign(p - m * 0.1 / (1 - b));
      if (eager) Tensor::realize(std::vector{m, p, b});
    }
    return p.to_vector<double>();
  };
  check_values(Tensor::from(train(false)), train(true), 1e-5);
}

TEST_CASE("from another device") {
  const Tensor far = floats({1, 2, 3}).clone("CPU:1").realize();
  const auto calls = [](const Tensor& t) { return make_schedule({{t.uop()}}).kernels.size(); };
  Tensor copied = Tensor::empty({3}), computed = Tensor::empty({3});
  copied.assign(far.to("CPU"));
  CHECK(calls(copied) == 1);
  computed.assign((far + 1).contiguous().to("CPU"));
  CHECK(calls(computed) == 2);
  check_values(copied, {1, 2, 3});
  check_values(computed, {2, 3, 4});
  copied.assign(7);  // a constant is of every device
  check_values(copied, {7, 7, 7});
}

TEST_CASE("clones swap") {
  Tensor a = floats({1, 2}), b = floats({3, 4});
  const Tensor old_a = a.clone(), old_b = b.clone();
  a.assign(old_b);
  b.assign(old_a);
  Tensor::realize(std::vector{a, b});
  check_values(a, {3, 4});
  check_values(b, {1, 2});
}

TEST_CASE("slices of values without memory") {
  const std::vector<Tensor> values = {
      floats({1, 2, 3}).flip(0).contiguous(),     floats({1, 2, 3}) * 2,
      floats({1, 2, 3, 4, 5, 6}, {2, 3}).sum(0),  ints({1, 2, 3}).cast(DType::Float32),
      floats({1, 2, 3}).clone("CPU:1").to("CPU"), Tensor::constant_of({3}, 4.0, DType::Float32)};
  const std::vector<std::vector<double>> expected = {{3, 9, 1}, {2, 9, 6}, {5, 9, 9},
                                                     {1, 9, 3}, {1, 9, 3}, {4, 9, 4}};
  for (size_t i = 0; i < values.size(); i++) {
    CAPTURE(i);
    Tensor v = values[i];
    v.set({1}, 9);
    check_values(v, expected[i]);
  }
}

TEST_CASE("what setting elements costs") {
  const auto cost = [](Tensor t, const std::vector<TensorIndex>& where, const Tensor& value) {
    t.set(where, value);
    return run({t});
  };
  const auto empty = [](int64_t n) { return Tensor::empty({SInt(n)}, {.dtype = DType::Int32}).realize(); };
  CHECK(cost(Tensor::arange(4), {1}, 3).kernels == 0);
  CHECK(cost(Tensor::constant_of({4}, 1, DType::Int32), {1}, 3).kernels == 0);
  for (const Tensor& t : {empty(4), ints({1, 2, 3, 4})}) {
    const Counters c = cost(t, {1}, 3);
    CHECK(c.kernels == 1);
    CHECK(c.bytes == 4);
  }
  const Counters expression = cost(empty(4) + 1, {1}, 3);
  CHECK(expression.kernels == 1);
  CHECK(expression.bytes <= 32);
  const Counters slice = cost(empty(100), {Slice{20, 50}}, 3),
                 tensor = cost(empty(100), {Slice{20, 50}}, empty(30)), all = cost(empty(100), {Slice{}}, 3);
  CHECK(slice.kernels == 1);
  CHECK(slice.bytes == 120);
  CHECK(tensor.kernels == 1);
  CHECK(tensor.bytes == 240);
  CHECK(all.kernels == 1);
  CHECK(all.bytes == 400);
}

TEST_CASE("assign checks device, dtype and shape") {
  Tensor x = floats({1, 2});
  CHECK(contains(user_error([&] { x.assign(ints({1, 2})); }).what(), "assign dtype mismatch"));
  CHECK(contains(user_error([&] { x.assign(Tensor::empty({2}, {.device = "NULL"})); }).what(),
                 "assign device mismatch"));
  CHECK_THROWS_AS(x.assign(floats({1, 2, 3})), UserError);
  const UOp before = x.uop();
  x.assign(x);
  CHECK(x.uop() == before);
}

TEST_CASE("a read of before the second of two writes") {
  Tensor x = Tensor::zeros({2}).realize();
  x.assign(floats({5, 6}));
  const Tensor between = x * 2;
  x.assign(floats({8, 10}));
  const Tensor after = x * 2;
  x.realize();
  check_values(between, {10, 12});
  check_values(after, {16, 20});
}

TEST_CASE("a reader is not fused past the write") {
  Tensor x = floats({1, 2, 3});
  const Tensor sum = x.sum();
  x.set({Slice{0, 2}}, 4);
  check_values(sum + x.sum(), {6 + 11});
  check_values(sum, {6});
}

TEST_CASE("scheduling takes no memory") {
  const int64_t before = counters().memory;
  {
    const Tensor x = Tensor::empty({256}) + 1;
    const UOp root = x.uop();
    const Schedule schedule = make_schedule({&root, 1});
    CHECK(schedule.kernels.size() == 1);
    CHECK(counters().memory == before);
    x.realize();
    CHECK(counters().memory >= before + 1024);
  }
  CHECK(counters().memory == before);
}

TEST_CASE("a reduction of what is overwritten stays apart from readers of what comes after") {
  std::vector<float> values(64 * 100, 1);
  Tensor x = Tensor::from(values, {SInt(64), SInt(100)}).realize();
  const auto f = [](Tensor& t) {
    const Tensor sum = t.sum(1, true);
    t.assign(t * 2);
    return t + sum;
  };
  check_values(f(x).sum(), {64 * 100 * 102.0});
}
