// Tensors over several devices: where they are, how they move, assignment, kernels and memory.
#include "base/knobs.h"
#include "engine/counters.h"
#include "nn/optimizer.h"
#include "nn/training.h"
#include "tensor/jit.h"
#include "unit/tensor_check.h"

#include <functional>
#include <string>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

const std::vector<std::string> kTwo = {"CPU:0", "CPU:1"};
const std::vector<std::string> kFour = {"CPU", "CPU:1", "CPU:2", "CPU:3"};
const std::vector<std::string> kNull = {"NULL:0", "NULL:1"};

std::vector<double> range(int n, double first = 0) {
  std::vector<double> out;
  for (int i = 0; i < n; i++) out.push_back(first + i);
  return out;
}
Tensor counting(const Shape& shape, const std::string& device = "") {
  const auto n = static_cast<int>(prod(shape).value());
  const std::vector<double> values = range(n);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape, {std::nullopt, device});
}
std::string error_of(const std::function<void()>& f) { return user_error(f).what(); }

}  // namespace

TEST_CASE("a tensor knows its devices and the axis it is split along") {
  const Tensor x = counting({4, 6});
  const Tensor pieces = x.shard(kTwo, -1), copies = x.shard(kTwo);
  CHECK(pieces.device() == "CPU,CPU:1");
  CHECK(pieces.shard_axis() == 1);
  CHECK(shape_text(pieces) == "(4, 6)");
  CHECK(!copies.shard_axis());
  CHECK((pieces.T() + 1).shard_axis() == 0);
  CHECK(!pieces.sum(1).shard_axis());
  CHECK(pieces.sum(0).shard_axis() == 0);
  CHECK(pieces.erf().shard_axis() == 1);  // whose gradient is given
  CHECK(x.shard({"CPU:1"}).device() == "CPU:1");
  CHECK(Tensor(3).shard(kTwo).device().empty());
  CHECK(!pieces.is_realized());
  pieces.realize();
  CHECK(pieces.is_realized());
  CHECK(pieces.shard_axis() == 1);
  check_values(pieces, range(24));
  check_values(copies, range(24));
}

TEST_CASE("errors of sharding") {
  const Tensor x = counting({4, 6}), pieces = x.shard(kTwo, 0);
  CHECK(contains(error_of([&] { x.shard(kFour, 1); }), "multi axis uneven"));
  CHECK(contains(error_of([&] { pieces.shard(kTwo, 0); }), "can't shard a multi-device tensor"));
  CHECK(contains(error_of([&] { x.shard({"CPU:1", "cpu:1"}); }), "device CPU:1 occurs twice"));
  CHECK(contains(error_of([&] { (pieces + x).realize(); }), "all buffers must be on the same device"));
  CHECK(contains(error_of([&] { (pieces.reshape({3, 8}) + 1).realize(); }),
                 "reshape (4, 6) -> (3, 8) moved items between shards"));
  CHECK(contains(error_of([&] { (pieces.flip(0) + 1).realize(); }),
                 "flipping not supported on sharded axis 0"));
  CHECK(contains(error_of([&] { (pieces.pad({0, 0, 1, 0}) + 1).realize(); }),
                 "padding not supported for sharded axis 0"));
  CHECK(contains(error_of([&] { (pieces.shrink({{1, 3}, none}) + 1).realize(); }),
                 "shrinking not supported for sharded axis 0"));
  CHECK(contains(error_of([&] { Tensor::rand({4}, {std::nullopt, "CPU,CPU:1"}); }),
                 "rand only supports single device"));
  CHECK(contains(error_of([&] { pieces.zeros_like({std::nullopt, "CPU"}); }), "cannot specify `device`"));
  CHECK(contains(error_of([&] { Tensor(pieces).assign(x); }), "assign device mismatch"));
}

TEST_CASE("values move between one device and several") {
  const Tensor x = counting({4, 6});
  const Tensor rows = x.shard(kTwo, 0), columns = x.shard(kTwo, 1), copies = x.shard(kTwo);
  for (const Tensor& t : {rows, columns, copies}) {
    for (const char* device : {"CPU", "CPU:1", "CPU:2"}) {
      const Tensor one = t.to(device);
      CHECK(one.device() == device);
      check_values(one, range(24));
    }
    check_values(t.to("CPU:2,CPU:1,CPU:3"), range(24));
    for (const Tensor& like : {rows, columns, copies}) {
      const Tensor moved = t.shard_like(like);
      CHECK(moved.shard_axis() == like.shard_axis());
      check_values(moved, range(24));
    }
  }
  check_values(Tensor::arange(32).clone().shard(kFour, 0).to("CPU:1") + 1, range(32, 1));
  check_values(rows.at(Slice{2, 4}), range(12, 12));  // all of one shard
}

TEST_CASE("copies of one device do not share memory with what they were made of") {
  Tensor x = counting({4});
  Tensor copies = x.shard(kTwo), pieces = x.shard(kTwo, 0), also = x.to("CPU,CPU:1");
  Tensor::realize(std::vector{copies, pieces, also});
  Tensor one = copies.to("CPU").realize();
  copies += 1, pieces += 2, also += 3;
  Tensor::realize(std::vector{copies, pieces, also});
  check_values(x, range(4));
  check_values(one, range(4));
  check_values(copies, range(4, 1));
  check_values(pieces, range(4, 2));
  check_values(also, range(4, 3));
}

TEST_CASE("assignment writes every device in place") {
  for (const auto axis : {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(1)}) {
    CAPTURE(axis.value_or(-1));
    Tensor x = counting({4, 4}).shard(kTwo, axis);
    const Tensor view = x.T(), before = x * 2;
    x += 1;
    check_values(x, range(16, 1));
    const UOp memory = x.uop();
    for (int i = 0; i < 3; i++) (x += 1).realize();
    CHECK(x.uop() == memory);
    check_values(x, range(16, 4));
    check_values(view.T(), range(16, 4));
    check_values(before / 2, range(16));
    // The value comes to where the target is.
    for (const auto other :
         {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(1)}) {
      x.assign(counting({4, 4}).shard(kTwo, other));
      CHECK(x.shard_axis() == (axis ? std::optional<int>(static_cast<int>(*axis)) : std::nullopt));
      check_values(x, range(16));
      for (const std::string& d : kTwo) check_values(x.to(d), range(16));
    }
  }
}

TEST_CASE("part of a tensor over several devices is assigned") {
  Tensor x = counting({4, 4}).shard(kTwo, 0);
  x.set({Slice{}, Slice{0, 4, 3}}, -1);
  check_values(x, {-1, 1, 2, -1, -1, 5, 6, -1, -1, 9, 10, -1, -1, 13, 14, -1});
  x.set({Slice{2, 4}}, counting({2, 4}).shard(kTwo));  // one shard
  check_values(x, {-1, 1, 2, -1, -1, 5, 6, -1, 0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("tensors like one over several devices are where it is") {
  Tensor::manual_seed(3);
  const Tensor pieces = counting({4, 8}).shard(kTwo, 1), copies = counting({4, 8}).shard(kTwo);
  for (const Tensor& t : {pieces, copies})
    for (const Tensor& like :
         {t.zeros_like(), t.full_like(2), t.empty_like(), t.rand_like(), t.randn_like(), t.clone()}) {
      CHECK(like.device() == t.device());
      CHECK(like.shard_axis() == t.shard_axis());
      CHECK(shape_text(like) == "(4, 8)");
    }
  check_values(pieces.full_like(2) + pieces, range(32, 2));
  const std::vector<float> drawn = pieces.rand_like().to_vector<float>();
  CHECK(std::vector<float>(drawn.begin(), drawn.begin() + 4) !=
        std::vector<float>(drawn.begin() + 4, drawn.begin() + 8));
  const Tensor same = copies.rand_like().realize();
  CHECK(same.to("CPU").to_vector<float>() == same.to("CPU:1").to_vector<float>());
  check_values(Tensor::full({2}, 5.0, {std::nullopt, "CPU:1,CPU"}), {5, 5});
  check_values(Tensor::from(std::vector<float>{1, 2}, {std::nullopt, "CPU:1,CPU"}), {1, 2});
}

TEST_CASE("gradients flow back to where a value came from") {
  for (const auto axis : {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(1)}) {
    const Tensor x = counting({2, 4}), y = x.shard(kTwo, axis);
    (y * y).sum().backward();
    CHECK(x.grad()->device() == "CPU");
    CHECK(y.grad()->device() == "CPU,CPU:1");
    check_values(*x.grad() / 2, range(8));
    check_values(*y.grad() / 2, range(8));
    const Tensor again = counting({2, 4}).shard(kTwo, axis).realize();
    (again.to("CPU") * counting({2, 4})).sum().backward();
    CHECK(again.grad()->device() == again.device());
    check_values(*again.grad(), range(8));
  }
}

TEST_CASE("memory of each device") {
  const auto used = [](const std::vector<std::string>& devices) {
    std::vector<int64_t> out;
    for (const std::string& d : devices) out.push_back(memory_on(d));
    return out;
  };
  using Bytes = std::vector<int64_t>;
  const Bytes none = {0, 0};
  REQUIRE(used(kNull) == none);
  const auto full = [] { return Tensor::ones({100, 100}, {std::nullopt, "NULL"}); };
  {
    const Tensor one = full().realize();
    CHECK(used(kNull) == Bytes{40000, 0});
  }
  CHECK(used(kNull) == none);
  {
    const Tensor copies = full().shard(kNull).realize();
    CHECK(used(kNull) == Bytes{40000, 40000});
  }
  CHECK(used(kNull) == none);
  for (const int64_t axis : {0, 1}) {
    const Tensor pieces = full().shard(kNull, axis).realize();
    CHECK(used(kNull) == Bytes{20000, 20000});
    const Tensor like = pieces.zeros_like().realize();
    CHECK(used(kNull) == Bytes{40000, 40000});
  }
  CHECK(used(kNull) == none);
  {
    const std::vector<std::string> four = {"NULL", "NULL:1", "NULL:2", "NULL:3"};
    const Tensor copies = Tensor::ones({256}, {std::nullopt, "NULL"}).shard(four).realize();
    CHECK(used(four) == Bytes{1024, 1024, 1024, 1024});
    const Tensor half = Tensor::ones({256}, {DType::Float16, "NULL"}).shard(four, 0).realize();
    CHECK(used(four) == Bytes{1152, 1152, 1152, 1152});
  }
  CHECK(used(kNull) == none);
  for (const DType d : {DType::Float32, DType::Float16}) {
    const Tensor x = Tensor::ones({64, 64}, {d, "NULL"}).shard(kNull, 0), w = x.shard_like(x.sum(0));
    const Tensor y = x.matmul(w).realize();
    const int64_t bytes = (32 + 64 + 32) * 64 * item_size(d);
    CHECK(used(kNull) == Bytes{bytes, bytes});
    const Tensor constant = Tensor::constant_of({64}, 2).shard(kNull).realize();
    CHECK(used(kNull) == Bytes{bytes, bytes});
  }
  CHECK(used(kNull) == none);
}

TEST_CASE("kernels of values over several devices") {
  struct Row {
    std::string graph;
    uint64_t most;
    Tensor x;
    std::function<Tensor(const Tensor&)> f;
  };
  const std::vector<std::string> four = {"NULL", "NULL:1", "NULL:2", "NULL:3"};
  const auto made = [](const std::vector<std::string>& devices, std::optional<int64_t> axis) {
    return Tensor::ones({16, 16}, {std::nullopt, "NULL"}).shard(devices, axis).realize();
  };
  const Tensor x = made(kNull, 1), copies = made(kNull, std::nullopt), rows = made(kNull, 0);
  const std::vector<Row> table = {
      {"shrink off the shard axis", 0, x, [](const Tensor& t) { return t.at(Slice{2, 6}).contiguous(); }},
      {"index off the shard axis", 0, x, [](const Tensor& t) { return t.at(2).contiguous(); }},
      {"reshape and index", 0, x, [](const Tensor& t) { return t.reshape({4, 4, 16}).at(1).contiguous(); }},
      {"chained shrink", 0, x,
       [](const Tensor& t) { return t.at(Slice{2, 10}).at(Slice{1, 4}).contiguous(); }},
      {"index on four devices", 0, made(four, 1), [](const Tensor& t) { return t.at(3).contiguous(); }},
      {"reshape of copies", 0, copies, [](const Tensor& t) { return t.reshape({8, 32}).contiguous(); }},
      {"shrink of copies", 0, copies, [](const Tensor& t) { return t.at(Slice{2, 6}).contiguous(); }},
      {"inner shrink", 2, rows, [](const Tensor& t) { return t.shrink({none, {2, 6}}).contiguous(); }},
      {"permute and shrink", 2, x, [](const Tensor& t) { return t.T().shrink({none, {2, 6}}).contiguous(); }},
      {"expand", 2, x,
       [](const Tensor& t) { return t.reshape({16, 1, 16}).expand({16, 4, 16}).contiguous(); }},
      {"pad", 2, x, [](const Tensor& t) { return t.pad({0, 0, 1, 1}).contiguous(); }},
      {"flip", 2, x, [](const Tensor& t) { return t.flip(0).contiguous(); }},
      {"permute of copies", 2, copies, [](const Tensor& t) { return t.T().contiguous(); }},
      {"elementwise", 2, x, [](const Tensor& t) { return t * 2 + 1; }},
      {"a constant like it", 0, x, [](const Tensor& t) { return t.const_like(2).at(Slice{}, Slice{0, 8}); }},
      {"empty", 0, x, [](const Tensor& t) { return t.empty_like(); }},
      {"abs-max scaling, two kernels a device", 4, x, [](const Tensor& t) { return t / t.abs().max(); }},
  };
  for (const Row& row : table) {
    INFO(row.graph);
    const Tensor y = row.f(row.x);
    reset_counters();
    y.realize();
    CHECK(counters().kernels <= row.most);
  }
}

TEST_CASE("captured functions take and give tensors over several devices") {
  for (const auto axis : {std::optional<int64_t>(), std::optional<int64_t>(0)}) {
    Tensor state = Tensor::zeros({4}).shard(kTwo, axis);
    auto f = jit([&](const Tensor& x, const Tensor& w) {
      state += x.sum(1);
      return std::pair(x * w, (x * w).sum());
    });
    double total = 0;
    for (int i = 0; i < 5; i++) {
      const Tensor x = (counting({4, 2}) + i).shard(kTwo, axis);
      const auto [y, sum] = f(x, Tensor::full({2}, 2.0).shard(kTwo));
      CHECK(f.is_captured() == (i >= 1));
      CHECK(y.shard_axis() == x.shard_axis());
      check_values(y / 2, range(8, i));
      check_values(sum, {2.0 * (28 + 8 * i)});
      total += 28 + 8 * i;
    }
    check_values(state.sum(), {total});
    CHECK(contains(error_of([&] { f(counting({4, 2}), counting({2}).shard(kTwo)); }), "device CPU"));
    const uint64_t before = counters().schedules;
    f((counting({4, 2})).shard(kTwo, axis).realize(), Tensor::full({2}, 2.0).shard(kTwo).realize());
    CHECK(counters().schedules == before + 2);  // of the arguments
  }
}

TEST_CASE("a part that is made contiguous is apart from the tensor it is a part of") {
  Tensor x = counting({4}).shard(kTwo, 0);
  Tensor::realize(std::vector{x});
  const Tensor part = x.at(Slice{0, 2}).contiguous();
  part.realize();
  x.assign(x + 10);
  x.realize();
  check_values(part.to("CPU"), {0, 1});
  check_values(part.to("CPU:1"), {0, 1});
}
