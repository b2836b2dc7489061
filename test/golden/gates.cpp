#include "golden/gates.h"

#include "codegen/passes.h"
#include "golden/golden.h"
#include "runtime/interp/executor.h"
#include "uop/gates.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "support/test.h"

namespace lathe::test {
namespace {

// ---- execution

using Bytes = std::vector<std::byte>;

Bytes floats(int64_t n) {
  Bytes bytes(static_cast<size_t>(n) * sizeof(float));
  for (size_t i = 0; i < static_cast<size_t>(n); i++) {
    const float v = static_cast<float>(i + 1);
    std::memcpy(&bytes[i * sizeof v], &v, sizeof v);
  }
  return bytes;
}

// The points of the names' box, as tables that kernels read.
struct Points {
  Points(const Names& used, int first_slot) : names(used) {
    std::vector<std::vector<Scalar>> values(names.size());
    for_each_point(names, [&](std::span<const Scalar> point) {
      for (size_t i = 0; i < names.size(); i++) values[i].push_back(point[i]);
      count++;
      return true;
    });
    loop = range(count, 0, AxisType::Loop);
    for (size_t i = 0; i < names.size(); i++) {
      const UOp& u = names[i].second;
      const DType d = is_float(u.dtype()) ? DType::Float32 : DType::Int32;
      const UOp table = param(first_slot + static_cast<int>(i), {count}, d);
      from_tables.emplace_back(u, cast(load(index(table, loop)), u.dtype()));
      tables.emplace_back();
      for (const Scalar& v : values[i]) {
        const uint64_t bits = encode(cast_scalar(v, d), d);
        const auto* from = reinterpret_cast<const std::byte*>(&bits);
        tables.back().insert(tables.back().end(), from, from + 4);
      }
    }
  }
  const Names& names;
  int64_t count = 0;
  UOp loop;
  std::vector<std::pair<UOp, UOp>> from_tables;
  std::vector<Bytes> tables;
};

// Runs the effect at every point. Slots 0 and 1 are `out` and `memory`, the tables come after them.
void run_at(Points& points, const UOp& effect, Bytes& out, Bytes& memory) {
  const UOp body = UOp::make(Op::End, {substitute(effect, points.from_tables), points.loop});
  const std::vector<UOp> linear =
      linearize(commit_weak_types(move_gates(sink({&body, 1}), Target()), Target()));
  verify(linear, "gates");
  std::vector<int64_t> slots;  // of the arguments that are left
  for (const UOp& u : linear)
    if (u.op() == Op::Param) slots.push_back(u.param().slot);
  std::sort(slots.begin(), slots.end());
  std::vector<std::span<std::byte>> arguments;
  for (const int64_t slot : slots)
    arguments.push_back(slot == 0   ? std::span(out)
                        : slot == 1 ? std::span(memory)
                                    : std::span(points.tables[static_cast<size_t>(slot - 2)]));
  interp::Code("gates", linear).run(arguments, {}, 0);
}

// The first point where the results differ.
std::string first_difference(const Points& points, const Bytes& a, const Bytes& b, std::string_view what) {
  if (a == b) return "";
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  const int64_t point = at / (static_cast<int64_t>(a.size()) / points.count);
  std::string text = fmt::format("{} differ at point {}:", what, point);
  for (size_t i = 0; i < points.names.size(); i++) {
    uint32_t bits = 0;
    std::memcpy(&bits, &points.tables[i][static_cast<size_t>(point) * 4], 4);
    const DType d = is_float(points.names[i].second.dtype()) ? DType::Float32 : DType::Int32;
    text += fmt::format(" {}={}", points.names[i].first, decode(bits, d).to_string());
  }
  return text;
}

// Least and largest element that a gated index reaches; nothing where it reaches none.
std::optional<std::pair<int64_t, int64_t>> reach(const UOp& gated, const Names& names) {
  const Evaluator value(gated, names);
  int64_t lo = std::numeric_limits<int64_t>::max(), hi = std::numeric_limits<int64_t>::min();
  for_each_point(names, [&](std::span<const Scalar> point) {
    const auto v = value(point);
    if (!v || v->is_invalid()) return true;
    lo = std::min(lo, v->as_i64());
    hi = std::max(hi, v->as_i64());
    return true;
  });
  if (lo > hi) return std::nullopt;
  return std::pair{lo, hi};
}

// ---- rows

std::string_view trimmed(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

std::pair<std::string_view, std::string_view> split(std::string_view s, std::string_view by) {
  const size_t at = s.find(by);
  if (at == s.npos) value_error("'{}' has no '{}'", s, by);
  return {trimmed(s.substr(0, at)), trimmed(s.substr(at + by.size()))};
}

UOp read(std::string_view text, const Names& names) { return parse_expression(text, names).or_throw(); }

// Simplified on its own, up to the order of operands.
bool same(const UOp& a, const UOp& b) { return reorder(a) == reorder(simplify(b)); }

}  // namespace

std::string compare_accesses(const UOp& a, const UOp& b, const Names& names) {
  const auto reached = reach(a, names);
  if (!reached) return "";  // nothing is accessed, so anything goes that accesses nothing
  const int64_t size = reached->second - reached->first + 1;
  Points points(names, 2);
  const UOp out = param(0, {points.count}, DType::Float32), memory = param(1, {size}, DType::Float32);
  Bytes loaded[2], stored[2];
  for (const int k : {0, 1}) {
    // Every pass below pushes the offset into the gate.
    const UOp at = index(memory, (k ? b : a) - reached->first);
    loaded[k] = stored[k] = {};
    loaded[k].resize(static_cast<size_t>(points.count) * 4);
    stored[k] = floats(size);
    Bytes unchanged = stored[k], unused(loaded[k].size());
    try {
      run_at(points, store(index(out, points.loop), load(at)), loaded[k], unchanged);
      run_at(points, store(at, cast(points.loop * -1, DType::Float32)), unused, stored[k]);
    } catch (const Error& e) {
      return fmt::format("{}: {}", k ? "simplified" : "original", e.what());
    }
  }
  const std::string loads = first_difference(points, loaded[0], loaded[1], "loads");
  return !loads.empty() ? loads : stored[0] == stored[1] ? "" : "stores differ";
}

std::string compare_values(const UOp& a, const UOp& b, Bytes memory, const Names& names) {
  Points points(names, 2);
  const UOp out = param(0, {points.count}, DType::Float32);
  Bytes values[2];
  for (const int k : {0, 1}) {
    values[k].resize(static_cast<size_t>(points.count) * 4);
    run_at(points, store(index(out, points.loop), cast(k ? b : a, DType::Float32)), values[k], memory);
  }
  return first_difference(points, values[0], values[1], "values");
}

std::string check_gate(std::string_view row, const Names& names) {
  const auto [input, output] = split(row, " => ");
  const auto [gate, at] = split(input, " @ ");
  const auto [want_gate, want_at] = split(output == "=" ? input : output, " @ ");
  const UOp original = where(read(gate, names), read(at, names), invalid());
  const UOp got = simplify_gates(original);
  std::string problems;
  if (!same(got, where(read(want_gate, names), read(want_at, names), invalid())))
    problems += fmt::format("  {}: gives {}\n", row, expression(got));
  if (const std::string s = compare_accesses(original, got, names); !s.empty())
    problems += fmt::format("  {}: {}\n", row, s);
  return problems;
}

}  // namespace lathe::test

using namespace lathe;
using namespace lathe::test;

namespace {

class RandomGates {
 public:
  RandomGates(const Names& names, uint64_t seed) : names_(names), random_(seed) {}

  int number(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random_); }
  UOp sum() {
    UOp s = constant(number(-8, 12));
    for (const auto& [name, v] : names_) s = s + v * number(-2, 4);
    return s;
  }
  UOp gate() {
    UOp all = clause();
    for (int i = number(0, 2); i > 0; i--) all = all & clause();
    return all;
  }
  UOp index() {
    return sum() % number(2, 9) * number(1, 5) + sum() / number(2, 9) * number(1, 5) + sum() / number(2, 30);
  }

 private:
  UOp clause() {
    const UOp x = number(0, 3) == 0   ? sum() / number(2, 5)
                  : number(0, 1) == 0 ? sum()
                                      : names_[static_cast<size_t>(number(0, 2))].second;
    const UOp c = constant(number(-2, 8));
    const UOp one = number(0, 2) ? lt(x, c) : lt(c, x);
    return number(0, 1) ? one : logical_not(one);
  }
  const Names& names_;
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("simplified accesses load and store the same, inside of the memory") {
  const Names names = parse_names("a[0,5] b[-3,4] c[0,3]").or_throw();
  RandomGates random(names, 11);
  int changed = 0;
  for (int i = 0; i < 1500; i++) {
    const UOp gated = where(random.gate(), random.index(), invalid()), simple = simplify_gates(gated);
    changed += !(simple == simplify(gated));
    CHECK_MESSAGE(compare_accesses(gated, simple, names) == "", expression(gated), " -> ",
                  expression(simple));
  }
  CHECK(changed > 100);
}

TEST_CASE("selections of gated loads have the same values with other gates") {
  const Names names = parse_names("a[0,5] b[-3,4] c[0,3]").or_throw();
  RandomGates random(names, 13);
  int moved = 0;
  for (int i = 0; i < 600; i++) {
    const bool bools = random.number(0, 1);
    const UOp memory = param(1, {16}, bools ? DType::Bool : DType::Float32);
    std::vector<std::byte> bytes(64);
    for (size_t k = 0; k < 64; k++) bytes[k] = static_cast<std::byte>(bools ? (k * 5 % 3 == 1) : k);
    const UOp gate = random.gate(), zero = constant(bools ? DType::Bool : DType::Float32, 0);
    const UOp value = load(index(memory, where(gate, random.index() % 16, invalid())));
    UOp selecting = random.number(0, 1) ? random.gate() & gate : random.gate();
    // Clauses about another loaded value stay.
    if (random.number(0, 3) == 0)
      selecting = selecting & ne(load(index(memory, random.index() % 16)), constant(0));
    const UOp u =
        random.number(0, 1) ? where(selecting, value, zero) : where(logical_not(selecting), zero, value);
    const UOp simple = simplify_gates(u);
    moved += simple.op() == Op::Load;
    CHECK_MESSAGE(compare_values(u, simple, bytes, names) == "", expression(u), " -> ", expression(simple));
  }
  CHECK(moved > 100);
}

TEST_CASE("wrong gates are seen") {
  const Names names = parse_names("a[0,9]").or_throw();
  const auto gated = [&](const char* gate, const char* at) {
    return where(parse_expression(gate, names).or_throw(), parse_expression(at, names).or_throw(), invalid());
  };
  CHECK(compare_accesses(gated("a<5", "a+1"), gated("a<5", "1+a"), names) == "");
  CHECK(contains(compare_accesses(gated("a<5", "a"), gated("a<4", "a"), names),
                 "loads differ at point 4: a=4"));
  CHECK(contains(compare_accesses(gated("a<5", "a"), gated("a<6", "a"), names), "index 5, size 5"));
  CHECK(contains(compare_accesses(gated("a<5", "a"), gated("a<5", "4-a"), names), "loads differ"));
  CHECK(contains(check_gate("a<5 @ a+1 => a<5 @ a", names), "gives"));
}
