#include "formats/gguf/dequantize.h"

#include "formats/gguf/grid_table.h"
#include "runtime/device.h"
#include "tensor/place.h"

#include <span>

namespace lathe {
namespace {

constexpr DType kWord = DType::UInt16, kLongWord = DType::UInt32;

// The blocks of all rows. What the methods return has shape (…, blocks, axes of a block); the elements of a
// block are numbered over all of its axes in row-major order.
class Blocks {
 public:
  Blocks(const Tensor& packed, const GgmlTypeInfo& info) : info_(info) {
    Shape shape = packed.shape();
    shape.back() = shape.back().value() / info.block_bytes;
    shape.push_back(info.block_bytes);
    blocks_ = packed.reshape(shape);
  }

  // uint8 from byte `at` on, as so many axes.
  Tensor bytes(int64_t at, std::initializer_list<int64_t> axes) const {
    int64_t count = 1;
    for (const int64_t n : axes) count *= n;
    return in_axes(blocks_.at(ellipsis, Slice{at, at + count}), axes);
  }
  Tensor byte(int64_t at) const { return bytes(at, {1}); }
  // Little-endian words.
  Tensor words(int64_t at, int64_t count, DType dtype) const {
    return bytes(at, {count * item_size(dtype)}).bitcast(dtype);
  }
  Tensor half(int64_t at) const { return words(at, 1, DType::Float16).to_float(); }
  // float32 of shape (16).
  Tensor signed_bytes(int64_t at, int64_t count) const {
    return bytes(at, {count}).bitcast(DType::Int8).to_float();
  }

  Tensor in_axes(const Tensor& x, std::initializer_list<int64_t> axes) const {
    Shape shape(blocks_.shape().begin(), blocks_.shape().end() - 1);
    for (const int64_t n : axes) shape.push_back(n);
    return x.reshape(shape);
  }
  // All elements of a block as float32 along one axis, or in `groups`.
  Tensor flat(const Tensor& x) const { return in_axes(x, {-1}).to_float(); }
  Tensor grouped(const Tensor& x, int64_t groups) const { return in_axes(x, {groups, -1}).to_float(); }
  // A block as the part of a row that it is.
  Tensor in_rows(const Tensor& values) const {
    Shape shape(blocks_.shape().begin(), blocks_.shape().end() - 1);
    shape.back() = shape.back() * SInt(info_.block_elements);
    return values.reshape(shape);
  }

  // The elements of a table that `index` picks. The table lives as long as the program, and nothing writes to
  // it.
  template <class T, size_t N>
  Tensor look_up(const T (&table)[N], DType dtype, const Tensor& index) const {
    const std::string& where = blocks_.device();
    const Shape shape{SInt(static_cast<int64_t>(N))};
    const Tensor t = device(place(where)).memory().allocator().is_host_visible()
                         ? Tensor::from_blob(const_cast<T*>(table), shape, dtype, where)
                         : Tensor::from_bytes(std::as_bytes(std::span(table)), shape, dtype, where);
    return t.at(index.to_int());
  }

 private:
  const GgmlTypeInfo& info_;
  Tensor blocks_;
};

// 0, width, 2·width …
Tensor shifts(int64_t count, int64_t width, DType dtype) {
  return (Tensor::arange(count) * width).cast(dtype);
}
// Fields of `width` bits, the lowest first. (…, n) to (…, n, count): those of an element lie side by side.
Tensor inner_fields(const Tensor& x, int64_t count, int64_t width) {
  return (x.unsqueeze(-1) >> shifts(count, width, x.dtype())) & ((1 << width) - 1);
}
// (…, n) to (…, count, n): the first fields of all elements, then the second ones.
Tensor outer_fields(const Tensor& x, int64_t count, int64_t width) {
  return (x.unsqueeze(-2) >> shifts(count, width, x.dtype()).unsqueeze(-1)) & ((1 << width) - 1);
}
Tensor inner_nibbles(const Tensor& x) { return inner_fields(x, 2, 4); }
Tensor outer_nibbles(const Tensor& x) { return outer_fields(x, 2, 4); }

// `high` of any integer type above `bits` bits.
Tensor joined(const Tensor& low, const Tensor& high, int64_t bits) {
  return low.to_int() | (high.to_int() << bits);
}

// x (…, n, 8), negative where the bits of `signs` (…, n) say so.
Tensor with_signs(const Tensor& x, const Tensor& signs) {
  return (inner_fields(signs, 8, 1) != 0).where(-x, x);
}
// Seven signs and their parity as the eighth.
Tensor with_parity(const Tensor& seven) {
  Tensor parity = seven ^ (seven >> 4);
  parity = parity ^ (parity >> 2);
  parity = (parity ^ (parity >> 1)) & 1;
  return seven | (parity << 7);
}

// ---- one scale a block: (elements)

Tensor q4_0(const Blocks& b) { return b.half(0) * (b.flat(outer_nibbles(b.bytes(2, {16}))) - 8); }
Tensor q4_1(const Blocks& b) { return b.half(0) * b.flat(outer_nibbles(b.bytes(4, {16}))) + b.half(2); }

// Codes of five bits, the fifth ones at `high`, the others behind them.
Tensor five_bits(const Blocks& b, int64_t high) {
  const Tensor low = b.in_axes(outer_nibbles(b.bytes(high + 4, {16})), {32});
  return b.flat(joined(low, b.in_axes(inner_fields(b.bytes(high, {4}), 8, 1), {32}), 4));
}
Tensor q5_0(const Blocks& b) { return b.half(0) * (five_bits(b, 2) - 16); }
Tensor q5_1(const Blocks& b) { return b.half(0) * five_bits(b, 4) + b.half(2); }
Tensor q8_0(const Blocks& b) { return b.half(0) * b.signed_bytes(2, 32); }

Tensor q1_0(const Blocks& b) {
  const Tensor d = b.half(0);
  return (b.in_axes(inner_fields(b.bytes(2, {16}), 8, 1), {128}) != 0).where(d, -d);
}
Tensor q2_0(const Blocks& b) { return b.half(0) * (b.flat(inner_fields(b.bytes(2, {16}), 4, 2)) - 1); }

// ---- superblocks of 256 whose groups have scales: (groups, elements)

Tensor q2_k(const Blocks& b) {
  const Tensor scales = b.bytes(0, {16});
  const Tensor codes = b.grouped(outer_fields(b.bytes(16, {2, 32}), 4, 2), 16);
  const Tensor d = b.half(80) * (scales & 15), m = b.half(82) * (scales >> 4);
  return d.unsqueeze(-1) * codes - m.unsqueeze(-1);
}

Tensor q3_k(const Blocks& b) {
  const Tensor low = b.in_axes(outer_nibbles(b.bytes(96, {8})), {16});
  const Tensor high = b.in_axes(outer_fields(b.bytes(104, {4}), 4, 2), {16});
  const Tensor d = b.half(108) * (joined(low, high, 4).to_float() - 32);
  const Tensor codes = b.grouped(outer_fields(b.bytes(32, {2, 32}), 4, 2), 16);
  const Tensor is_high = b.grouped(outer_fields(b.bytes(0, {32}), 8, 1), 16);
  return d.unsqueeze(-1) * (codes + 4 * is_high - 4);
}

// Eight scales of six bits and as many minima in twelve bytes.
struct ScalesAndMinima {
  Tensor scales, minima;
};
ScalesAndMinima six_bits(const Blocks& b, int64_t at) {
  const Tensor x = b.bytes(at, {4}), y = b.bytes(at + 4, {4}), z = b.bytes(at + 8, {4});
  const auto eight = [&](const Tensor& first, const Tensor& low) {
    return b.flat(Tensor::stack({first & 63, low | ((first >> 6) << 4)}, -2));
  };
  return {eight(x, z & 15), eight(y, z >> 4)};
}
// d·scale·code - dmin·minimum with the layout of Q4_K and Q5_K; codes in eight groups.
Tensor affine(const Blocks& b, const Tensor& codes) {
  const auto [scales, minima] = six_bits(b, 4);
  return (b.half(0) * scales).unsqueeze(-1) * codes - (b.half(2) * minima).unsqueeze(-1);
}
Tensor q4_k(const Blocks& b) { return affine(b, b.grouped(outer_nibbles(b.bytes(16, {4, 32})), 8)); }
Tensor q5_k(const Blocks& b) {
  const Tensor low = b.in_axes(outer_nibbles(b.bytes(48, {4, 32})), {8, 32});
  return affine(b, joined(low, outer_fields(b.bytes(16, {32}), 8, 1), 4).to_float());
}

Tensor q6_k(const Blocks& b) {
  const Tensor low = b.in_axes(outer_nibbles(b.bytes(0, {2, 64})), {16, 16});
  const Tensor high = b.in_axes(outer_fields(b.bytes(128, {2, 32}), 4, 2), {16, 16});
  const Tensor d = b.half(208) * b.signed_bytes(192, 16);
  return d.unsqueeze(-1) * (joined(low, high, 4).to_float() - 32);
}

// ---- values out of a table of 16

Tensor nonlinear(const Tensor& codes) {
  // Four values a word: choosing one of four words and shifting it takes fewer steps than a load for each
  // lane.
  const auto word = [](int64_t i) {
    uint32_t out = 0;
    for (int64_t b = 4; b-- > 0;) out = out << 8 | static_cast<uint8_t>(gguf_grids::kIq4[4 * i + b]);
    return Tensor(static_cast<int32_t>(out));
  };
  const Tensor c = codes.to_int();
  const Tensor words =
      (c < 8).where((c < 4).where(word(0), word(1)), (c < 12).where(word(2), word(3))).to_int();
  return ((words << (24 - (c & 3) * 8)) >> 24).to_float();
}
Tensor iq4_nl(const Blocks& b) {
  return b.half(0) * nonlinear(b.in_axes(outer_nibbles(b.bytes(2, {16})), {32}));
}
Tensor iq4_xs(const Blocks& b) {
  const Tensor low = b.in_axes(inner_nibbles(b.bytes(4, {4})), {8});
  const Tensor high = b.in_axes(inner_fields(b.words(2, 1, kWord), 8, 2), {8});
  const Tensor d = b.half(0) * (joined(low, high, 4).to_float() - 32);
  return d.unsqueeze(-1) * nonlinear(b.in_axes(outer_nibbles(b.bytes(8, {8, 16})), {8, 32}));
}

// ---- rows of a grid: eight elements (IQ3: four) at a time

// Rows (…) of a grid to (…, per_row) of their codes.
template <size_t N>
Tensor grid_codes(const Blocks& b, const uint16_t (&grid)[N], const Tensor& rows, int64_t per_row) {
  return inner_fields(b.look_up(grid, kWord, rows), per_row, per_row == 8 ? 2 : 3);
}
// 8, 25, 43.
template <size_t N>
Tensor grid_of_2(const Blocks& b, const uint16_t (&grid)[N], const Tensor& rows) {
  const Tensor codes = grid_codes(b, grid, rows, 8);
  return codes * 17 + 8 + (codes >> 1);
}
// A scale for each of `groups`: d·(½ + s)·¼, and values (…, 8) with signs (…).
Tensor iq2(const Blocks& b, const Tensor& scales, const Tensor& values, const Tensor& signs) {
  const Tensor d = b.half(0) * ((scales.to_float() + 0.5) * 0.25);
  return d.unsqueeze(-1) * b.grouped(with_signs(values.to_float(), signs), scales.size(-1).value());
}
Tensor iq2_xxs(const Blocks& b) {
  const Tensor pairs = b.in_axes(b.words(2, 16, kLongWord), {8, 2});
  const Tensor high = pairs.at(ellipsis, 1);
  const Tensor rows = b.bytes(2, {8, 8}).at(ellipsis, Slice{0, 4});
  return iq2(b, high >> 28, grid_of_2(b, gguf_grids::kIq2xxs, rows), with_parity(inner_fields(high, 4, 7)));
}
Tensor iq2_xs(const Blocks& b) {
  const Tensor w = b.words(2, 32, kWord);
  const Tensor scales = b.in_axes(inner_nibbles(b.bytes(66, {8})), {16});
  return iq2(b, scales, grid_of_2(b, gguf_grids::kIq2xs, w & 511), with_parity(w >> 9));
}
Tensor iq2_s(const Blocks& b) {
  const Tensor rows = joined(b.bytes(2, {32}), b.in_axes(inner_fields(b.bytes(66, {8}), 4, 2), {32}), 8);
  const Tensor scales = b.in_axes(inner_nibbles(b.bytes(74, {8})), {16});
  return iq2(b, scales, grid_of_2(b, gguf_grids::kIq2s, rows), b.bytes(34, {32}));
}

Tensor iq3_xxs(const Blocks& b) {
  const Tensor codes = grid_codes(b, gguf_grids::kIq3xxs, b.bytes(2, {64}), 4);
  const Tensor values = codes * 8 + 4 + (codes == 7).where(2, 0);
  const Tensor word = b.words(66, 8, kLongWord);
  const Tensor signs = with_parity(inner_fields(word, 4, 7));
  const Tensor d = b.half(0) * (((word >> 28).to_float() + 0.5) * 0.5);
  return d.unsqueeze(-1) * b.grouped(with_signs(b.in_axes(values, {8, 4, 8}).to_float(), signs), 8);
}
Tensor iq3_s(const Blocks& b) {
  const Tensor rows = joined(b.bytes(2, {64}), b.in_axes(inner_fields(b.bytes(66, {8}), 8, 1), {64}), 8);
  const Tensor values = b.in_axes(grid_codes(b, gguf_grids::kIq3s, rows, 4) * 2 + 1, {32, 8});
  const Tensor scales = b.in_axes(inner_nibbles(b.bytes(106, {4})), {8});
  const Tensor d = b.half(0) * (scales.to_float() * 2 + 1);
  return d.unsqueeze(-1) * b.grouped(with_signs(values.to_float(), b.bytes(74, {32})), 8);
}

// d·(2s + 1) for each of some groups, and -1, 0, 1 of the grid moved by an eighth: down where `is_down`
// (32) is not 0.
Tensor iq1(const Blocks& b, const Tensor& d, const Tensor& scales, const Tensor& rows,
           const Tensor& is_down) {
  const Tensor values = grid_codes(b, gguf_grids::kIq1s, rows, 8).to_float() - 1;
  const Tensor moved = values + (is_down != 0).where(-0.125, 0.125).unsqueeze(-1);
  return (d * (scales.to_float() * 2 + 1)).unsqueeze(-1) * b.grouped(moved, scales.size(-1).value());
}
Tensor iq1_s(const Blocks& b) {
  const Tensor w = b.words(34, 8, kWord);
  const Tensor rows = joined(b.bytes(2, {32}), b.in_axes(inner_fields(w, 4, 3), {32}), 8);
  const Tensor is_down = (w >> 15).repeat_interleave(4, -1);
  return iq1(b, b.half(0), (w >> 12) & 7, rows, is_down);
}
Tensor iq1_m(const Blocks& b) {
  const Tensor nibbles = b.in_axes(inner_nibbles(b.bytes(32, {16})), {32});
  const Tensor w = b.words(48, 4, kWord);
  // The top nibbles of the four words are those of a float16.
  const auto top = [&](int64_t i) { return (w.at(ellipsis, Slice{i, i + 1}) >> 12) << (4 * i); };
  const Tensor d = (top(0) | top(1) | top(2) | top(3)).bitcast(DType::Float16).to_float();
  const Tensor scales = b.in_axes(inner_fields(w, 4, 3), {16});
  return iq1(b, d, scales, joined(b.bytes(0, {32}), nibbles & 7, 8), nibbles & 8);
}

// ---- ternary

constexpr uint8_t kPowersOf3[5] = {1, 3, 9, 27, 81};
Tensor tq1_0(const Blocks& b) {
  // Digit n of a byte x in base 3, the first one the highest, where x is about 256/243 times the number.
  const auto digits = [&](int64_t at, int64_t bytes, int64_t count) {
    const Tensor power = b.look_up(kPowersOf3, DType::UInt8, Tensor::arange(count)).unsqueeze(-1);
    return b.in_axes((((b.bytes(at, {1, bytes}) * power).to_int() * 3) >> 8), {count * bytes});
  };
  return b.half(52) * (b.flat(Tensor::cat({digits(0, 32, 5), digits(32, 16, 5), digits(48, 4, 4)}, -1)) - 1);
}
Tensor tq2_0(const Blocks& b) { return b.half(64) * (b.flat(outer_fields(b.bytes(0, {2, 32}), 4, 2)) - 1); }

// ---- small floats

// Twice the value of E2M1 codes: 0 1 2 3 4 6 8 12 and their negatives.
Tensor doubled_e2m1(const Tensor& codes) {
  const Tensor magnitude = codes & 7;
  const Tensor exponent = (magnitude >> 1).maximum(1) - 1;
  const Tensor value = ((magnitude < 2).where(magnitude, (magnitude & 1) | 2) << exponent).to_float();
  return ((codes & 8) != 0).where(-value, value);
}
Tensor mxfp4(const Blocks& b) {
  // 2^(e - 128); the first two are subnormal.
  const Tensor e = b.byte(0).cast(kLongWord);
  const Tensor bits = (e < 2).where((e + 1) << 21, (e - 1) << 23);
  return bits.bitcast(DType::Float32) * b.flat(doubled_e2m1(outer_nibbles(b.bytes(1, {16}))));
}
Tensor nvfp4(const Blocks& b) {
  // Unsigned E4M3 with bias 7, of which all ones are 0, too.
  const Tensor x = b.bytes(0, {4}).cast(kLongWord);
  const Tensor normal = (((x & 127) << 20) + (uint32_t{120} << 23)).bitcast(DType::Float32);
  const Tensor scales = ((x & 120) == 0).where((x & 7).to_float() / 512, normal);
  const Tensor half = (x == 127).where(0, scales * 0.5);
  return half.unsqueeze(-1) * doubled_e2m1(b.in_axes(outer_nibbles(b.bytes(4, {4, 8})), {4, 16}));
}

struct Unpacking {
  GgmlType type;
  Tensor (*values)(const Blocks& blocks);
};
constexpr Unpacking kUnpackings[] = {
#define GGML_TYPE(name, id, elements, bytes, plain, unpack) {GgmlType::name, unpack},
#include "formats/gguf/ggml_types.def"
#undef GGML_TYPE
};

}  // namespace

Tensor dequantize(const Tensor& packed, GgmlType type) {
  const GgmlTypeInfo& info = type_info(type);
  if (packed.dtype() != DType::UInt8 || packed.ndim() == 0)
    value_error("{} blocks are rows of uint8, not {} of shape {}", info.name, dtype_full_name(packed.dtype()),
                to_string(packed.shape()));
  const SInt& row = packed.shape().back();
  if (!row.is_const() || row.value() % info.block_bytes != 0)
    value_error("rows of shape {} are no whole blocks of {}, which have {} bytes", to_string(packed.shape()),
                info.name, info.block_bytes);
  if (info.plain) return packed.bitcast(*info.plain).to_float();
  const Blocks blocks(packed, info);
  for (const Unpacking& u : kUnpackings)
    if (u.type == type) return blocks.in_rows(u.values(blocks));
  CHECK(false, "no unpacking of {}", info.name);
}

}  // namespace lathe
