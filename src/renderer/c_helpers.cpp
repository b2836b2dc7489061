#include "renderer/c_helpers.h"

#include "base/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace lathe {

int64_t padded_lanes(int64_t lanes) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lanes)));
}

std::string CHelpers::define(const std::string& name, const std::string& result,
                             const std::string& parameters, const std::string& body) {
  if (defined_.insert(name).second)
    functions_ += fmt::format("{} {} {}({}) {{ {} }}\n", dialect_.function, result, name, parameters, body);
  return name;
}

// ---- types

std::string CHelpers::vector_type(CElement e, int64_t lanes) {
  const int64_t n = padded_lanes(lanes);
  if (dialect_.is_device) return fmt::format("{}{}", dialect_.scalar_name(e), n);
  const std::string name = fmt::format("{}x{}", short_name(e), n);
  if (defined_.insert(name).second)
    types_ += fmt::format("typedef {} {} __attribute__((vector_size({})));\n", dialect_.scalar_name(e), name,
                          n * e.bits / 8);
  return name;
}

// The same vector where memory need not be aligned to more than its elements.
std::string CHelpers::memory_type(CElement e, int64_t lanes) {
  const std::string name = vector_type(e, lanes) + "_mem";
  if (defined_.insert(name).second)
    types_ += fmt::format("typedef {} {} __attribute__((vector_size({}), aligned({}), may_alias));\n",
                          dialect_.scalar_name(e), name, lanes * e.bits / 8, e.bits / 8);
  return name;
}

// ---- lanes

std::string CHelpers::lane(const std::string& vector, int64_t number) const {
  return fmt::format(fmt::runtime(dialect_.lane), vector, number);
}

std::string CHelpers::literal(const std::string& type, const std::string& items) const {
  return fmt::format(fmt::runtime(dialect_.literal), type, items);
}

// A statement for every lane, in which "@" behind a vector takes the lane and "#" is its number.
std::string CHelpers::each_lane(int64_t lanes, std::string_view statement) const {
  const int64_t copies = dialect_.is_device ? lanes : 1;
  std::string out = copies == 1 ? fmt::format("for (int i = 0; i < {}; i++) ", lanes) : "";
  for (int64_t k = 0; k < copies; k++) {
    out += k ? " " : "";
    for (char c : statement) {
      if (c == '@')
        out += copies == 1 ? "[i]" : lane("", k);
      else if (c == '#')
        out += copies == 1 ? "i" : std::to_string(k);
      else
        out += c;
    }
  }
  return out;
}

std::string CHelpers::splat(CElement e, int64_t lanes) {
  const std::string t = vector_type(e, lanes);
  std::string items;
  for (int64_t i = 0; i < padded_lanes(lanes); i++) items += i ? ", x" : "x";
  return define("splat_" + t, t, dialect_.scalar_name(e) + " x",
                fmt::format("return {};", literal(t, items)));
}

std::string CHelpers::shuffle(CElement e, int64_t lanes, std::span<const int64_t> picked) {
  const int64_t n = static_cast<int64_t>(picked.size());
  const std::string from = vector_type(e, lanes), to = vector_type(e, n);
  std::string numbers, items;
  for (int64_t i = 0; i < padded_lanes(n); i++) {
    numbers += fmt::format(", {}", i < n ? picked[static_cast<size_t>(i)] : -1);
    items += (i ? ", " : "") + lane("x", i < n ? picked[static_cast<size_t>(i)] : 0);
  }
  const std::string key = from + numbers;
  auto it = std::ranges::find(shuffles_, key);
  const std::string name = fmt::format("shuffle{}_{}", it - shuffles_.begin(), to);
  if (it == shuffles_.end()) shuffles_.push_back(key);
  std::string body = fmt::format("return {};", literal(to, items));
  if (!dialect_.is_device)
    body = fmt::format(
        "\n#if HAS_SHUFFLEVECTOR\n  return __builtin_shufflevector(x, x{});\n#else\n  {}\n#endif\n", numbers,
        body);
  return define(name, to, from + " x", body);
}

// ---- memory

std::string CHelpers::access_name(const char* verb, DType d, int64_t lanes, const CAccess& a) const {
  constexpr std::string_view kSuffix[] = {"", "_local", "_private"};
  return fmt::format("{}{}_{}x{}{}{}", verb, a.is_gated ? "_if" : "",
                     is_bool(d) ? "bool" : short_name(register_element(d)), lanes,
                     a.index ? "_at_" + short_name(*a.index) : "",
                     dialect_.is_device ? kSuffix[static_cast<size_t>(a.space)] : "");
}

// Booleans are 0 or 1 in memory, 0 or -1 in lanes.
std::string CHelpers::load(DType d, int64_t lanes, const CAccess& a) {
  const CElement e = register_element(d);
  const std::string t = vector_type(e, lanes);
  std::string parameters =
      fmt::format("const {}{}* p", dialect_.space_name(a.space), dialect_.memory_name(d));
  std::string body;
  if (a.index) parameters += fmt::format(", {} at", vector_type(*a.index, lanes));
  if (a.is_gated) parameters += fmt::format(", {} m, {} r", vector_type({'i', e.bits}, lanes), t);
  if (a.index || a.is_gated || (dialect_.is_device && lanes != padded_lanes(lanes)))
    body =
        fmt::format("{} {} return r;", a.is_gated ? "" : fmt::format("{} r = {};", t, literal(t, "0")),
                    each_lane(lanes, fmt::format("{}r@ = {}p[{}];", a.is_gated ? "if (m@) " : "",
                                                 is_bool(d) ? negative_byte() : "", a.index ? "at@" : "#")));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("{} r = {{0}}; __builtin_memcpy(&r, p, {}); return {}r;", t, lanes * e.bits / 8,
                       is_bool(d) ? "-" : "");
  else if (dialect_.is_device)
    body = is_bool(d) ? fmt::format("return -as_{}(vload{}(0, p));", t, lanes)
                      : fmt::format("return vload{}(0, p);", lanes);
  else
    body = fmt::format("return {}*(const {}*)p;", is_bool(d) ? "-" : "", memory_type(e, lanes));
  return define(access_name("load", d, lanes, a), t, parameters, body);
}

std::string CHelpers::store(DType d, int64_t lanes, const CAccess& a) {
  const CElement e = register_element(d);
  const char* negative = is_bool(d) ? "-" : "";
  std::string parameters = fmt::format("{}{}* p, ", dialect_.space_name(a.space), dialect_.memory_name(d));
  std::string body;
  if (a.index) parameters += fmt::format("{} at, ", vector_type(*a.index, lanes));
  parameters += vector_type(e, lanes) + " x";
  if (a.is_gated) parameters += fmt::format(", {} m", vector_type({'i', e.bits}, lanes));
  if (a.index || a.is_gated || (dialect_.is_device && lanes != padded_lanes(lanes)))
    body = each_lane(
        lanes, fmt::format("{}p[{}] = {}x@;", a.is_gated ? "if (m@) " : "", a.index ? "at@" : "#", negative));
  else if (lanes != padded_lanes(lanes))
    body = fmt::format("x = {}x; __builtin_memcpy(p, &x, {});", negative, lanes * e.bits / 8);
  else if (dialect_.is_device)
    body = fmt::format("vstore{}({}, 0, p);", lanes,
                       is_bool(d) ? fmt::format("as_{}(-x)", vector_type({'u', 8}, lanes)) : "x");
  else
    body = fmt::format("*({}*)p = {}x;", memory_type(e, lanes), negative);
  return define(access_name("store", d, lanes, a), "void", parameters, body);
}

// ---- arithmetic

// C has no vector form of ?:, so bits are merged.
std::string CHelpers::where(CElement e, int64_t lanes) {
  const std::string t = vector_type(e, lanes), m = vector_type({'i', e.bits}, lanes);
  const std::string merge = dialect_.is_device ? "select(b, a, m)"
                            : t == m           ? "(a & m) | (b & ~m)"
                                               : fmt::format("({})((({})a & m) | (({})b & ~m))", t, m, m);
  return define("where_" + t, t, fmt::format("{0} m, {1} a, {1} b", m, t), fmt::format("return {};", merge));
}

std::string CHelpers::max(CElement e, int64_t lanes) {
  const std::string t = type(e, lanes);
  const std::string body = lanes ? fmt::format("return {}({}, b, a);", where(e, lanes),
                                               fmt::format(fmt::runtime(dialect_.reinterpret),
                                                           vector_type({'i', e.bits}, lanes), "(a < b)"))
                                 : "return a < b ? b : a;";
  return define("max_" + (lanes ? t : short_name(e)), t, fmt::format("{0} a, {0} b", t), body);
}

std::string CHelpers::rounding(const std::string& name, CElement e, int64_t lanes) {
  if (dialect_.is_device) return name;
  const std::string t = type(e, lanes), function = "__builtin_" + name + (e.bits == 64 ? "" : "f");
  const std::string body =
      lanes ? fmt::format("{} r; {} return r;", t,
                          each_lane(padded_lanes(lanes), fmt::format("r@ = {}(x@);", function)))
            : fmt::format("return {}(x);", function);
  return define(name + "_" + (lanes ? t : short_name(e)), t, t + " x", body);
}

std::string CHelpers::divide(CElement e, int64_t lanes, bool remainder) {
  const std::string t = vector_type(e, lanes);
  return define(fmt::format("{}_{}x{}", remainder ? "rem" : "div", short_name(e), lanes), t,
                fmt::format("{0} a, {0} b", t),
                fmt::format("{} r = {}; {} return r;", t, literal(t, "0"),
                            each_lane(lanes, fmt::format("r@ = a@ {} b@;", remainder ? "%" : "/"))));
}

std::string CHelpers::bitcast(CElement from, CElement to) {
  CHECK(from.bits == to.bits, "bitcast of {} to {} bits", from.bits, to.bits);
  const std::string t = dialect_.scalar_name(to);
  if (dialect_.is_device) return "as_" + t;
  return define(fmt::format("{}_bits_of_{}", short_name(to), short_name(from)), t,
                dialect_.scalar_name(from) + " x",
                fmt::format("{} r; __builtin_memcpy(&r, &x, {}); return r;", t, from.bits / 8));
}

}  // namespace lathe
