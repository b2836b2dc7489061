// Every ALU op, cast and bitcast of every dtype, as scalars in a loop and as vectors, against references that
// know nothing of the renderers.
#include "render_harness.h"
#include "uop/scalar.h"

#include <cmath>
#include <limits>

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr DType kTypes[] = {DType::Bool,     DType::Int8,    DType::UInt8,  DType::Int16,  DType::UInt16,
                            DType::Int32,    DType::UInt32,  DType::Int64,  DType::UInt64, DType::Float16,
                            DType::BFloat16, DType::Float32, DType::Float64};

Memory encoded(const std::vector<Scalar>& values, DType d) {
  const size_t size = static_cast<size_t>(item_size(d));
  Memory m;
  m.bytes.resize(values.size() * size);
  for (size_t i = 0; i < values.size(); i++) {
    const uint64_t bits = encode(cast_scalar(values[i], d), d);
    std::memcpy(m.bytes.data() + i * size, &bits, size);
  }
  return m;
}

Scalar decoded(const Memory& m, size_t i, DType d) {
  const size_t size = static_cast<size_t>(item_size(d));
  uint64_t bits = 0;
  std::memcpy(&bits, m.bytes.data() + i * size, size);
  return decode(bits, d);
}

std::vector<Scalar> operand_values(DType d, int which) {
  const auto ints = [](std::initializer_list<int64_t> v) { return std::vector<Scalar>(v.begin(), v.end()); };
  const auto floats = [](std::initializer_list<double> v) { return std::vector<Scalar>(v.begin(), v.end()); };
  if (is_bool(d))
    return which == 0   ? ints({0, 0, 1, 1, 0, 1, 1, 0})
           : which == 1 ? ints({0, 1, 0, 1, 1, 1, 0, 0})
                        : ints({1, 0, 1, 0, 1, 0, 1, 0});
  if (is_float(d)) {
    if (which == 0) return floats({1.5, -2.25, 0.0, 100.0, -0.0, 3.0, 7.75, -1e-3});
    if (which == 1) return floats({0.5, 3.0, -1.0, -7.0, 2.0, 3.0, -0.125, 1e3});
    return floats({1.0, -1.0, 0.25, 6.0, -3.0, 2.0, 0.0, 4.0});
  }
  const Scalar lo = min_value(d), hi = max_value(d);
  if (which == 0)
    return {lo, hi, Scalar(7), Scalar(is_unsigned(d) ? 9 : -9), hi, Scalar(100), Scalar(0), Scalar(3)};
  if (which == 1)
    return {Scalar(3), hi,          Scalar(2), Scalar(4),
            Scalar(2), Scalar(100), Scalar(5), Scalar(is_unsigned(d) ? 1 : -1)};
  return {Scalar(1), Scalar(2), Scalar(3), Scalar(4), Scalar(5), Scalar(6), Scalar(7), Scalar(8)};
}

constexpr Op kOps[] = {Op::Add,   Op::Sub,   Op::Mul,   Op::MulAcc, Op::FDiv, Op::CDiv,  Op::CMod,
                       Op::Shl,   Op::Shr,   Op::Max,   Op::Xor,    Op::Or,   Op::And,   Op::CmpLt,
                       Op::CmpNe, Op::CmpEq, Op::Where, Op::Neg,    Op::Sqrt, Op::Trunc, Op::Reciprocal};

bool applies(Op op, DType d) {
  if (op == Op::FDiv || op == Op::Sqrt || op == Op::Reciprocal) return is_float(d);
  if (op == Op::Xor || op == Op::Or || op == Op::And) return !is_float(d);
  if (op == Op::CDiv || op == Op::CMod || op == Op::Shl || op == Op::Shr) return is_int(d);
  if (op == Op::Sub || op == Op::Neg || op == Op::Trunc || op == Op::MulAcc) return !is_bool(d);
  return true;
}

bool is_comparison(Op op) { return has_flag(op, kComparison); }

int128 int_reference(Op op, int128 a, int128 b, int128 c, DType d) {
  switch (op) {
    case Op::Add: return is_bool(d) ? (a | b) : a + b;
    case Op::Sub: return a - b;
    case Op::Mul:
      return static_cast<int128>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case Op::MulAcc:
      return static_cast<int128>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)) + c;
    case Op::CDiv: return a / b;
    case Op::CMod: return a % b;
    case Op::Shl: return a * (int128{1} << static_cast<int>(c & 7));
    case Op::Shr: return a >> static_cast<int>(c & 7);
    case Op::Max: return a < b ? b : a;
    case Op::Xor: return a ^ b;
    case Op::Or: return a | b;
    case Op::And: return a & b;
    case Op::CmpLt: return a < b;
    case Op::CmpNe: return a != b;
    case Op::CmpEq: return a == b;
    case Op::Where: return c & 1 ? a : b;
    case Op::Neg: return -a;
    default: return a;  // Trunc
  }
}

double float_reference(Op op, double a, double b, double c) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::MulAcc: return a * b + c;
    case Op::FDiv: return a / b;
    case Op::Max: return a < b ? b : a;
    case Op::CmpLt: return a < b;
    case Op::CmpNe: return a != b;
    case Op::CmpEq: return a == b;
    case Op::Where: return c > 0 ? a : b;
    case Op::Neg: return -a;
    case Op::Sqrt: return std::sqrt(a);
    case Op::Reciprocal: return 1 / a;
    default: return std::trunc(a);
  }
}

// C's b & 7 keeps shift counts below the width of every type; the count of lane i is 1 … 7, 0.
UOp apply(Op op, const UOp& a, const UOp& b, const UOp& c) {
  const DType d = a.dtype();
  switch (info(op).arity) {
    case 1: return alu(op, {a});
    case 2:
      if (op == Op::Shl || op == Op::Shr) return alu(op, {a, alu(Op::And, {c, constant(d, 7)})});
      return alu(op, {a, b});
    default:
      if (op == Op::MulAcc) return alu(op, {a, b, c});
      if (is_bool(d)) return alu(op, {c, a, b});
      if (is_float(d)) return alu(op, {alu(Op::CmpLt, {constant(d, 0.0), c}), a, b});
      return alu(op, {cast(alu(Op::And, {c, constant(d, 1)}), DType::Bool), a, b});
  }
}

// Out k holds op k of lanes [0, n). `vector_lanes` 0 is a loop over scalars.
void check_ops(DType d, int64_t vector_lanes) {
  const int64_t n = vector_lanes ? vector_lanes : 8;
  LinearProgram p;
  std::vector<UOp> in;
  for (int k = 0; k < 3; k++) in.push_back(p.emit(param(k, {8}, d)));
  UOp r, x[3];
  if (!vector_lanes) r = p.open(8);
  for (size_t k = 0; k < 3; k++) x[k] = p.emit(load(vector_lanes ? vec(in[k], i32(0), n) : index(in[k], r)));
  std::vector<Op> ops;
  std::vector<Memory> memory;
  for (int k = 0; k < 3; k++) memory.push_back(encoded(operand_values(d, k), d));
  UOp last;
  for (Op op : kOps) {
    if (!applies(op, d)) continue;
    const UOp value = apply(op, x[0], x[1], x[2]);
    const UOp out = param(3 + static_cast<int>(ops.size()), {8}, value.dtype());
    last = p.emit(store(vector_lanes ? vec(out, i32(0), n) : index(out, r), value));
    ops.push_back(op);
    memory.push_back(filled(static_cast<size_t>(8 * item_size(value.dtype()))));
  }
  if (!vector_lanes) p.close(last, r);
  run_everywhere(
      fmt::format("ops_{}_{}", dtype_full_name(d), n), p.finish(), memory,
      [&](const std::vector<Memory>& after) {
        for (size_t k = 0; k < ops.size(); k++)
          for (size_t i = 0; i < static_cast<size_t>(n); i++) {
            const Scalar a = decoded(memory[0], i, d), b = decoded(memory[1], i, d),
                         c = decoded(memory[2], i, d);
            const DType result = is_comparison(ops[k]) ? DType::Bool : d;
            Scalar wanted = is_float(d)
                                ? Scalar(float_reference(ops[k], a.as_double(), b.as_double(), c.as_double()))
                                : Scalar(int_reference(ops[k], a.as_int(), b.as_int(), c.as_int(), d));
            wanted = cast_scalar(wanted, result);
            const Scalar got = decoded(after[3 + k], i, result);
            INFO(op_name(ops[k]), " of ", dtype_name(d), " lane ", i, ": ", got.to_string(), " for ",
                 wanted.to_string());
            const double a_value = a.as_double(), b_value = b.as_double();
            // A product whose exact value does not fit may be rounded before the sum or not.
            const bool fused = ops[k] == Op::MulAcc && is_float(d);
            CHECK((fused ? std::abs(got.as_double() - wanted.as_double()) <=
                               std::abs(a_value * b_value) * std::ldexp(1.0, -float_format(d).mantissa_bits)
                         : got == wanted));
          }
      });
}

}  // namespace

TEST_CASE("ALU ops of every dtype on scalars") {
  for (DType d : kTypes) check_ops(d, 0);
}

TEST_CASE("ALU ops of every dtype on vectors") {
  for (DType d : kTypes) check_ops(d, 8);
}

TEST_CASE("ALU ops on vectors whose lane count is no power of two") {
  for (DType d : {DType::Bool, DType::Int8, DType::Int32, DType::UInt64, DType::Float16, DType::Float32})
    check_ops(d, 6);
}

TEST_CASE("vectors of one lane and of many") {
  check_ops(DType::Float32, 1);
  LinearProgram p;
  const UOp a = param(1, {96}, DType::Float32);
  const UOp x = p.emit(load(vec(a, i32(0), 96)));
  p.emit(store(vec(param(0, {96}, DType::Float32), i32(0), 96), alu(Op::Mul, {x, f32(2)})));
  std::vector<float> in(96), twice(96);
  for (size_t i = 0; i < 96; i++) in[i] = static_cast<float>(i), twice[i] = 2 * in[i];
  run_everywhere("wide", p.finish(), {filled(96 * 4), in},
                 [&](const auto& m) { CHECK(m[0].template as<float>() == twice); });
}

TEST_CASE("casts between all dtypes") {
  const std::vector<Scalar> small{Scalar(0),   Scalar(1),  Scalar(2),   Scalar(3),
                                  Scalar(100), Scalar(77), Scalar(120), Scalar(64)};
  const std::vector<Scalar> real{Scalar(0.0),  Scalar(1.5), Scalar(-2.75), Scalar(100.25),
                                 Scalar(-0.5), Scalar(3.0), Scalar(120.0), Scalar(-64.0)};
  const std::vector<Scalar> wide{Scalar(-1),       Scalar(300),    Scalar(-300),  Scalar(70000),
                                 Scalar(16777217), Scalar(-40000), Scalar(65519), Scalar(33489921)};
  for (DType from : kTypes)
    for (int64_t vector_lanes : {0, 8}) {
      LinearProgram p;
      const UOp in = p.emit(param(0, {8}, from));
      UOp r, last;
      if (!vector_lanes) r = p.open(8);
      const UOp x = p.emit(load(vector_lanes ? vec(in, i32(0), 8) : index(in, r)));
      std::vector<Memory> memory{encoded(is_float(from)                          ? real
                                         : is_int(from) && bit_width(from) >= 32 ? wide
                                                                                 : small,
                                         from)};
      int slot = 1;
      for (DType to : kTypes) {
        const UOp out = param(slot++, {8}, to);
        last = p.emit(store(vector_lanes ? vec(out, i32(0), 8) : index(out, r), cast(x, to)));
        memory.push_back(filled(static_cast<size_t>(8 * item_size(to))));
      }
      if (!vector_lanes) p.close(last, r);
      run_everywhere("casts", p.finish(), memory, [&](const std::vector<Memory>& after) {
        for (size_t k = 0; k < std::size(kTypes); k++)
          for (size_t i = 0; i < 8; i++) {
            const Scalar wanted = cast_scalar(decoded(memory[0], i, from), kTypes[k]),
                         got = decoded(after[k + 1], i, kTypes[k]);
            INFO(dtype_name(from), " to ", dtype_name(kTypes[k]), " lane ", i, ": ", got.to_string(), " for ",
                 wanted.to_string());
            CHECK(got == wanted);
          }
      });
    }
}

TEST_CASE("narrow floats round to nearest even, once") {
  const auto bits = [](uint64_t b) { return decode(b, DType::Float64); };
  // Ties, a value just above a tie that a float cannot tell from it, subnormals, overflow, infinities and
  // NaN.
  const std::vector<Scalar> values{
      Scalar(1.0 + 0x1p-11),    Scalar(1.0 + 3 * 0x1p-11), bits(0x3FF0020000000001), Scalar(1.0 + 0x1p-8),
      bits(0x3FF0100000000001), Scalar(0x1p-24),           Scalar(0x1p-25),          Scalar(0x1.8p-25),
      Scalar(65519.0),          Scalar(65520.0),           Scalar(-1e300),           Scalar(0x1.004p-15),
      Scalar(HUGE_VAL),         Scalar(-HUGE_VAL),         Scalar(std::nan("")),     Scalar(0x1p-133)};
  for (DType from : {DType::Float64, DType::Float32})
    for (DType to : {DType::Float16, DType::BFloat16})
      for (int64_t n : {0, 16}) {
        LinearProgram p;
        const UOp in = p.emit(param(1, {16}, from)), out = p.emit(param(0, {16}, to));
        UOp r;
        if (!n) r = p.open(16);
        const UOp s = p.emit(store(n ? vec(out, i32(0), n) : index(out, r),
                                   cast(load(n ? vec(in, i32(0), n) : index(in, r)), to)));
        if (!n) p.close(s, r);
        const std::vector<Memory> memory{filled(32), encoded(values, from)};
        run_everywhere("narrow", p.finish(), memory, [&](const auto& after) {
          for (size_t i = 0; i < values.size(); i++) {
            const Scalar wanted = cast_scalar(decoded(memory[1], i, from), to),
                         got = decoded(after[0], i, to);
            INFO(dtype_name(from), " to ", dtype_name(to), " ", values[i].to_string(), ": ", got.to_string(),
                 " for ", wanted.to_string());
            CHECK(got == wanted);
          }
        });
      }
}

TEST_CASE("floats outside the range of unsigned integers wrap as far as int64 carries them") {
  LinearProgram p;
  const UOp x = p.emit(load(vec(param(0, {4}, DType::Float64), i32(0), 4)));
  int slot = 1;
  for (DType to : {DType::UInt8, DType::UInt32, DType::UInt64})
    p.emit(store(vec(param(slot++, {4}, to), i32(0), 4), cast(x, to)));
  run_everywhere("wrap", p.finish(),
                 {std::vector<double>{-1, 257, 4294967297.0, 0x1.8p63}, filled(4), filled(16), filled(32)},
                 [](const auto& m) {
                   const auto small = m[1].template as<uint8_t>();
                   CHECK(small[0] == 255);
                   CHECK(small[1] == 1);
                   const auto middle = m[2].template as<uint32_t>();
                   CHECK(middle[0] == 0xffffffffu);
                   CHECK(middle[2] == 1);
                   CHECK(m[3].template as<uint64_t>() ==
                         std::vector<uint64_t>{~uint64_t{0}, 257, 4294967297ull, 0xC000000000000000ull});
                 });
}

TEST_CASE("bitcasts keep bits, across lane counts too") {
  LinearProgram p;
  const UOp in = p.emit(param(0, {4}, DType::UInt32)), shorts = p.emit(param(1, {4}, DType::UInt16));
  const UOp x = p.emit(load(vec(in, i32(0), 4))), h = p.emit(load(vec(shorts, i32(0), 4)));
  const auto put = [&](int slot, const UOp& v, int64_t n) {
    p.emit(store(vec(param(slot, {n}, v.dtype()), i32(0), n), v));
  };
  put(2, alu(Op::Add, {bitcast(x, DType::Float32), f32(1)}), 4);
  put(3, bitcast(x, DType::UInt8), 16);
  put(4, bitcast(h, DType::Float16), 4);
  put(5, bitcast(bitcast(h, DType::BFloat16), DType::Int16), 4);
  p.emit(store(index(param(6, {1}, DType::Float64), i32(0)),
               bitcast(constant(DType::Int64, 0x4000000000000000), DType::Float64)));
  p.emit(store(index(param(7, {1}, DType::Int32), i32(0)), bitcast(load(index(in, i32(1))), DType::Int32)));
  const std::vector<uint32_t> words{0x3f800000, 0xffffffff, 0x80000000, 0x01020304};
  run_everywhere("bits", p.finish(),
                 {words, std::vector<uint16_t>{0x3c00, 0xc000, 0x7bff, 0x0001}, filled(16), filled(16),
                  filled(8), filled(8), filled(8), filled(4)},
                 [&](const auto& m) {
                   const auto f = m[2].template as<float>();
                   CHECK(f[0] == 2.0f);
                   CHECK(std::isnan(f[1]));
                   CHECK(f[2] == 1.0f);
                   CHECK(m[3].template as<uint32_t>() == words);
                   CHECK(m[4].bytes == m[1].bytes);
                   CHECK(m[5].bytes == m[1].bytes);
                   CHECK(m[6].template as<double>()[0] == 2.0);
                   CHECK(m[7].template as<int32_t>()[0] == -1);
                 });
}

TEST_CASE("constants reach the kernel exactly") {
  std::vector<std::pair<DType, Scalar>> values;
  for (DType d : kTypes) {
    for (const Scalar& v : {Scalar(0), Scalar(1), min_value(d), max_value(d)}) values.emplace_back(d, v);
    if (!is_float(d)) continue;
    for (double v : {-0.0, 0.1, -1e-7, 3.0e38, HUGE_VAL, -HUGE_VAL, std::nan("")})
      values.emplace_back(d, Scalar(v));
  }
  LinearProgram p;
  std::vector<Memory> memory;
  for (const auto& [d, v] : values) {
    const int slot = static_cast<int>(memory.size());
    p.emit(store(index(param(slot, {1}, d), i32(0)), constant(d, v)));
    memory.push_back(filled(static_cast<size_t>(item_size(d))));
  }
  run_everywhere("constants", p.finish(), memory, [&](const auto& after) {
    for (size_t i = 0; i < values.size(); i++) {
      INFO(dtype_name(values[i].first), " ", values[i].second.to_string());
      CHECK(decoded(after[i], 0, values[i].first) == cast_scalar(values[i].second, values[i].first));
    }
  });
}

TEST_CASE("NaN compares and Max as C does") {
  LinearProgram p;
  const UOp a = p.emit(load(vec(param(0, {4}, DType::Float32), i32(0), 4))),
            b = p.emit(load(vec(param(1, {4}, DType::Float32), i32(0), 4)));
  int slot = 2;
  for (Op op : {Op::CmpLt, Op::CmpNe, Op::CmpEq})
    p.emit(store(vec(param(slot++, {4}, DType::Bool), i32(0), 4), alu(op, {a, b})));
  p.emit(store(vec(param(slot, {4}, DType::Float32), i32(0), 4), alu(Op::Max, {a, b})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  run_everywhere("nans", p.finish(),
                 {std::vector<float>{nan, 1, nan, -0.0f}, std::vector<float>{1, nan, nan, 0}, filled(4),
                  filled(4), filled(4), filled(16)},
                 [](const auto& m) {
                   CHECK(m[2].template as<uint8_t>() == std::vector<uint8_t>{0, 0, 0, 0});
                   CHECK(m[3].template as<uint8_t>() == std::vector<uint8_t>{1, 1, 1, 0});
                   CHECK(m[4].template as<uint8_t>() == std::vector<uint8_t>{0, 0, 0, 1});
                   const auto larger = m[5].template as<float>();
                   CHECK(std::isnan(larger[0]));
                   CHECK(larger[1] == 1);
                   CHECK(std::signbit(larger[3]));  // a where neither is less
                 });
}

TEST_CASE("selections mix scalars and vectors") {
  LinearProgram p;
  const UOp a = p.emit(load(vec(param(0, {4}, DType::Float32), i32(0), 4)));
  const UOp yes = p.emit(load(index(param(1, {1}, DType::Bool), i32(0))));
  const UOp less = p.emit(alu(Op::CmpLt, {a, f32(2)}));
  int slot = 2;
  const auto put = [&](const UOp& v) { p.emit(store(vec(param(slot++, {4}, v.dtype()), i32(0), 4), v)); };
  put(alu(Op::Where, {yes, a, f32(9)}));         // one condition for all lanes
  put(alu(Op::Where, {less, f32(1), f32(-1)}));  // scalars by lane
  put(alu(Op::Where, {less, constant(DType::Int8, 1), constant(DType::Int8, 2)}));  // mask of another width
  put(alu(Op::Where, {yes, less, constant(DType::Bool, true)}));
  put(alu(Op::And, {less, yes}));
  put(alu(Op::Where, {alu(Op::CmpLt, {cast(a, DType::Float64), constant(DType::Float64, 1.0)}), less, yes}));
  put(cast(alu(Op::CmpEq, {less, yes}), DType::Int64));
  run_everywhere("selections", p.finish(),
                 {std::vector<float>{0, 1, 2, 3}, std::vector<uint8_t>{0}, filled(16), filled(16), filled(4),
                  filled(4), filled(4), filled(4), filled(32)},
                 [](const auto& m) {
                   using Bytes = std::vector<uint8_t>;
                   CHECK(m[2].template as<float>() == std::vector<float>{9, 9, 9, 9});
                   CHECK(m[3].template as<float>() == std::vector<float>{1, 1, -1, -1});
                   CHECK(m[4].template as<uint8_t>() == Bytes{1, 1, 2, 2});
                   CHECK(m[5].template as<uint8_t>() == Bytes{1, 1, 1, 1});
                   CHECK(m[6].template as<uint8_t>() == Bytes{0, 0, 0, 0});
                   CHECK(m[7].template as<uint8_t>() == Bytes{1, 0, 0, 0});
                   CHECK(m[8].template as<int64_t>() == std::vector<int64_t>{0, 0, 1, 1});
                 });
}

TEST_CASE("shift counts may have another dtype") {
  LinearProgram p;
  const UOp x = p.emit(load(vec(param(0, {4}, DType::Int64), i32(0), 4)));
  const UOp n = p.emit(load(vec(param(1, {4}, DType::UInt32), i32(0), 4)));
  p.emit(store(vec(param(2, {4}, DType::Int64), i32(0), 4), alu(Op::Shl, {x, n})));
  p.emit(store(vec(param(3, {4}, DType::Int64), i32(0), 4), alu(Op::Shr, {x, n})));
  run_everywhere(
      "counts", p.finish(),
      {std::vector<int64_t>{1, -8, 5, 1}, std::vector<uint32_t>{40, 2, 0, 62}, filled(32), filled(32)},
      [](const auto& m) {
        CHECK(m[2].template as<int64_t>() ==
              std::vector<int64_t>{int64_t{1} << 40, -32, 5, int64_t{1} << 62});
        CHECK(m[3].template as<int64_t>() == std::vector<int64_t>{0, -2, 5, 0});
      });
}
