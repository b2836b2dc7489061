#include "renderer/c_helpers.h"

#include <algorithm>
#include <bit>

namespace lathe {

CElement register_element(DType d) {
  CHECK(d != DType::Void && !is_weak(d) && !is_fp8(d), "C has no type for {}", dtype_name(d));
  if (is_bool(d)) return {'i', 8};
  if (is_rounded(d)) return {'f', 32};
  return {is_float(d) ? 'f' : is_unsigned(d) ? 'u' : 'i', bit_width(d)};
}

std::string short_name(CElement e) { return fmt::format("{}{}", e.kind, e.bits); }

std::string scalar_name(CElement e) {
  if (e.kind == 'f') return e.bits == 64 ? "double" : "float";
  return fmt::format("{}int{}_t", e.kind == 'u' ? "u" : "", e.bits);
}

std::string memory_name(DType d) {
  if (is_bool(d)) return "uint8_t";
  if (is_rounded(d)) return "uint16_t";
  return scalar_name(register_element(d));
}

std::string dtype_tag(DType d) {
  if (is_bool(d)) return "bool";
  if (is_rounded(d)) return d == DType::Float16 ? "f16" : "bf16";
  return short_name(register_element(d));
}

bool is_rounded(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

int64_t padded_lanes(int64_t lanes) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lanes)));
}

std::string CHelpers::text() const { return types_ + functions_; }

std::string CHelpers::define(const std::string& name, const std::string& result,
                             const std::string& parameters, const std::string& body) {
  if (defined_.insert(name).second)
    functions_ +=
        fmt::format("{} {} {}({}) {{ {} }}\n", dialect_.helper_qualifier, result, name, parameters, body);
  return name;
}

// ---- types

std::string CHelpers::vector_type(CElement e, int64_t lanes) {
  const int64_t n = padded_lanes(lanes);
  const std::string name = fmt::format("{}x{}", short_name(e), n);
  if (defined_.insert(name).second)
    types_ += fmt::format("typedef {} {} __attribute__((vector_size({})));\n", scalar_name(e), name,
                          n * e.bits / 8);
  return name;
}

// The same vector where memory need not be aligned to more than its elements.
std::string CHelpers::memory_type(CElement e, int64_t lanes) {
  const std::string name = vector_type(e, lanes) + "_mem";
  if (defined_.insert(name).second)
    types_ += fmt::format("typedef {} {} __attribute__((vector_size({}), aligned({}), may_alias));\n",
                          scalar_name(e), name, lanes * e.bits / 8, e.bits / 8);
  return name;
}

std::string CHelpers::mask_type(DType d, int64_t lanes) {
  return vector_type({'i', register_element(d).bits}, lanes);
}

// ---- lanes

std::string CHelpers::each_lane(int64_t lanes, const std::string& statement) const {
  return fmt::format("{}for (int i = 0; i < {}; i++) {}", dialect_.unroll_hint, lanes, statement);
}

std::string CHelpers::splat(CElement e, int64_t lanes) {
  const std::string t = vector_type(e, lanes);
  std::string items;
  for (int64_t i = 0; i < padded_lanes(lanes); i++) items += i ? ", x" : "x";
  return define("splat_" + t, t, scalar_name(e) + " x", fmt::format("return ({}){{{}}};", t, items));
}

std::string CHelpers::map(const std::string& name, CElement from, CElement to, int64_t lanes,
                          const std::string& function) {
  if (!lanes)
    return define(name, scalar_name(to), scalar_name(from) + " x", fmt::format("return {}(x);", function));
  const std::string t = vector_type(to, lanes);
  return define(name, t, vector_type(from, lanes) + " x",
                fmt::format("{} r; {} return r;", t,
                            each_lane(padded_lanes(lanes), fmt::format("r[i] = {}(x[i]);", function))));
}

std::string CHelpers::shuffle(CElement e, int64_t lanes, std::span<const int64_t> picked) {
  const int64_t n = static_cast<int64_t>(picked.size());
  const std::string from = vector_type(e, lanes), to = vector_type(e, n);
  std::string numbers, items;
  for (int64_t i = 0; i < padded_lanes(n); i++) {
    numbers += fmt::format(", {}", i < n ? picked[static_cast<size_t>(i)] : -1);
    items += fmt::format("{}x[{}]", i ? ", " : "", i < n ? picked[static_cast<size_t>(i)] : 0);
  }
  const std::string key = from + numbers;
  auto it = std::ranges::find(shuffles_, key);
  const std::string name = fmt::format("shuffle{}_{}", it - shuffles_.begin(), to);
  if (it == shuffles_.end()) shuffles_.push_back(key);
  return define(
      name, to, from + " x",
      fmt::format(
          "\n#if HAS_SHUFFLEVECTOR\n  return __builtin_shufflevector(x, x{});\n#else\n  return ({}){{{}}};\n"
          "#endif\n",
          numbers, to, items));
}

// ---- memory

std::string CHelpers::from_memory(DType d, const std::string& x) {
  if (is_bool(d)) return fmt::format("-(int8_t){}", x);
  return is_rounded(d) ? fmt::format("{}({})", from_bits(d, 0), x) : x;
}

std::string CHelpers::to_memory(DType d, const std::string& x) {
  if (is_bool(d)) return x + " != 0";
  return is_rounded(d) ? fmt::format("{}({})", bits(d, 0), x) : x;
}

std::string CHelpers::load(DType d, int64_t lanes) {
  const CElement e = register_element(d);
  const std::string t = vector_type(e, lanes), name = fmt::format("load_{}x{}", dtype_tag(d), lanes);
  std::string body;
  if (is_rounded(d))
    body = fmt::format("{} r = {{0}}; {} return r;", t,
                       each_lane(lanes, fmt::format("r[i] = {};", from_memory(d, "p[i]"))));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("{} r = {{0}}; __builtin_memcpy(&r, p, {}); return {}r;", t, lanes * e.bits / 8,
                       is_bool(d) ? "-" : "");
  else
    body = fmt::format("return {}*(const {}*)p;", is_bool(d) ? "-" : "", memory_type(e, lanes));
  return define(name, t, fmt::format("const {}* p", memory_name(d)), body);
}

std::string CHelpers::store(DType d, int64_t lanes) {
  const CElement e = register_element(d);
  const std::string t = vector_type(e, lanes), name = fmt::format("store_{}x{}", dtype_tag(d), lanes);
  std::string body;
  if (is_rounded(d))
    body = each_lane(lanes, fmt::format("p[i] = {};", to_memory(d, "x[i]")));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("{}__builtin_memcpy(p, &x, {});", is_bool(d) ? "x = -x; " : "", lanes * e.bits / 8);
  else
    body = fmt::format("*({}*)p = {}x;", memory_type(e, lanes), is_bool(d) ? "-" : "");
  return define(name, "void", fmt::format("{}* p, {} x", memory_name(d), t), body);
}

std::string CHelpers::load_if(DType d, int64_t lanes) {
  const std::string t = vector_type(register_element(d), lanes);
  return define(fmt::format("load_if_{}x{}", dtype_tag(d), lanes), t,
                fmt::format("const {}* p, {} m, {} r", memory_name(d), mask_type(d, lanes), t),
                each_lane(lanes, fmt::format("if (m[i]) r[i] = {};", from_memory(d, "p[i]"))) + " return r;");
}

std::string CHelpers::store_if(DType d, int64_t lanes) {
  const std::string t = vector_type(register_element(d), lanes);
  return define(fmt::format("store_if_{}x{}", dtype_tag(d), lanes), "void",
                fmt::format("{}* p, {} x, {} m", memory_name(d), t, mask_type(d, lanes)),
                each_lane(lanes, fmt::format("if (m[i]) p[i] = {};", to_memory(d, "x[i]"))));
}

std::string CHelpers::gather(DType d, int64_t lanes, CElement index) {
  const std::string t = vector_type(register_element(d), lanes);
  return define(fmt::format("gather_{}x{}_{}", dtype_tag(d), lanes, short_name(index)), t,
                fmt::format("const {}* p, {} at", memory_name(d), vector_type(index, lanes)),
                fmt::format("{} r = {{0}}; {} return r;", t,
                            each_lane(lanes, fmt::format("r[i] = {};", from_memory(d, "p[at[i]]")))));
}

std::string CHelpers::gather_if(DType d, int64_t lanes, CElement index) {
  const std::string t = vector_type(register_element(d), lanes);
  return define(
      fmt::format("gather_if_{}x{}_{}", dtype_tag(d), lanes, short_name(index)), t,
      fmt::format("const {}* p, {} at, {} m, {} r", memory_name(d), vector_type(index, lanes),
                  mask_type(d, lanes), t),
      each_lane(lanes, fmt::format("if (m[i]) r[i] = {};", from_memory(d, "p[at[i]]"))) + " return r;");
}

std::string CHelpers::scatter(DType d, int64_t lanes, CElement index) {
  return define(fmt::format("scatter_{}x{}_{}", dtype_tag(d), lanes, short_name(index)), "void",
                fmt::format("{}* p, {} at, {} x", memory_name(d), vector_type(index, lanes),
                            vector_type(register_element(d), lanes)),
                each_lane(lanes, fmt::format("p[at[i]] = {};", to_memory(d, "x[i]"))));
}

std::string CHelpers::scatter_if(DType d, int64_t lanes, CElement index) {
  return define(fmt::format("scatter_if_{}x{}_{}", dtype_tag(d), lanes, short_name(index)), "void",
                fmt::format("{}* p, {} at, {} x, {} m", memory_name(d), vector_type(index, lanes),
                            vector_type(register_element(d), lanes), mask_type(d, lanes)),
                each_lane(lanes, fmt::format("if (m[i]) p[at[i]] = {};", to_memory(d, "x[i]"))));
}

// ---- arithmetic

// C has no vector form of ?:, so bits are merged.
std::string CHelpers::where(CElement e, int64_t lanes) {
  const std::string t = vector_type(e, lanes), m = vector_type({'i', e.bits}, lanes);
  const std::string merge =
      t == m ? "(a & m) | (b & ~m)" : fmt::format("({})((({})a & m) | (({})b & ~m))", t, m, m);
  return define("where_" + t, t, fmt::format("{0} m, {1} a, {1} b", m, t), fmt::format("return {};", merge));
}

std::string CHelpers::max(CElement e, int64_t lanes) {
  const std::string t = type(e, lanes);
  if (!lanes)
    return define("max_" + short_name(e), t, fmt::format("{0} a, {0} b", t), "return a < b ? b : a;");
  return define(
      "max_" + t, t, fmt::format("{0} a, {0} b", t),
      fmt::format("return {}(({})(a < b), b, a);", where(e, lanes), vector_type({'i', e.bits}, lanes)));
}

std::string CHelpers::square_root(CElement e, int64_t lanes) {
  return map("sqrt_" + (lanes ? vector_type(e, lanes) : short_name(e)), e, e, lanes,
             std::string(e.bits == 64 ? dialect_.sqrt_double : dialect_.sqrt_float));
}

std::string CHelpers::truncate(CElement e, int64_t lanes) {
  return map("trunc_" + (lanes ? vector_type(e, lanes) : short_name(e)), e, e, lanes,
             std::string(e.bits == 64 ? dialect_.trunc_double : dialect_.trunc_float));
}

std::string CHelpers::divide(CElement e, int64_t lanes, bool remainder) {
  const std::string t = vector_type(e, lanes);
  return define(fmt::format("{}_{}x{}", remainder ? "rem" : "div", short_name(e), lanes), t,
                fmt::format("{0} a, {0} b", t),
                fmt::format("{} r = {{0}}; {} return r;", t,
                            each_lane(lanes, fmt::format("r[i] = a[i] {} b[i];", remainder ? "%" : "/"))));
}

// ---- half, bfloat16 and rounding

namespace {

struct Conversion {
  std::string_view name, result, parameter, body;
};

// Bit patterns of IEEE binary16 and bfloat16; round to nearest even.
constexpr Conversion kConversions[] = {
    {"bits_f32", "uint32_t", "float x", "uint32_t r; __builtin_memcpy(&r, &x, 4); return r;"},
    {"f32_bits", "float", "uint32_t x", "float r; __builtin_memcpy(&r, &x, 4); return r;"},
    {"bits_bf16", "uint16_t", "float x",
     "uint32_t b = bits_f32(x); return x != x ? b >> 16 | 64 : (b + 0x7fff + (b >> 16 & 1)) >> 16;"},
    {"bf16_bits", "float", "uint16_t x", "return f32_bits((uint32_t)x << 16);"},
    {"bits_f16", "uint16_t", "float x",
     "\n#ifdef __FLT16_MANT_DIG__\n"
     "  _Float16 h = (_Float16)x; uint16_t r; __builtin_memcpy(&r, &h, 2); return r;\n"
     "#else\n"
     "  uint32_t b = bits_f32(x), s = b >> 16 & 0x8000, a = b & 0x7fffffff;\n"
     "  if (a > 0x7f800000) return s | 0x7e00;\n"
     "  if (a >= 0x477ff000) return s | 0x7c00;\n"
     "  if (a < 0x38800000) return s | (bits_f32(f32_bits(a) + 0.5f) - 0x3f000000);\n"
     "  return s | (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;\n"
     "#endif\n"},
    {"f16_bits", "float", "uint16_t x",
     "\n#ifdef __FLT16_MANT_DIG__\n"
     "  _Float16 h; __builtin_memcpy(&h, &x, 2); return (float)h;\n"
     "#else\n"
     "  uint32_t s = (uint32_t)(x & 0x8000) << 16, m = x & 0x7fff;\n"
     "  if (m < 0x400) return f32_bits(s | bits_f32((float)m * 0x1p-24f));\n"
     "  return f32_bits(s | ((m << 13) + (m < 0x7c00 ? 0x38000000 : 0x70000000)));\n"
     "#endif\n"},
    {"round_f16", "float", "float x", "return f16_bits(bits_f16(x));"},
    {"round_bf16", "float", "float x", "return bf16_bits(bits_bf16(x));"},
    // Rounding the result again to a narrower type gives what one rounding would.
    {"f32_odd", "float", "double x",
     "float f = (float)x; double up = f < 0 ? -(double)f : (double)f, a = x < 0 ? -x : x; "
     "return (double)f == x ? f : f32_bits((bits_f32(f) - (up > a)) | 1);"},
    // Truncates; values from 2^63 on are right, negative ones wrap.
    {"u64_from_f64", "uint64_t", "double x",
     "return x >= 0x1p63 ? (uint64_t)(int64_t)(x - 0x1p63) ^ 0x8000000000000000u : (uint64_t)(int64_t)x;"},
};

}  // namespace

std::string CHelpers::scalar_conversion(const std::string& name) {
  const auto it = std::ranges::find(kConversions, name, &Conversion::name);
  CHECK(it != std::end(kConversions), "no conversion {}", name);
  return define(name, std::string(it->result), std::string(it->parameter), std::string(it->body));
}

std::string CHelpers::bits(DType d, int64_t lanes) {
  scalar_conversion("bits_f32");
  scalar_conversion("f32_bits");
  const std::string name = scalar_conversion("bits_" + dtype_tag(d));
  return lanes ? map(fmt::format("{}x{}", name, lanes), {'f', 32}, {'u', 16}, lanes, name) : name;
}

std::string CHelpers::from_bits(DType d, int64_t lanes) {
  scalar_conversion("bits_f32");
  scalar_conversion("f32_bits");
  const std::string name = scalar_conversion(dtype_tag(d) + "_bits");
  return lanes ? map(fmt::format("{}x{}", name, lanes), {'u', 16}, {'f', 32}, lanes, name) : name;
}

std::string CHelpers::round(DType d, int64_t lanes) {
  bits(d, 0);
  from_bits(d, 0);
  const std::string name = scalar_conversion("round_" + dtype_tag(d));
  return lanes ? map(fmt::format("{}x{}", name, lanes), {'f', 32}, {'f', 32}, lanes, name) : name;
}

std::string CHelpers::float_from_double_odd(int64_t lanes) {
  scalar_conversion("bits_f32");
  scalar_conversion("f32_bits");
  const std::string name = scalar_conversion("f32_odd");
  return lanes ? map(fmt::format("{}x{}", name, lanes), {'f', 64}, {'f', 32}, lanes, name) : name;
}

std::string CHelpers::uint64_from_double(int64_t lanes) {
  const std::string name = scalar_conversion("u64_from_f64");
  return lanes ? map(fmt::format("{}x{}", name, lanes), {'f', 64}, {'u', 64}, lanes, name) : name;
}

std::string CHelpers::bitcast(CElement from, CElement to) {
  CHECK(from.bits == to.bits, "bitcast of {} to {} bits", from.bits, to.bits);
  return define(fmt::format("{}_bits_of_{}", short_name(to), short_name(from)), scalar_name(to),
                scalar_name(from) + " x",
                fmt::format("{} r; __builtin_memcpy(&r, &x, {}); return r;", scalar_name(to), from.bits / 8));
}

}  // namespace lathe
