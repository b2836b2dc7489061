#include "renderer/c_helpers.h"

#include "base/error.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <bit>

namespace lathe {
namespace {

// One statement a lane, `i` is the lane: "r[i] = …".
std::string each_lane(int64_t lanes, const std::string& statement) {
  return fmt::format("for (int i = 0; i < {}; i++) {}", lanes, statement);
}

}  // namespace

CElement register_element(DType d) {
  CHECK(d != DType::Void && !is_weak(d) && !is_narrow_float(d), "C has no type for {}", dtype_name(d));
  if (is_bool(d)) return {'i', 8};
  return {is_float(d) ? 'f' : is_unsigned(d) ? 'u' : 'i', bit_width(d)};
}

std::string short_name(CElement e) { return fmt::format("{}{}", e.kind, e.bits); }

std::string scalar_name(CElement e) {
  if (e.kind == 'f') return e.bits == 64 ? "double" : "float";
  return fmt::format("{}int{}_t", e.kind == 'u' ? "u" : "", e.bits);
}

std::string memory_name(DType d) { return is_bool(d) ? "uint8_t" : scalar_name(register_element(d)); }

int64_t padded_lanes(int64_t lanes) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lanes)));
}

std::string CHelpers::define(const std::string& name, const std::string& result,
                             const std::string& parameters, const std::string& body) {
  if (defined_.insert(name).second)
    functions_ += fmt::format("static inline __attribute__((always_inline)) {} {}({}) {{ {} }}\n", result,
                              name, parameters, body);
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

// ---- lanes

std::string CHelpers::splat(CElement e, int64_t lanes) {
  const std::string t = vector_type(e, lanes);
  std::string items;
  for (int64_t i = 0; i < padded_lanes(lanes); i++) items += i ? ", x" : "x";
  return define("splat_" + t, t, scalar_name(e) + " x", fmt::format("return ({}){{{}}};", t, items));
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

std::string CHelpers::access_name(const char* verb, DType d, int64_t lanes, std::optional<CElement> index,
                                  bool gated) const {
  return fmt::format("{}{}_{}x{}{}", verb, gated ? "_if" : "",
                     is_bool(d) ? "bool" : short_name(register_element(d)), lanes,
                     index ? "_at_" + short_name(*index) : "");
}

// Booleans are 0 or 1 in memory, 0 or -1 in lanes.
std::string CHelpers::load(DType d, int64_t lanes, std::optional<CElement> index, bool gated) {
  const CElement e = register_element(d);
  const std::string t = vector_type(e, lanes);
  std::string parameters = fmt::format("const {}* p", memory_name(d)), body;
  if (index) parameters += fmt::format(", {} at", vector_type(*index, lanes));
  if (gated) parameters += fmt::format(", {} m, {} r", vector_type({'i', e.bits}, lanes), t);
  if (index || gated)
    body = fmt::format("{} {} return r;", gated ? "" : t + " r = {0};",
                       each_lane(lanes, fmt::format("{}r[i] = {}p[{}];", gated ? "if (m[i]) " : "",
                                                    is_bool(d) ? "-(int8_t)" : "", index ? "at[i]" : "i")));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("{} r = {{0}}; __builtin_memcpy(&r, p, {}); return {}r;", t, lanes * e.bits / 8,
                       is_bool(d) ? "-" : "");
  else
    body = fmt::format("return {}*(const {}*)p;", is_bool(d) ? "-" : "", memory_type(e, lanes));
  return define(access_name("load", d, lanes, index, gated), t, parameters, body);
}

std::string CHelpers::store(DType d, int64_t lanes, std::optional<CElement> index, bool gated) {
  const CElement e = register_element(d);
  const char* negative = is_bool(d) ? "-" : "";
  std::string parameters = fmt::format("{}* p, ", memory_name(d)), body;
  if (index) parameters += fmt::format("{} at, ", vector_type(*index, lanes));
  parameters += vector_type(e, lanes) + " x";
  if (gated) parameters += fmt::format(", {} m", vector_type({'i', e.bits}, lanes));
  if (index || gated)
    body = each_lane(
        lanes, fmt::format("{}p[{}] = {}x[i];", gated ? "if (m[i]) " : "", index ? "at[i]" : "i", negative));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("x = {}x; __builtin_memcpy(p, &x, {});", negative, lanes * e.bits / 8);
  else
    body = fmt::format("*({}*)p = {}x;", memory_type(e, lanes), negative);
  return define(access_name("store", d, lanes, index, gated), "void", parameters, body);
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
  const std::string body =
      lanes ? fmt::format("return {}(({})(a < b), b, a);", where(e, lanes), vector_type({'i', e.bits}, lanes))
            : "return a < b ? b : a;";
  return define("max_" + (lanes ? t : short_name(e)), t, fmt::format("{0} a, {0} b", t), body);
}

std::string CHelpers::rounding(const std::string& name, CElement e, int64_t lanes) {
  const std::string t = type(e, lanes), function = "__builtin_" + name + (e.bits == 64 ? "" : "f");
  const std::string body =
      lanes ? fmt::format("{} r; {} return r;", t,
                          each_lane(padded_lanes(lanes), fmt::format("r[i] = {}(x[i]);", function)))
            : fmt::format("return {}(x);", function);
  return define(name + "_" + (lanes ? t : short_name(e)), t, t + " x", body);
}

std::string CHelpers::divide(CElement e, int64_t lanes, bool remainder) {
  const std::string t = vector_type(e, lanes);
  return define(fmt::format("{}_{}x{}", remainder ? "rem" : "div", short_name(e), lanes), t,
                fmt::format("{0} a, {0} b", t),
                fmt::format("{} r = {{0}}; {} return r;", t,
                            each_lane(lanes, fmt::format("r[i] = a[i] {} b[i];", remainder ? "%" : "/"))));
}

std::string CHelpers::bitcast(CElement from, CElement to) {
  CHECK(from.bits == to.bits, "bitcast of {} to {} bits", from.bits, to.bits);
  return define(fmt::format("{}_bits_of_{}", short_name(to), short_name(from)), scalar_name(to),
                scalar_name(from) + " x",
                fmt::format("{} r; __builtin_memcpy(&r, &x, {}); return r;", scalar_name(to), from.bits / 8));
}

}  // namespace lathe
