#include "uop/pattern.h"

#include "uop/matcher.h"
#include "uop/uop.h"

#include <map>
#include <random>
#include <thread>

#include "support/test.h"

namespace lathe {
namespace {

using namespace pat;

UOp node(const char* name, DType d = DType::WeakInt) { return variable(name, -100, 100, d); }
UOp number(int v) { return constant(Scalar(v)); }
UOp whole(const Match& m) { return sink(std::vector<UOp>{m.root()}); }

// The rule set of one rule.
#define ONE(...) late_rules(rule(__VA_ARGS__))

template <size_t K>
UOp run(const RuleSet<UOp, 1, K>& set, const UOp& u) {
  return Matcher<UOp>(set).rewrite(u);
}
#define MATCHES(u, ...) static_cast<bool>(run(ONE(__VA_ARGS__, fn(whole)), u))

TEST_CASE("a literal matches constants of equal value and any kind, not Invalid") {
  const UOp p = node("p"), f = node("f", DType::Float32);
  CHECK(run(ONE(x + 0, x), p + number(0)) == p);
  CHECK(run(ONE(x + 0, x), f + constant(Scalar(0.0))) == f);
  CHECK(run(ONE(x + 0, x), f + constant(DType::Float32, Scalar(0.0))) == f);
  CHECK(MATCHES(alu(Op::Or, {node("b", DType::Bool), constant(Scalar(false))}), x | 0));
  CHECK_FALSE(MATCHES(p + number(1), x + 0));
  CHECK_FALSE(MATCHES(p + number(-1), x + 1));
  CHECK_FALSE(MATCHES(alu(Op::Add, {p, invalid()}), x + 0));
  CHECK(MATCHES(f * constant(Scalar(0.5)), x * 0.5));
  CHECK(MATCHES(f * constant(Scalar(2.0)), x * 2));
  CHECK_FALSE(MATCHES(f * constant(Scalar(2.5)), x * 2));
  CHECK_FALSE(MATCHES(p + f, x + 0));
}

TEST_CASE("c0 matches constants but not Invalid, inv only Invalid") {
  const UOp p = node("p");
  CHECK(MATCHES(p + number(7), x + c0));
  CHECK_FALSE(MATCHES(p + p, x + c0));
  CHECK_FALSE(MATCHES(alu(Op::Add, {p, invalid()}), x + c0));
  CHECK(MATCHES(alu(Op::Add, {p, invalid()}), x + inv));
  CHECK_FALSE(MATCHES(p + number(7), x + inv));
  CHECK(run(ONE(x + inv, inv), alu(Op::Add, {p, invalid()})).is_invalid());
}

TEST_CASE("the same variable twice means the same node") {
  const UOp p = node("p"), q = node("q"), s = node("s", DType::Bool), t = node("t", DType::Bool);
  CHECK(run(ONE(where(b, x, x), x), where(s, p, p)) == p);
  CHECK_FALSE(MATCHES(where(s, p, q), where(b, x, x)));
  CHECK(MATCHES(s & s & s, x & x & x));
  CHECK_FALSE(MATCHES(s & s & t, x & x & x));
}

TEST_CASE("operators are positional, either_order gives both orders") {
  const UOp p = node("p"), q = node("q"), f = node("r");
  CHECK(MATCHES(p * q + f, x * y + z));
  CHECK_FALSE(MATCHES(f + p * q, x * y + z));
  CHECK(MATCHES(f + p * q, either_order(x * y + z)));
  CHECK(MATCHES(p * q + f, either_order(x * y + z)));
  static constexpr auto kFactor = ONE(either_order(x * y + x * z), x * (y + z));
  for (const UOp& l : {p * q, q * p})
    for (const UOp& r : {p * f, f * p}) {
      const UOp factored = run(kFactor, l + r);
      CHECK((factored == p * (q + f) || factored == p * (f + q)));
    }
  CHECK_FALSE(run(kFactor, p * p + q * q));
  // A constant stays on the right of its op.
  CHECK(MATCHES(p * 3 + p, either_order(x * c0 + x)));
  CHECK(MATCHES(p + p * 3, either_order(x * c0 + x)));
  CHECK_FALSE(MATCHES(p + number(3) * p, either_order(x * c0 + x)));
  CHECK(MATCHES(p * 3, either_order(c0 * x)));
}

// Any order of the sources of one marked op, and of several: each form once, the ones no graph has left out.
template <int N>
int count_forms(const Pat<N>& p) {
  int n = 0;
  for (uint32_t code = 0; code < pattern_form_limit(p.n, N); code++) {
    const PatternForm form = pattern_form(p.n, code);
    n += form.code == 0 && form_is_canonical(p.n, form);
  }
  return n;
}

TEST_CASE("forms of a left side") {
  CHECK(count_forms(x + y) == 1);
  CHECK(count_forms(either_order(x + y)) == 2);
  CHECK(count_forms(either_order(x + x)) == 1);
  CHECK(count_forms(either_order(x + c0)) == 1);
  CHECK(count_forms(either_order(x * y + x * z)) == 8);
  CHECK(count_forms(either_order(x * c0 + x * c1)) == 2);
}

TEST_CASE("numbers of sources") {
  const UOp p = node("p"), q = node("q"), r3 = node("r");
  const UOp none = sink({}), one = sink(std::vector{p}), two = sink(std::vector{p, q}),
            three = sink(std::vector{p, q, r3});
  CHECK_FALSE(MATCHES(one, op<Op::Sink>(x, y)));
  CHECK(MATCHES(two, op<Op::Sink>(x, y)));
  CHECK_FALSE(MATCHES(three, op<Op::Sink>(x, y)));
  CHECK_FALSE(MATCHES(one, op<Op::Sink>(x, y, any_srcs())));
  CHECK(MATCHES(two, op<Op::Sink>(x, y, any_srcs())));
  CHECK(MATCHES(three, op<Op::Sink>(x, y, any_srcs())));
  CHECK(MATCHES(none, op<Op::Sink>(any_srcs())));
  CHECK(MATCHES(three, op<Op::Sink>()));
  CHECK(MATCHES(none, op<Op::Sink>(no_srcs())));
  CHECK_FALSE(MATCHES(one, op<Op::Sink>(no_srcs())));
}

TEST_CASE("each_src matches every source") {
  constexpr OpSet kLeaves = {Op::Const, Op::Stack};
  const UOp lanes = stack(std::vector{number(1), number(2)}), p = node("p");
  CHECK(MATCHES(lanes + number(2), any_op<kAluOps>(each_src(any_op<kLeaves>()))));
  CHECK_FALSE(MATCHES(lanes + p, any_op<kAluOps>(each_src(any_op<kLeaves>()))));
  CHECK_FALSE(MATCHES(p + lanes, any_op<kAluOps>(each_src(any_op<kLeaves>()))));
  CHECK_FALSE(
      MATCHES(where(node("c", DType::Bool), lanes, lanes), any_op<kAluOps>(each_src(any_op<kLeaves>()))));
}

TEST_CASE("dtypes, predicates and conditions") {
  const UOp i = node("i", DType::Int32), f = node("f", DType::Float32);
  CHECK(MATCHES(i + i, op<Op::Add>(x, x).dtypes(is_int)));
  CHECK_FALSE(MATCHES(f + f, op<Op::Add>(x, x).dtypes(is_int)));
  CHECK(MATCHES(i + i, x.dtype(DType::Int32) + x));
  CHECK_FALSE(MATCHES(f + f, x.dtype(DType::Int32) + x));
  CHECK(MATCHES(cast(i, DType::Float32), op<Op::Cast>(x).dtype(DType::Float32)));
  CHECK_FALSE(MATCHES(cast(i, DType::Float64), op<Op::Cast>(x).dtype(DType::Float32)));
  static constexpr auto kRange =
      ONE(op<Op::Range>().arg_if([](const UOp& u) { return u.range().id == 3; }), fn(whole));
  CHECK(run(kRange, range(4, 3, AxisType::Loop)));
  CHECK_FALSE(run(kRange, range(4, 2, AxisType::Loop)));
  static constexpr auto kWhen =
      late_rules(rule(x / y, x).when([](const Match& m) { return m[y].is_const(Scalar(1)); }));
  CHECK(run(kWhen, i / 1) == i);
  CHECK_FALSE(run(kWhen, i / 2));
}

TEST_CASE("a match gives the root, the bindings and the context") {
  static constexpr auto kSet = ONE((x + y).as(z) % c0, fn([](const Match& m) {
                                     CHECK(m[c0] == m.root().src(1));
                                     CHECK(m[z] == m.root().src(0));
                                     m.ctx<std::vector<UOp>>().push_back(m.root());
                                     return m[x];
                                   }));
  const Matcher<UOp> matcher(kSet);
  const UOp p = node("p"), q = node("q");
  std::vector<UOp> seen;
  CHECK(matcher.rewrite((p + q) % 7, seen) == p);
  CHECK(seen == std::vector<UOp>{(p + q) % 7});
  int other = 0;
  CHECK_THROWS_AS(matcher.rewrite((p + q) % 7, other), InternalError);
  CHECK_THROWS_AS(matcher.rewrite((p + q) % 7), InternalError);
  // An unbound variable is caught, and the error names the rule.
  const std::string text = test::thrown<InternalError>([&] {
                             run(ONE(x / c0, fn([](const Match& m) { return m[y]; })), q / 7);
                           }).what();
  CHECK(test::contains(text, "pattern_test.cpp:"));
}

TEST_CASE("rules are tried in order until one gives another node") {
  static constexpr auto kSet =
      rules(rule(x + y, fn([](const Match&) { return UOp(); })),
            rule(x + y, fn([](const Match& m) { return m.root(); })), rule(x + c0, x), rule(x + y, y));
  const Matcher<UOp> matcher(kSet);
  const UOp p = node("p"), q = node("q");
  CHECK(matcher.rewrite(p + q) == q);
  CHECK(matcher.rewrite(p + number(5)) == p);
  CHECK_FALSE(matcher.rewrite(p * q));
  CHECK_FALSE(matcher.may_apply(p * q));
  CHECK(matcher.may_apply(p + q));
}

TEST_CASE("rule sets compose in order, at compile time and at run time") {
  static constexpr auto kA = rules(rule(x + y, x), rule(x * c0 * c1, x * (c0 * c1)));
  static constexpr auto kB = rules(rule(x + y, y), rule(x % 1, 0));
  const UOp p = node("p"), q = node("q");
  CHECK(Matcher<UOp>(kA + kB).rewrite(p + q) == p);
  CHECK(Matcher<UOp>(kB + kA).rewrite(p + q) == q);
  CHECK(Matcher<UOp>(kB + kA).rewrite(p * 3 * 4) == p * 12);
  CHECK(Matcher<UOp>(kA + kB).rewrite(p % 1) == number(0));
  CHECK(Matcher<UOp>({kA, kB}).rewrite(p + q) == p);
  CHECK(Matcher<UOp>({kB, kA}).rewrite(p + q) == q);
  CHECK(Matcher<UOp>({kB, kA}).rewrite(p * 3 * 4) == p * 12);
  CHECK(Matcher<UOp>({kB, kA}).size() == 4);
}

TEST_CASE("right-hand patterns") {
  const UOp p = node("p"), q = node("q"), f = node("f", DType::Float32), i = node("i", DType::Int32);
  SUBCASE("constants fold, exactly for weak types and on the grid of strong ones") {
    CHECK(run(ONE(x * c0 * c1, x * (c0 * c1)), p * (int64_t{1} << 40) * (int64_t{1} << 40)) ==
          p * constant(Scalar(int128{1} << 80)));
    const UOp half = constant(DType::Float16, Scalar(1.0 / 3));
    CHECK(run(ONE(x * c0 * c1, x * (c0 * c1)), f * half * half).src(1).dtype() == DType::Float16);
    CHECK(run(ONE(lt(x + c0, c1), lt(x, c1 - c0)), lt(p + 3, 10)) == lt(p, 7));
    const UOp u8 = node("u8", DType::UInt8);
    CHECK(run(ONE(x + c0 + c1, x + (c0 + c1)),
              u8 + constant(DType::UInt8, 200) + constant(DType::UInt8, 100)) ==
          u8 + constant(DType::UInt8, 44));
    // -1 as uint8 is 255: a comparison commits its weak side first.
    CHECK(run(ONE(where(ne(x, c0), c1, c2), ne(c1, c2)),
              where(ne(p, number(3)), constant(DType::UInt8, 255), number(-1))) == constant(DType::UInt8, 0));
  }
  SUBCASE("what does not fold stays") {
    CHECK(run(ONE(x * c0 * c1, x * (c0 / c1)), p * 3 * 0) == p * alu(Op::FloorDiv, {number(3), number(0)}));
  }
  SUBCASE("the replacement keeps dtype and shape") {
    CHECK(run(ONE(x % x, 0), i % i) == constant(DType::Int32, 0));
    CHECK(run(ONE(x + 0, x), p + constant(DType::Int32, 0)) == cast(p, DType::Int32));
    const UOp row = param(0, {1, 4}, DType::Float32), square = param(1, {3, 4}, DType::Bool);
    const UOp picked = run(ONE(where(b, x, x), x), where(square, row, row));
    CHECK(picked.shape() == Shape{3, 4});
    CHECK(picked == broadcast_to(row, {3, 4}));
    const UOp zero = run(ONE(x * 0, 0), row * 0);
    CHECK(zero.dtype() == DType::Float32);
    CHECK(zero.shape() == Shape{1, 4});
  }
  SUBCASE("ops with a dtype of their own") {
    CHECK(run(ONE(x + y, cast(x, DType::Float64)), f + f) == cast(cast(f, DType::Float64), DType::Float32));
    CHECK(run(ONE(sqrt(x), cast(sqrt(cast(x, DType::Float64)), DType::Float32)), alu(Op::Sqrt, {f})) ==
          cast(alu(Op::Sqrt, {cast(f, DType::Float64)}), DType::Float32));
    CHECK(run(ONE(x + y * -1, op<Op::Sub>(x, y)), p - q) == alu(Op::Sub, {p, q}));
  }
  SUBCASE("operators mean what they mean on nodes") {
    CHECK(run(ONE(x % y, x - y), p % q) == p - q);
    CHECK(run(ONE(x % y, x - 3), p % q) == p - 3);
    CHECK(run(ONE(x % y, -x), p % q) == -p);
    CHECK(run(ONE(x % y, eq(x, y)), p % q) == cast(eq(p, q), DType::WeakInt));
    CHECK(run(ONE(lt(x, y), ge(y, x)), lt(p, q)) == ge(q, p));
    CHECK(run(ONE(lt(x, y), !lt(y, x)), lt(p, q)) == logical_not(lt(q, p)));
    CHECK(run(ONE(x % y, maximum(x << y, x >> y) ^ (x | y)), p % q) == (maximum(p << q, p >> q) ^ (p | q)));
  }
}

TEST_CASE("results of other types") {
  static constexpr auto kText = rules_for<std::string>(
      rule(x + y,
           fn([](const Match& m) { return m.ctx<std::map<const Node*, std::string>>()[m[x].node()] + "+"; })),
      rule(c0, fn([](const Match& m) { return m[c0].value().to_string(); })));
  const UOp p = node("p");
  std::map<const Node*, std::string> names = {{p.node(), "p"}};
  const Matcher<std::string> text(kText);
  CHECK(text.rewrite(p + p, names) == "p+");
  CHECK(text.rewrite(number(12), names) == "12");
  CHECK(text.rewrite(p * p, names).empty());
  static constexpr auto kGradient = rules_for<std::vector<UOp>>(
      rule(x * y, fn([](const Match& m) { return std::vector<UOp>{m[y], m[x]}; })));
  CHECK(Matcher<std::vector<UOp>>(kGradient).rewrite(p * 3) == std::vector<UOp>{number(3), p});
  static constexpr auto kSpec =
      rules_for<bool>(rule(x + y, fn([](const Match& m) { return m[x] != m[y]; })),
                      rule(any_op<OpSet{Op::Add, Op::Mul}>(x, c0), fn([](const Match&) { return true; })));
  const Matcher<bool> spec(kSpec);
  CHECK(spec.rewrite(p + 1));
  CHECK_FALSE(spec.rewrite(p + p));
  CHECK(spec.rewrite(number(2) + number(2)));
  CHECK(spec.rewrite(p * 2));
  static constexpr auto kMaybe = rules_for<std::optional<bool>>(
      rule(x + x, fn([](const Match&) { return std::optional<bool>(false); })));
  CHECK(Matcher<std::optional<bool>>(kMaybe).rewrite(p + p) == false);
  CHECK(Matcher<std::optional<bool>>(kMaybe).rewrite(p * p) == std::nullopt);
}

TEST_CASE("matching touches no reference count") {
  const UOp p = node("p"), q = node("q");
  const UOp u = where(lt(p * 3 + q, 7), p, q);
  std::vector<uint32_t> before;
  for (const UOp& n : toposort(u)) before.push_back(n.node()->refs.load());
  static std::vector<uint32_t> during;
  during.clear();
  static UOp observed;
  observed = u;
  static constexpr auto kSet = ONE(where(lt(x * c0 + y, c1), x, y), fn([](const Match&) {
                                     for (const UOp& n : toposort(observed))
                                       during.push_back(n.node()->refs.load());
                                     return UOp();
                                   }));
  CHECK_FALSE(Matcher<UOp>(kSet).rewrite(u));
  before.back()++;  // `observed`
  CHECK(during == before);
  observed = UOp();
}

TEST_CASE("rule statistics") {
  static constexpr auto kSet =
      rules(rule(x + c0, x).named("drop a constant"), rule(x * y, x).named("never used here"));
  const auto count_of = [](std::string_view name) -> int64_t {
    for (const RuleStat& s : rule_stats())
      if (s.name == name) return static_cast<int64_t>(s.matches);
    return -1;
  };
  CHECK(count_of("drop a constant") == -1);
  {
    const Matcher<UOp> matcher(kSet);
    CHECK(count_of("drop a constant") == 0);
    matcher.rewrite(node("p") + 1);
    matcher.rewrite(node("p") + 2);
    matcher.rewrite(node("p") + node("q"));
    CHECK(count_of("drop a constant") == 2);
  }
  CHECK(count_of("drop a constant") == 2);  // kept when the matcher is gone
  Matcher<UOp>(kSet).rewrite(node("p") + 1);
  CHECK(count_of("drop a constant") == 3);
  CHECK(count_of("never used here") == 0);
}

TEST_CASE("two rules on one line are counted apart") {
  // clang-format off
  static constexpr auto kSet = rules(rule(x + 11, x), rule(x + 12, x));
  // clang-format on
  const Matcher<UOp> matcher(kSet);
  CHECK(kSet.rules[0].info.line == kSet.rules[1].info.line);
  CHECK(kSet.rules[0].info.column != kSet.rules[1].info.column);
}

TEST_CASE("one matcher in many threads") {
  static constexpr auto kSet =
      rules(rule(x + 0, x), rule(x * c0 * c1, x * (c0 * c1)), rule(either_order(x * y + x * z), x * (y + z)));
  const Matcher<UOp> matcher(kSet);
  const UOp p = node("p"), q = node("q");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (int i = 1; i < 2000; i++) {
        const UOp z = node("z");
        if (!(matcher.rewrite(p * i * (t + 1)) == p * (i * (t + 1)))) wrong++;
        if (!(matcher.rewrite(q * p + q * z) == q * (p + z))) wrong++;
        if (matcher.rewrite(p + i)) wrong++;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

// A matcher without dispatch tables: each form of each rule in order, by the definition.
bool matches_here(const PatNode* nodes, const PatternForm& form, int step, const UOp& n,
                  std::map<int, UOp>& bound) {
  const PatternForm::Step& s = form.steps[step];
  const PatNode& p = nodes[s.node];
  if (!p.ops.contains(n.op()) || !(s.dtypes >> static_cast<int>(n.dtype()) & 1)) return false;
  if (p.kind == NodeKind::Number && n.is_invalid()) return false;
  if (p.kind == NodeKind::Literal && (n.is_invalid() || !n.is_const(Scalar(p.literal.i)))) return false;
  if (p.mode == SrcMode::Exact && n.n_srcs() != p.n_srcs) return false;
  if (p.mode == SrcMode::AtLeast && n.n_srcs() < p.n_srcs) return false;
  if (s.var >= 0 && !(bound.try_emplace(s.var, n).first->second == n)) return false;
  for (int i = step + 1; i < form.n; i++)
    if (form.steps[i].parent == step && !matches_here(nodes, form, i, n.src(form.steps[i].src), bound))
      return false;
  return true;
}

TEST_CASE("dispatch agrees with trying every rule, on random graphs") {
  static constexpr auto kSet = rules(
      rule(x + 0, fn(whole)), rule(x * c0 + x * c1, fn(whole)), rule(x + x, fn(whole)),
      rule(x + c0 + c1, fn(whole)), rule((x + y) * c0, fn(whole)), rule(either_order(x * y + x), fn(whole)),
      rule(where(b, x, x), fn(whole)), rule(where(b, y, c0), fn(whole)), rule(lt(x + c0, c1), fn(whole)),
      rule(op<Op::Sink>(x, x, any_srcs()), fn(whole)), rule(op<Op::Sink>(no_srcs()), fn(whole)),
      rule(any_op<kAluOps>(c0, any_srcs()), fn(whole)), rule(maximum(x, 2), fn(whole)),
      rule(op<Op::Sink>(x, y), fn(whole)), rule(op<Op::CmpNe>(x, op<Op::CmpNe>()), fn(whole)),
      rule(x % x % y, fn(whole)));
  const Matcher<UOp> matcher(kSet);
  std::mt19937 random(7);
  std::vector<UOp> pool = {node("p"), node("q"), number(0), number(1), number(2), invalid()};
  const Op ops[] = {Op::Add,      Op::Mul, Op::CmpLt, Op::CmpNe, Op::FloorDiv,
                    Op::FloorMod, Op::Max, Op::Where, Op::Sink};
  int matched = 0;
  for (int i = 0; i < 4000; i++) {
    const auto pick = [&] {
      return pool[random() % 2 ? pool.size() - 1 - random() % std::min<size_t>(pool.size(), 12)
                               : random() % 6];
    };
    const Op o = ops[random() % std::size(ops)];
    const size_t n = o == Op::Sink ? random() % 4 : o == Op::Where ? 3 : 2;
    std::vector<UOp> srcs;
    while (srcs.size() < n) {
      UOp s = pick();
      if (s.op() == Op::Sink) s = pool[random() % 6];
      if (o == Op::Where && srcs.empty()) s = ne(s, number(1));
      srcs.push_back(s);
    }
    const UOp u = UOp::make(o, DType::Void, srcs);
    const RuleInfo* expected = nullptr;
    for (const auto& entry : kSet.rules) {
      const PatNode* left = &kSet.nodes[entry.info.left];
      for (uint32_t code = 0; code < pattern_form_limit(left, entry.info.n_left) && !expected; code++) {
        const PatternForm form = pattern_form(left, code);
        std::map<int, UOp> bound;
        if (form.code == 0 && form_is_canonical(left, form) && matches_here(left, form, 0, u, bound))
          expected = &entry.info;
      }
    }
    Match m;
    const bool applied = static_cast<bool>(matcher.rewrite(u, m));
    REQUIRE(applied == (expected != nullptr));
    if (applied) {
      matched++;
      CHECK(m.rule().left == expected->left);
    }
    pool.push_back(u);
  }
  CHECK(matched > 400);
  CHECK(matched < 3900);
}

}  // namespace
}  // namespace lathe
