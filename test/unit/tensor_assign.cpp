// Writing to memory: aliases, order of reads and writes, selections.
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("copies of a handle are one tensor") {
  Tensor a = floats({1, 2});
  const Tensor b = a;
  a += 1;
  check_values(b, {2, 3});
  a = a * 10;  // another tensor for `a`
  check_values(b, {2, 3});
  check_values(a, {20, 30});
}

TEST_CASE("views see what is written, expressions keep what they read") {
  Tensor x = floats({0, 1, 2, 3});
  const Tensor view = x.reshape({2, 2}).T(), before = x + 0;
  x += 10;
  check_values(view, {10, 12, 11, 13});
  check_values(x, {10, 11, 12, 13});
  check_values(before, {0, 1, 2, 3});
}

TEST_CASE("an expression read after its input was overwritten and realised") {
  Tensor x = floats({1, 2});
  const Tensor doubled = x * 2;
  x.assign(floats({5, 6}));
  x.realize();
  check_values(doubled, {2, 4});
  check_values(x, {5, 6});
}

TEST_CASE("other memory that waits for a value of the overwritten one") {
  Tensor x = floats({1, 2});
  const Tensor copy = (x * 2).clone();
  Tensor partial = Tensor::zeros({3}).realize();
  partial.set({Slice{1, 3}}, x);
  x += 10;
  x.realize();
  check_values(copy, {2, 4});
  check_values(partial, {0, 1, 2});
  check_values(x, {11, 12});
}

TEST_CASE("versions of memory between writes") {
  Tensor x = floats({0});
  std::vector<Tensor> seen;
  for (int i = 0; i < 3; i++) {
    seen.push_back(x + 0);
    x += 1;
  }
  for (int i = 0; i < 3; i++) CHECK(seen[static_cast<size_t>(i)].item<float>() == static_cast<float>(i));
  CHECK(x.item<float>() == 3);
}

TEST_CASE("an expression of memory before and after a write") {
  Tensor a = floats({1, 2});
  const Tensor t = (a * 3).contiguous();
  a.assign(floats({2, 2}));
  check_values(a + (t - 1), {4, 7});
}

TEST_CASE("tensors that write to each other in turn") {
  Tensor a = floats({2}), b = floats({3});
  a.assign(a + b);
  b.assign(b + a);
  CHECK(a.item<float>() == 5);
  CHECK(b.item<float>() == 8);
}

TEST_CASE("the memory stays the same") {
  Tensor x = floats({1, 2});
  const UOp buffer = x.uop();
  for (int i = 0; i < 3; i++) {
    x += 1;
    x.realize();
    CHECK(x.uop() == buffer);
  }
  check_values(x, {4, 5});
}

TEST_CASE("selections are written in place") {
  Tensor x = floats({1, 2, 3, 4});
  x.at(Slice{2, 4}) += 1;
  check_values(x, {1, 2, 4, 5});
  x.at(Slice{1, 3}).assign(x.at(Slice{2, 4}) + 1);
  check_values(x, {1, 5, 6, 5});
  x.set({0}, 9);
  check_values(x, {9, 5, 6, 5});
  x.set({Slice{none, none, 2}}, floats({-1, -2}));
  check_values(x, {-1, 5, -2, 5});
  x.set({Slice{none, none, -1}}, floats({1, 2, 3, 4}));
  check_values(x, {4, 3, 2, 1});
  Tensor m = Tensor::zeros({2, 3});
  m.set({1, Slice{1, 3}}, 7);
  m.set({Slice{}, 0}, floats({1, 2}));
  check_values(m, {1, 0, 0, 2, 7, 7});
}

TEST_CASE("overlapping writes happen in order") {
  Tensor x = Tensor::zeros({8});
  x.at(Slice{0, 4}).assign(Tensor::ones({4}));
  x.at(Slice{2, 6}).assign(Tensor::full({4}, 2.0));
  check_values(x, {1, 1, 2, 2, 2, 2, 0, 0});
  Tensor y = Tensor::zeros({8});
  y.at(Slice{2, 6}).assign(Tensor::full({4}, 2.0));
  y.at(Slice{0, 4}).assign(Tensor::ones({4}));
  check_values(y, {1, 1, 1, 1, 2, 2, 0, 0});
}

TEST_CASE("a tensor assigned from itself in another order") {
  Tensor x = floats({1, 2, 3, 4}, {2, 2});
  x.assign(x.T() + x);
  check_values(x, {2, 5, 5, 8});
  Tensor y = floats({1, 2, 3});
  y.assign(y.flip(0));
  check_values(y, {3, 2, 1});
}

TEST_CASE("gathered positions can be set, the last of equal ones wins") {
  Tensor x = floats({0, 0, 0, 0});
  x.set({ints({1, 3, 1})}, floats({5, 6, 7}));
  check_values(x, {0, 7, 0, 6});
  x.set({ints({0, -1})}, 9);
  check_values(x, {9, 7, 0, 9});
  Tensor m = Tensor::zeros({2, 3});
  m.set({ints({0, 1}), ints({2, 0})}, floats({1, 2}));
  check_values(m, {0, 0, 1, 2, 0, 0});
  Tensor c = Tensor::zeros({2, 2, 3});
  c.set({ints({0, 1}), Slice{}, ints({2, 0})}, floats({1, 2, 3, 4}, {2, 2}));
  check_values(c, {0, 0, 1, 0, 0, 2, 3, 0, 0, 4, 0, 0});
  Tensor rows = Tensor::zeros({3, 2});
  rows.set({Slice{}, ints({1})}, 5);
  check_values(rows, {0, 5, 0, 5, 0, 5});
}

TEST_CASE("expressions without memory take a new value") {
  Tensor e = floats({1, 2, 3}) * 2;
  e.set({1}, 0);
  check_values(e, {2, 0, 6});
  Tensor i = Tensor::arange(4);
  i.set({Slice{1, 3}}, 9);
  check_values(i, {0, 9, 9, 3});
  Tensor s = floats({1, 2}) + 1;
  const Tensor other = floats({7, 8});
  s.assign(other);
  s += 1;
  check_values(s, {8, 9});
  check_values(other, {7, 8});
}

TEST_CASE("equal expressions are not the same memory") {
  const Tensor x = floats({1, 2});
  Tensor a = x + 1, b = x + 1;
  a += 1;
  check_values(b, {2, 3});
  Tensor c(3), d(3);
  c += 1;
  CHECK(d.item<int>() == 3);
}

TEST_CASE("clones are apart") {
  Tensor a = floats({1, 2});
  const Tensor b = a.clone();
  a += 1;
  check_values(b, {1, 2});
  check_values(a, {2, 3});
  Tensor z = Tensor::zeros({2}), o = Tensor::zeros({2});
  z += 1;
  check_values(o, {0, 0});
  check_values(z, {1, 1});
}

TEST_CASE("bitcast views write through") {
  Tensor x = ints({1, 2});
  x.bitcast(DType::UInt32).assign(Tensor::from(std::vector<uint32_t>{7, 0xffffffff}));
  check_values(x, {7, -1});
}

TEST_CASE("an unread gradient is an error once its parameter has changed") {
  Tensor p = floats({1, 2});
  p.square().sum().backward();
  const Tensor g = *p.grad();
  p.assign(p.detach() - g * 0.5);
  p.realize();
  check_values(p, {0, 0});
  CHECK(contains(user_error([&] { g.realize(); }).what(), "overwritten"));
  p.set_grad(std::nullopt);
  p.square().sum().backward();
  check_values(*p.grad(), {0, 0});
}

TEST_CASE("realize leaves constants alone") {
  const Tensor c = Tensor::constant_of({2}, 1.0);
  c.realize();
  CHECK(!c.is_realized());
  const Tensor x = floats({1});
  CHECK(x.is_realized());
  const Tensor y = x + 1;
  CHECK(!y.is_realized());
  y.realize();
  CHECK(y.is_realized());
  CHECK(x.at(0).is_realized());
}

TEST_CASE("dropped tensors leave no nodes behind") {
  const auto work = [] {
    Tensor x = floats({1, 2, 3});
    x.set({1}, 5);
    (x.softmax() * x.sum()).sum().backward();
    x.assign(x - *x.grad());
    x.realize();
  };
  work();  // what is made once
  const size_t before = live_node_count();
  work();
  CHECK(live_node_count() <= before + 8);
}

TEST_CASE("long chains build, run and die") {
  Tensor x = floats({0});
  for (int i = 0; i < 2000; i++) x = x + 1;
  CHECK(x.uop().shape()[0].value() == 1);
  Tensor g = floats({2}), y = g;
  for (int i = 0; i < 500; i++) y = y.sin();
  CHECK(y.sum().gradient({g})[0].uop().shape()[0].value() == 1);
}
