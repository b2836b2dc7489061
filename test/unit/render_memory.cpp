// Loads and stores: contiguous, gathered, gated, lanes, scratch; loops and branches around them.
#include "render_harness.h"

#include <cmath>
#include <numeric>

using namespace lathe;
using namespace lathe::test;

namespace {

UOp core_id(int64_t end) { return UOp::make(Op::Special, {i32(end)}, TextArg("core_id")); }
UOp fparam(int slot, int64_t n) { return param(slot, {n}, DType::Float32); }

std::vector<float> iota(size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

}  // namespace

TEST_CASE("an unaligned view, a symbolic offset and a variable") {
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 8)), a = p.emit(fparam(1, 32));
  const UOp n = p.emit(variable("n", 0, 7, DType::Int32)), m = p.emit(variable("m", -100, 100, DType::Int64));
  const UOp at = alu(Op::Add, {alu(Op::Mul, {n, i32(3)}), i32(1)});
  const UOp x = p.emit(load(vec(a, at, 8)));
  p.emit(store(vec(out, i32(0), 8), alu(Op::Add, {x, cast(m, DType::Float32)})));
  const std::vector<UOp> linear = p.finish();
  const Signature s = signature_of(linear);
  CHECK(s.buffers == std::vector<UOp>{out, a});
  CHECK(s.variables == std::vector<UOp>{m, n});  // by name
  CHECK(!s.core_id);
  run_everywhere("view", linear, {filled(32), iota(32)},
                 [](const auto& b) { CHECK(b[0].template as<float>() == iota(8, -3)); }, {-10, 2});
}

TEST_CASE("buffers come in the order of their slots, without holes") {
  LinearProgram p;
  const UOp late = p.emit(fparam(5, 1)), early = p.emit(fparam(2, 1));
  p.emit(store(index(early, i32(0)), load(index(late, i32(0)))));
  run_everywhere("slots", p.finish(), {filled(4), std::vector<float>{7}},
                 [](const auto& b) { CHECK(b[0].template as<float>()[0] == 7); });
}

TEST_CASE("the core id selects a part") {
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 6)), core = p.emit(core_id(3));
  const UOp r = p.open(2);
  const UOp at = alu(Op::Add, {alu(Op::Mul, {core, i32(2)}), r});
  p.close(p.emit(store(index(out, at), cast(at, DType::Float32))), r);
  run_everywhere(
      "core", p.finish(), {std::vector<float>(6, -1)},
      [](const auto& b) { CHECK(b[0].template as<float>() == std::vector<float>{-1, -1, -1, -1, 4, 5}); }, {},
      2);
}

TEST_CASE("bools are bytes in memory and lanes of vectors") {
  LinearProgram p;
  const UOp out = p.emit(param(0, {8}, DType::Bool)), a = p.emit(param(1, {8}, DType::Bool)),
            f = p.emit(fparam(2, 8));
  const UOp x = p.emit(load(vec(a, i32(0), 8))), y = p.emit(load(vec(f, i32(0), 8)));
  const UOp positive = alu(Op::CmpLt, {f32(0), y});
  const UOp both = alu(Op::And, {x, positive}), flipped = alu(Op::CmpNe, {both, constant(DType::Bool, true)});
  const UOp chosen = alu(Op::Where, {positive, x, flipped});
  p.emit(store(vec(out, i32(0), 8), alu(Op::Or, {chosen, alu(Op::CmpEq, {y, f32(-4)})})));
  p.emit(store(index(p.emit(param(3, {1}, DType::Float32)), i32(0)),
               cast(index(both, constant(3)), DType::Float32)));
  run_everywhere("bools", p.finish(),
                 {filled(8), std::vector<uint8_t>{1, 0, 1, 1, 0, 0, 1, 0},
                  std::vector<float>{1, 2, -1, 4, -4, -1, 2, -0.0f}, filled(4)},
                 [](const auto& b) {
                   CHECK(b[0].template as<uint8_t>() == std::vector<uint8_t>{1, 0, 1, 1, 1, 1, 1, 1});
                   CHECK(b[3].template as<float>()[0] == 1);
                 });
}

TEST_CASE("lanes are built, picked and shuffled") {
  LinearProgram p;
  const UOp a = p.emit(load(vec(fparam(1, 4), i32(0), 4)));
  const UOp lane = p.emit(index(a, constant(DType::Int32, 2)));
  const UOp made =
      p.emit(stack(std::array{lane, f32(5), alu(Op::Add, {lane, f32(1)}), index(a, constant(0))}));
  p.emit(store(vec(fparam(0, 4), i32(0), 4), made));
  p.emit(store(vec(fparam(2, 8), i32(0), 8), pick(a, {3, 3, 0, 1, 2, 0, 0, 1})));
  p.emit(store(vec(fparam(3, 3), i32(0), 3), pick(made, {2, 1, 0})));
  p.emit(store(vec(fparam(4, 2), i32(0), 2), stack(std::array{lane, lane})));
  p.emit(store(vec(fparam(5, 2), i32(0), 2), stack(std::array{f32(1), f32(2)})));
  const UOp less = alu(Op::CmpLt, {a, f32(2)});
  p.emit(store(vec(param(6, {2}, DType::Bool), i32(0), 2), pick(less, {3, 1})));
  p.emit(store(vec(param(7, {2}, DType::Bool), i32(0), 2),
               stack(std::array{index(less, constant(0)), constant(DType::Bool, false)})));
  p.emit(store(vec(fparam(8, 2), i32(0), 2), lane));  // a scalar fills a vector address
  run_everywhere(
      "lanes", p.finish(),
      {filled(16), iota(4), filled(32), filled(12), filled(8), filled(8), filled(2), filled(2), filled(8)},
      [](const auto& b) {
        CHECK(b[0].template as<float>() == std::vector<float>{2, 5, 3, 0});
        CHECK(b[2].template as<float>() == std::vector<float>{3, 3, 0, 1, 2, 0, 0, 1});
        CHECK(b[3].template as<float>() == std::vector<float>{3, 5, 2});
        CHECK(b[4].template as<float>() == std::vector<float>{2, 2});
        CHECK(b[5].template as<float>() == std::vector<float>{1, 2});
        CHECK(b[6].template as<uint8_t>() == std::vector<uint8_t>{0, 1});
        CHECK(b[7].template as<uint8_t>() == std::vector<uint8_t>{1, 0});
        CHECK(b[8].template as<float>() == std::vector<float>{2, 2});
      });
}

TEST_CASE("gathers and scatters of every width, plain and gated by lane") {
  for (DType d : {DType::Bool, DType::UInt8, DType::Int16, DType::Float16, DType::BFloat16, DType::Float32,
                  DType::Int64})
    for (DType index_type : {DType::Int32, DType::Int64, DType::UInt32}) {
      const auto size = static_cast<size_t>(item_size(d));
      LinearProgram p;
      const UOp out = p.emit(param(0, {4}, d)), in = p.emit(param(1, {6}, d));
      const UOp at = p.emit(load(vec(param(2, {4}, index_type), i32(0), 4)));
      const UOp gate = p.emit(load(vec(param(3, {4}, DType::Bool), i32(0), 4)));
      const UOp spread = p.emit(param(4, {6}, d)), some = p.emit(param(5, {6}, d)),
                gated = p.emit(param(6, {4}, d));
      const UOp x = p.emit(load(index(in, at)));
      p.emit(store(vec(out, i32(0), 4), x));
      p.emit(store(index(spread, at), x));
      p.emit(store_if(index(some, at), x, gate));
      p.emit(store(vec(gated, i32(0), 4), load_if(index(in, at), constant(d, 1), gate)));
      std::vector<uint8_t> source(6 * size), picks(4 * static_cast<size_t>(item_size(index_type)));
      // Booleans need 0 and 1; for the others any bytes do that are no NaN.
      for (size_t i = 0; i < source.size(); i++)
        source[i] = is_bool(d) ? i & 1 : static_cast<uint8_t>(0x11 * (i / size) + i % size);
      const size_t order[] = {5, 0, 3, 2};
      for (size_t i = 0; i < 4; i++) picks[i * picks.size() / 4] = static_cast<uint8_t>(order[i]);
      const std::vector<uint8_t> gates{1, 0, 1, 0};
      const auto element = [&](const Memory& m, size_t i) {
        return std::vector<std::byte>(m.bytes.begin() + static_cast<long>(i * size),
                                      m.bytes.begin() + static_cast<long>((i + 1) * size));
      };
      const std::vector<Memory> memory{
          filled(4 * size), source, picks, gates, filled(6 * size, 0), filled(6 * size, 0), filled(4 * size)};
      run_everywhere(fmt::format("gather_{}", dtype_full_name(d)), p.finish(), memory, [&](const auto& b) {
        std::vector<std::byte> one(8);
        const uint64_t code = encode(cast_scalar(Scalar(1), d), d);
        std::memcpy(one.data(), &code, 8);
        one.resize(size);
        const std::vector<std::byte> zero(size);
        for (size_t i = 0; i < 4; i++) {
          INFO(dtype_name(d), " by ", dtype_name(index_type), " lane ", i);
          CHECK(element(b[0], i) == element(b[1], order[i]));
          CHECK(element(b[4], order[i]) == element(b[1], order[i]));
          CHECK(element(b[5], order[i]) == (gates[i] ? element(b[1], order[i]) : zero));
          CHECK(element(b[6], i) == (gates[i] ? element(b[1], order[i]) : one));
        }
        CHECK(element(b[4], 1) == zero);
      });
    }
}

TEST_CASE("a false gate reads and writes nothing") {
  // The pointers of the gated buffers lead nowhere when the gate is false.
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 10)), in = p.emit(fparam(1, 1 << 30)),
            sink_buffer = p.emit(fparam(2, 1 << 30));
  const UOp n = p.emit(variable("n", 0, 1, DType::Int32));
  const UOp gate = p.emit(alu(Op::CmpNe, {n, i32(0)}));
  const UOp far = i32(1 << 29);
  const UOp one = p.emit(load_if(index(in, far), f32(-1), gate));
  const UOp four = p.emit(load_if(vec(in, far, 4), f32(-2), gate));
  const UOp lanes = p.emit(stack(std::array{gate, gate, gate, gate}));
  const UOp masked = p.emit(load_if(vec(in, far, 4), f32(-3), lanes));
  p.emit(store_if(index(sink_buffer, far), one, gate));
  p.emit(store_if(vec(sink_buffer, far, 4), four, gate));
  p.emit(store_if(vec(sink_buffer, far, 4), f32(0), lanes));
  p.emit(store(index(out, i32(0)), one));
  p.emit(store(vec(out, i32(1), 4), four));
  p.emit(store(vec(out, i32(5), 4), masked));
  run_everywhere(
      "gates", p.finish(), {std::vector<float>(10, 9), filled(4), filled(4)},
      [](const auto& b) {
        CHECK(b[0].template as<float>() == std::vector<float>{-1, -2, -2, -2, -2, -3, -3, -3, -3, 9});
      },
      {0});
}

TEST_CASE("gated stores of scalars and vectors") {
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 4)), lanes_out = p.emit(fparam(1, 8)), all = p.emit(fparam(2, 8));
  const UOp r = p.open(4);
  p.close(p.emit(store_if(index(out, r), f32(1), alu(Op::CmpLt, {i32(0), r}))), r);
  std::vector<UOp> numbers;
  for (int i = 0; i < 8; i++) numbers.push_back(i32(i));
  const UOp lane = p.emit(stack(numbers));
  p.emit(store_if(vec(lanes_out, i32(0), 8), f32(1), alu(Op::CmpLt, {i32(4), lane})));
  p.emit(store_if(vec(all, i32(0), 8), cast(lane, DType::Float32), constant(DType::Bool, true)));
  run_everywhere("stores", p.finish(), {std::vector<float>(4), std::vector<float>(8), filled(32)},
                 [](const auto& b) {
                   CHECK(b[0].template as<float>() == std::vector<float>{0, 1, 1, 1});
                   CHECK(b[1].template as<float>() == std::vector<float>{0, 0, 0, 0, 0, 1, 1, 1});
                   CHECK(b[2].template as<float>() == iota(8));
                 });
}

TEST_CASE("masked loads and stores of lane counts that are no power of two") {
  for (DType d : {DType::Bool, DType::Float16, DType::Float32, DType::UInt8}) {
    const auto size = static_cast<size_t>(item_size(d));
    LinearProgram p;
    const UOp gate = p.emit(load(vec(param(2, {3}, DType::Bool), i32(0), 3)));
    const UOp x = p.emit(load_if(vec(param(1, {3}, d), i32(0), 3), constant(d, 1), gate));
    p.emit(store(vec(param(0, {3}, d), i32(0), 3), x));
    p.emit(store_if(vec(param(3, {4}, d), i32(0), 3), x, gate));
    const uint64_t one = encode(cast_scalar(Scalar(1), d), d);
    run_everywhere(
        "three", p.finish(),
        {filled(3 * size), filled(3 * size, 0), std::vector<uint8_t>{1, 0, 1}, filled(4 * size, 0x3c)},
        [&](const auto& b) {
          std::vector<std::byte> wanted(3 * size);
          std::memcpy(wanted.data() + size, &one, size);
          CHECK(b[0].bytes == wanted);
          std::memset(wanted.data() + size, 0x3c, size);
          wanted.resize(4 * size, std::byte{0x3c});
          CHECK(b[3].bytes == wanted);
        });
  }
}

TEST_CASE("nested loops accumulate in scratch") {
  // out[i] = sum over j of a[i, j] * b[j], and the maximum of the products in a second scratch buffer.
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 3)), a = p.emit(fparam(1, 12)), b = p.emit(fparam(2, 4)),
            top = p.emit(fparam(3, 1));
  const UOp most = p.emit(scratch(1, DType::Float32)), acc = p.emit(scratch(1, DType::Float32));
  const UOp begin = p.emit(store(index(most, i32(0)), f32(-HUGE_VAL)));
  const UOp i = p.open(3);
  const UOp zero = p.emit(store(index(after(acc, {i}), i32(0)), f32(0)));
  const UOp j = p.open(4);
  const UOp x = p.emit(load(index(a, alu(Op::Add, {alu(Op::Mul, {i, i32(4)}), j})))),
            y = p.emit(load(index(b, j)));
  const UOp product = alu(Op::Mul, {x, y});
  const UOp sum = p.emit(store(index(after(acc, {zero, j}), i32(0)),
                               alu(Op::Add, {load(index(after(acc, {zero, j}), i32(0))), product})));
  const UOp larger = p.emit(store(index(after(most, {begin, j}), i32(0)),
                                  alu(Op::Max, {load(index(after(most, {begin, j}), i32(0))), product})));
  p.close(UOp::make(Op::Group, {sum, larger}), j);
  p.close(p.emit(store(index(out, i), load(index(after(acc, {sum, zero}), i32(0))))), i);
  p.emit(store(index(top, i32(0)), load(index(after(most, {larger, i}), i32(0)))));
  run_everywhere("dot", p.finish(), {filled(12), iota(12), std::vector<float>{1, -1, 2, 0}, filled(4)},
                 [](const auto& m) {
                   CHECK(m[0].template as<float>() == std::vector<float>{3, 11, 19});
                   CHECK(m[3].template as<float>()[0] == 20);
                 });
}

TEST_CASE("scratch of every dtype, by lane, by vector and with computed indices") {
  for (DType d : {DType::Bool, DType::Int8, DType::Float16, DType::BFloat16, DType::Int32, DType::Float64}) {
    LinearProgram p;
    const UOp out = p.emit(param(0, {8}, d)), in = p.emit(param(1, {8}, d));
    const UOp tmp = p.emit(scratch(8, d));
    const UOp r = p.open(8);
    const UOp back = alu(Op::Sub, {i32(7), r});
    const UOp put = p.emit(store(index(tmp, back), load(index(in, r))));
    p.close(put, r);
    const UOp first = p.emit(load(vec(after(tmp, {put}), i32(0), 4))),
              second = p.emit(load(vec(after(tmp, {put}), i32(4), 4)));
    p.emit(store(vec(out, i32(4), 4), first));
    p.emit(store(vec(out, i32(0), 4), second));
    std::vector<uint8_t> bytes(static_cast<size_t>(8 * item_size(d)));
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(is_bool(d) ? i % 3 == 0 : i);
    run_everywhere("reverse", p.finish(), {filled(bytes.size()), bytes}, [&](const auto& m) {
      const auto size = static_cast<size_t>(item_size(d));
      const size_t from[] = {3, 2, 1, 0, 7, 6, 5, 4};
      for (size_t i = 0; i < 8; i++) {
        INFO(dtype_name(d), " element ", i);
        CHECK(std::memcmp(m[0].bytes.data() + i * size, m[1].bytes.data() + from[i] * size, size) == 0);
      }
    });
  }
}

TEST_CASE("empty and symbolic loops") {
  for (int64_t n : {0, 5}) {
    LinearProgram p;
    const UOp out = p.emit(fparam(0, 8)), v = p.emit(variable("n", 0, 8, DType::Int64));
    const UOp r = p.open(v);
    CHECK(r.dtype() == DType::Int64);
    p.close(p.emit(store(index(out, r), f32(1))), r);
    const UOp none = p.open(0);
    p.close(p.emit(store(index(out, i32(7)), f32(2))), none);
    run_everywhere("loops", p.finish(), {std::vector<float>(8)},
                   [&](const auto& b) {
                     std::vector<float> wanted(8);
                     std::fill_n(wanted.begin(), n, 1.0f);
                     CHECK(b[0].template as<float>() == wanted);
                   },
                   {n});
  }
}

TEST_CASE("branches hold effects, inside loops and each other") {
  LinearProgram p;
  const UOp out = p.emit(fparam(0, 8));
  const UOp r = p.open(8);
  const UOp outer = p.emit(UOp::make(Op::If, {alu(Op::CmpLt, {i32(1), r}), out}));
  const UOp all = p.emit(store(index(out, r), f32(1)));
  const UOp inner = p.emit(UOp::make(Op::If, {alu(Op::CmpEq, {alu(Op::And, {r, i32(1)}), i32(0)}), all}));
  const UOp even = p.emit(store(index(out, r), cast(r, DType::Float32)));
  p.emit(UOp::make(Op::EndIf, {inner}));
  p.emit(UOp::make(Op::EndIf, {outer}));
  p.close(even, r);
  p.emit(UOp::make(Op::Barrier, {even}));
  run_everywhere("ifs", p.finish(), {std::vector<float>(8)}, [](const auto& b) {
    CHECK(b[0].template as<float>() == std::vector<float>{0, 0, 2, 1, 4, 1, 6, 1});
  });
}

TEST_CASE("integer overflow wraps although index arithmetic may not overflow") {
  LinearProgram p;
  const UOp x = p.emit(load(index(param(0, {1}, DType::Int32), i32(0)))),
            y = p.emit(load(vec(param(1, {2}, DType::Int32), i32(0), 2)));
  p.emit(store(index(param(2, {1}, DType::Bool), i32(0)), alu(Op::CmpLt, {alu(Op::Add, {x, i32(1)}), x})));
  p.emit(store(vec(param(3, {2}, DType::Bool), i32(0), 2), alu(Op::CmpLt, {alu(Op::Add, {y, i32(1)}), y})));
  run_everywhere("wraps", p.finish(),
                 {std::vector<int32_t>{INT32_MAX}, std::vector<int32_t>{INT32_MAX, 4}, filled(1), filled(2)},
                 [](const auto& b) {
                   CHECK(b[2].template as<uint8_t>() == std::vector<uint8_t>{1});
                   CHECK(b[3].template as<uint8_t>() == std::vector<uint8_t>{1, 0});
                 });
}

TEST_CASE("a matrix product whose tile of accumulators stays in registers") {
  constexpr int64_t kRows = 9, kCols = 2, kLanes = 32, kDepth = 5;
  LinearProgram p;
  const UOp c = p.emit(fparam(0, kRows * kCols * kLanes)), a = p.emit(fparam(1, kRows * kDepth)),
            b = p.emit(fparam(2, kDepth * kCols * kLanes));
  const UOp acc = p.emit(scratch(kRows * kCols * kLanes, DType::Float32));
  std::vector<UOp> zeros{acc};
  for (int64_t t = 0; t < kRows * kCols; t++)
    zeros.push_back(p.emit(store(vec(acc, i32(t * kLanes), kLanes), f32(0))));
  const UOp k = p.open(kDepth);
  zeros.push_back(k);
  const UOp live = UOp::make(Op::After, DType::Void, zeros);
  std::vector<UOp> rows, cols, effects;
  for (int64_t j = 0; j < kCols; j++)
    cols.push_back(p.emit(
        load(vec(b, alu(Op::Add, {alu(Op::Mul, {k, i32(kCols * kLanes)}), i32(j * kLanes)}), kLanes))));
  for (int64_t i = 0; i < kRows; i++)
    rows.push_back(p.emit(load(index(a, alu(Op::Add, {k, i32(i * kDepth)})))));
  for (int64_t i = 0; i < kRows; i++)
    for (int64_t j = 0; j < kCols; j++) {
      const UOp at = vec(live, i32((i * kCols + j) * kLanes), kLanes);
      effects.push_back(p.emit(store(
          at, alu(Op::MulAcc, {rows[static_cast<size_t>(i)], cols[static_cast<size_t>(j)], load(at)}))));
    }
  const UOp all = p.emit(UOp::make(Op::Group, DType::Void, effects));
  p.close(all, k);
  for (int64_t t = 0; t < kRows * kCols; t++)
    p.emit(store(vec(c, i32(t * kLanes), kLanes), load(vec(after(acc, {all}), i32(t * kLanes), kLanes))));
  const std::vector<UOp> linear = p.finish();
  std::vector<float> x(kRows * kDepth), y(kDepth * kCols * kLanes), z(kRows * kCols * kLanes);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < y.size(); i++) y[i] = static_cast<float>(i % 11) - 5;
  for (size_t i = 0; i < kRows; i++)
    for (size_t j = 0; j < kCols * kLanes; j++)
      for (size_t d = 0; d < kDepth; d++)
        z[i * kCols * kLanes + j] += x[i * kDepth + d] * y[d * kCols * kLanes + j];
  run_everywhere("tile", linear, {filled(z.size() * 4), x, y},
                 [&](const auto& m) { CHECK(m[0].template as<float>() == z); });
}

TEST_CASE("results that the caches cannot hold are streamed where they are aligned") {
  Target small = llvm_target();
  small.l3_bytes = 1 << 10;
  const LlvmRenderer renderer(small);
  const auto text_of = [&](bool in_place) {
    LinearProgram p;
    const UOp out = p.emit(fparam(0, 1024)), in = p.emit(in_place ? out : fparam(1, 1024));
    const UOp r = p.open(32), at = alu(Op::Shl, {r, i32(5)});
    const UOp x = p.emit(load(vec(in, at, 32)));
    p.close(p.emit(store(vec(out, at, 32), alu(Op::Add, {x, f32(1)}))), r);
    return renderer.render("stream", p.finish());
  };
  CHECK(!contains(text_of(true).source, "nontemporal"));  // it is in the caches already
  const Rendered text = text_of(false);
  CHECK(contains(text.source, "nontemporal") == (small.arch == "x86_64"));
  const auto loaded = LoadedObject::load(compile_llvm(text.source));
  const auto entry = reinterpret_cast<HostEntry>(const_cast<void*>(loaded->symbol(text.entry)));
  for (const size_t offset : {0, 1, 16}) {
    CAPTURE(offset);
    alignas(64) static float memory[1024 + 32];
    std::fill(std::begin(memory), std::end(memory), -1.0f);
    std::vector<float> in = iota(1024);
    void* pointers[] = {memory + offset, in.data()};
    entry(pointers, nullptr, 0);
    const auto result = std::span(memory).subspan(offset, 1024);
    CHECK(std::equal(result.begin(), result.end(), iota(1024, 1).begin()));
    CHECK(std::all_of(std::begin(memory), std::begin(memory) + offset, [](float v) { return v == -1; }));
    CHECK(memory[offset + 1024] == -1);
  }
}
