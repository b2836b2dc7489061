#include "uop/rewrite.h"

#include "base/knobs.h"
#include "uop/uop.h"

#include <set>

#include "support/test.h"

namespace lathe {
namespace {

using namespace pat;

UOp node(const char* name, DType d = DType::WeakInt) { return variable(name, -100, 100, d); }
UOp number(int v) { return constant(Scalar(v)); }
UOp sine(const UOp& u) { return alu(Op::Sin, {u}); }
UOp root_of(const UOp& u) { return alu(Op::Sqrt, {u}); }

std::string short_name(const UOp& u) {
  return u.op() == Op::Add ? "+" : u.is_const() ? u.value().to_string() : "?";
}

// The order in which rules see nodes.
struct Visits {
  std::string log;
  void add(const UOp& u, const char* mark) { log += fmt::format("({},{})", short_name(u), mark); }
};
UOp visit_b(const Match& m) {
  m.ctx<Visits>().add(m.root(), "b");
  return {};
}
UOp visit_p(const Match& m) {
  m.ctx<Visits>().add(m.root(), "p");
  return {};
}
constexpr OpSet kAddConst = {Op::Add, Op::Const};
constexpr auto kVisitB = rules(rule(any_op<kAddConst>(), fn(visit_b)));
constexpr auto kVisitP = rules(rule(any_op<kAddConst>(), fn(visit_p)));

using NodeMap = std::vector<std::pair<UOp, UOp>>;
UOp look_up(const Match& m) {
  for (const auto& [from, to] : m.ctx<NodeMap>())
    if (from == m.root()) return to;
  return {};
}
constexpr auto kLookUp = rules(rule(any_op<kEveryOp>(), fn(look_up)));

// Rewrites by a map of nodes, top-down rules or bottom-up rules, greedy or walk.
UOp by_map(const UOp& u, NodeMap map, bool bottom_up, bool walk) {
  static const Matcher<UOp> matcher(kLookUp), none;
  return graph_rewrite(u, bottom_up ? none : matcher,
                       {.ctx = map, .bottom_up = bottom_up ? &matcher : nullptr, .walk = walk});
}

TEST_CASE("order of visits") {
  const Matcher<UOp> b(kVisitB), p(kVisitP), none;
  const UOp sum = number(1) + number(2);
  for (bool walk : {false, true}) {
    CAPTURE(walk);
    Visits top, bottom, both;
    CHECK(graph_rewrite(sum, p, {.ctx = top, .walk = walk}) == sum);
    CHECK(top.log == "(1,p)(2,p)(+,p)");
    CHECK(graph_rewrite(sum, none, {.ctx = bottom, .bottom_up = &b, .walk = walk}) == sum);
    CHECK(bottom.log == "(+,b)(1,b)(2,b)");
    CHECK(graph_rewrite(sum, p, {.ctx = both, .bottom_up = &b, .walk = walk}) == sum);
    CHECK(both.log == "(+,b)(1,b)(1,p)(2,b)(2,p)(+,p)");
  }
}

TEST_CASE("a walk leaves results alone, greedy rewriting goes on") {
  const UOp u = node("a"), v = node("b"), w = node("c"), d = node("d");
  const NodeMap map = {{u, v + w}, {v, d}};
  CHECK(by_map(u + 4, map, false, true) == v + w + 4);
  CHECK(by_map(u + 4, map, true, true) == v + w + 4);
  CHECK(by_map(u + 4, map, true, false) == d + w + 4);
  CHECK(by_map(u + 4, map, false, false) == d + w + 4);
}

TEST_CASE("rules that swap two nodes") {
  const NodeMap map = {{number(3), number(4)}, {number(4), number(3)}};
  for (bool bottom_up : {false, true}) {
    CHECK(by_map(number(3), map, bottom_up, true) == number(4));
    CHECK(by_map(number(4), map, bottom_up, true) == number(3));
    CHECK(by_map(number(3) + number(4), map, bottom_up, true) == number(4) + number(3));
    CHECK_THROWS_AS(by_map(number(3), map, bottom_up, false), InternalError);
  }
}

TEST_CASE("bottom-up walks skip what is below a match, top-down walks see sources first") {
  const UOp u = node("a", DType::Float32);
  const NodeMap map = {{sine(u), root_of(u)}, {sine(sine(u)), root_of(sine(u))}};
  CHECK(by_map(sine(sine(u)), map, true, true) == root_of(sine(u)));
  CHECK(by_map(sine(sine(u)), map, false, true) == sine(root_of(u)));
}

TEST_CASE("a result that contains its original") {
  const UOp u = node("a", DType::Float32);
  const NodeMap map = {{sine(u), root_of(sine(u))}};
  CHECK(by_map(sine(u) + 4, map, false, true) == root_of(sine(u)) + 4);
  CHECK(by_map(sine(u) + 4, map, true, true) == root_of(sine(u)) + 4);
  CHECK_THROWS_AS(by_map(sine(u) + 4, map, false, false), InternalError);
  CHECK_THROWS_AS(by_map(sine(u) + 4, map, true, false), InternalError);
}

TEST_CASE("top-down rules never see what bottom-up rules replaced") {
  static constexpr auto kTen = rules(
      rule(op<Op::Const>(), fn([](const Match& m) { return m.root() == number(1) ? number(10) : UOp(); })));
  const Matcher<UOp> ten(kTen), p(kVisitP);
  for (bool walk : {false, true}) {
    CAPTURE(walk);
    Visits seen;
    CHECK(graph_rewrite(number(1) + number(2), p, {.ctx = seen, .bottom_up = &ten, .walk = walk}) ==
          number(10) + number(2));
    CHECK_FALSE(test::contains(seen.log, "(1,p)"));
    CHECK(test::contains(seen.log, "(2,p)"));
    CHECK(test::contains(seen.log, "(+,p)"));
  }
}

constexpr auto kFold = rules(rule(c0 + c1, fn([](const Match& m) {
                                    return constant(Scalar(m[c0].value().as_int() + m[c1].value().as_int()));
                                  })),
                             rule(c0* c1, fn([](const Match& m) {
                                    return constant(Scalar(m[c0].value().as_int() * m[c1].value().as_int()));
                                  })));

TEST_CASE("constants fold in both directions") {
  const Matcher<UOp> fold(kFold);
  const UOp u = number(5) * number(3) + number(5) * number(7);
  CHECK(graph_rewrite(u, fold) == number(50));
  CHECK(graph_rewrite(u, fold, {.bottom_up = &fold}) == number(50));
  CHECK(graph_rewrite(u, fold, {.walk = true}) == number(50));
  // Bottom-up only: the sum is no sum of constants when it is met, but is once its sources are.
  CHECK(graph_rewrite(u, {}, {.bottom_up = &fold}) == number(50));
}

TEST_CASE("a rule that returns its input ends") {
  static constexpr auto kSame = rules(rule(x + y, fn([](const Match& m) { return m.root(); })));
  const Matcher<UOp> same(kSame);
  const UOp u = node("a") + node("b");
  CHECK(graph_rewrite(u, same) == u);
  CHECK(graph_rewrite(u, same, {.bottom_up = &same}) == u);
}

TEST_CASE("diamonds are rewritten once") {
  static constexpr auto kCount = rules(rule(x * 2, fn([](const Match& m) {
                                              m.ctx<int>()++;
                                              return m[x] << number(1);
                                            })));
  const Matcher<UOp> count(kCount);
  UOp u = node("a") * 2, expected = node("a") << number(1);
  for (int i = 0; i < 50; i++) u = u + u, expected = expected + expected;
  int times = 0;
  CHECK(graph_rewrite(u, count, {.ctx = times}) == expected);
  CHECK(times == 1);
}

TEST_CASE("the gate and a stopping rule end the descent") {
  const Matcher<UOp> fold(kFold);
  const UOp inner = number(1) + number(2), kept = alu(Op::Neg, {inner}), u = kept + inner;
  const auto not_neg = [](const UOp& n) { return n.op() != Op::Neg; };
  CHECK(graph_rewrite(u, fold, {.gate = not_neg}) == kept + number(3));
  CHECK(graph_rewrite(u, fold, {.walk = true, .gate = not_neg}) == kept + number(3));
  static constexpr auto kStop = late_rules(rule(op<Op::Neg>(x), fn([](const Match& m) { return m.stop(); })));
  const Matcher<UOp> stop(kStop);
  CHECK(graph_rewrite(u, fold, {.bottom_up = &stop}) == kept + number(3));
  CHECK(graph_rewrite(u, fold, {.bottom_up = &stop, .walk = true}) == kept + number(3));
  CHECK(graph_rewrite(u, fold) == alu(Op::Neg, {number(3)}) + number(3));
  // A replacement is asked again, so a rule may replace a node and end the descent at what it made.
  static constexpr auto kReplaceAndStop =
      late_rules(rule(op<Op::Sqrt>(x), fn([](const Match& m) { return alu(Op::Neg, {m[x]}); })),
                 rule(op<Op::Neg>(x), fn([](const Match& m) { return m.stop(); })));
  const Matcher<UOp> replace_and_stop(kReplaceAndStop);
  CHECK(graph_rewrite(root_of(inner) + inner, fold, {.bottom_up = &replace_and_stop}) == kept + number(3));
}

TEST_CASE("bodies of calls are entered only when asked") {
  const Matcher<UOp> fold(kFold);
  const UOp sum = number(1) + number(2);
  const UOp body = sink(std::vector<UOp>{sum}), body_after = sink(std::vector<UOp>{number(3)});
  const UOp call = UOp::make(Op::Call, {body, sum});
  CHECK(graph_rewrite(call, fold) == UOp::make(Op::Call, {body, number(3)}));
  CHECK(graph_rewrite(call, fold, {.enter_calls = true}) == UOp::make(Op::Call, {body_after, number(3)}));
  CHECK(graph_rewrite(call, fold, {.walk = true}) == UOp::make(Op::Call, {body, number(3)}));
  // The same node below a call and outside: inside it stays.
  const UOp both = sink(std::vector<UOp>{UOp::make(Op::Call, {body}), body});
  CHECK(graph_rewrite(both, fold) == sink(std::vector<UOp>{UOp::make(Op::Call, {body}), body_after}));
}

TEST_CASE("endless rules are reported with the rules that fired") {
  static constexpr auto kSwap =
      rules(rule(x + y, fn([](const Match& m) { return m[y] + m[x]; })).named("swap"));
  const Matcher<UOp> swap(kSwap);
  const UOp p = node("a"), q = node("b");
  const std::string circle =
      test::thrown<InternalError>([&] { graph_rewrite((p + q) * 2, swap, {.name = "test pass"}); }).what();
  CHECK(test::contains(circle, "circle"));
  CHECK(test::contains(circle, "rewrite_test.cpp:"));
  CHECK(test::contains(circle, "(swap)"));
  CHECK(test::contains(circle, "test pass"));

  static constexpr auto kGrow =
      rules(rule(c0, fn([](const Match& m) { return constant(Scalar(m[c0].value().as_int() + 1)); }))
                .named("count up"));
  const Matcher<UOp> grow(kGrow);
  const std::string growth = test::thrown<InternalError>([&] { graph_rewrite(number(1), grow); }).what();
  CHECK(test::contains(growth, "without end"));
  CHECK(test::contains(growth, "(count up)"));
  {
    const KnobScope limit(Knob::REWRITE_LIMIT, 5);
    CHECK_THROWS_AS(graph_rewrite(number(1), grow), InternalError);
  }

  // New nodes below new nodes.
  static constexpr auto kDeeper = rules(
      rule(c0,
           fn([](const Match& m) { return alu(Op::Sqrt, {constant(Scalar(m[c0].value().as_int() + 1))}); }))
          .named("deeper"));
  const Matcher<UOp> deeper(kDeeper);
  const std::string depth = test::thrown<InternalError>([&] { graph_rewrite(number(1), deeper); }).what();
  CHECK(test::contains(depth, "without end"));
  CHECK(test::contains(depth, "(deeper)"));
}

TEST_CASE("a long but finite series of rewrites is no cycle") {
  static constexpr auto kDown = rules(rule(c0, fn([](const Match& m) {
                                             const int64_t v = m[c0].value().as_i64();
                                             return v > 0 ? constant(Scalar(v - 1)) : UOp();
                                           })));
  const Matcher<UOp> down(kDown);
  CHECK(graph_rewrite(number(900), down) == number(0));
  static constexpr auto kDistribute = rules(rule((x + y) * c0, x * c0 + y * c0));
  const Matcher<UOp> distribute(kDistribute);
  UOp sum = node("v0"), expected = node("v0") * 3;
  for (int i = 1; i < 5000; i++) {
    const std::string name = fmt::format("v{}", i);
    sum = sum + node(name.c_str());
    expected = expected + node(name.c_str()) * 3;
  }
  CHECK(graph_rewrite(sum * 3, distribute) == expected);
}

TEST_CASE("a chain of a million nodes is rewritten without recursion") {
  static constexpr auto kRules = rules(rule(x + 2, x + 3), rule(x + 5, x));
  const Matcher<UOp> matcher(kRules), none;
  const UOp start = node("a");
  UOp chain = start;
  for (int i = 0; i < 1000000; i++) chain = chain + (i % 7 == 0 ? 2 : 4);
  CHECK(graph_rewrite(chain, none) == chain);
  const UOp result = graph_rewrite(chain, matcher);
  UOp n = result;
  bool as_expected = true;
  for (int i = 999999; i >= 0; i--) {
    as_expected = as_expected && n.src(1) == number(i % 7 == 0 ? 3 : 4);
    n = n.src(0);
  }
  CHECK(as_expected);
  CHECK(n == start);
}

// Deep enough for rules on the way down to pass the limit that stops endless growth.
TEST_CASE("the drivers agree on a deep chain") {
  static constexpr auto kRules = rules(rule(x + 2, x + 3), rule(x + 5, x));
  const Matcher<UOp> matcher(kRules);
  UOp chain = node("a");
  for (int i = 0; i < 250000; i++) chain = chain + (i % 2 == 0 ? 2 : 4);
  const UOp result = graph_rewrite(chain, matcher);
  CHECK(graph_rewrite(chain, matcher, {.walk = true}) == result);
  CHECK(graph_rewrite(chain, {}, {.bottom_up = &matcher}) == result);
}

TEST_CASE("errors in rule functions name rule and pass, and leave the rewriter usable") {
  static constexpr auto kThrow =
      rules(rule(x * 13, fn([](const Match&) -> UOp { value_error("thirteen"); })), rule(x + 0, x));
  const Matcher<UOp> matcher(kThrow);
  Rewriter rewriter(matcher, {.name = "unlucky"});
  const UOp p = node("a");
  const UserError error = test::user_error([&] { rewriter(p * 13 + 1); });
  CHECK(test::contains(error.what(), "thirteen"));
  CHECK(test::contains(error.what(), "rewrite_test.cpp:"));
  CHECK(test::contains(error.what(), "unlucky"));
  CHECK(rewriter(p + 0 + 1) == p + 1);
}

TEST_CASE("several roots share one rewrite") {
  static constexpr auto kCount = rules(rule(x * 2, fn([](const Match& m) {
                                              m.ctx<int>()++;
                                              return m[x] << number(1);
                                            })));
  const Matcher<UOp> count(kCount);
  int times = 0;
  Rewriter rewriter(count, {.ctx = times});
  const UOp p = node("a");
  CHECK(rewriter(p * 2 + 1) == (p << number(1)) + 1);
  CHECK(rewriter(p * 2 + 3) == (p << number(1)) + 3);
  CHECK(rewriter(p * 2) == (p << number(1)));
  CHECK(times == 1);
  CHECK(rewriter.rewrites() == 1);
}

TEST_CASE("a tracer sees every application") {
  struct Recorder : RewriteTracer {
    std::vector<std::pair<UOp, UOp>> steps;
    std::string passes;
    std::set<std::string> rules;
    void on_pass_begin(std::string_view pass, const UOp&) override { passes += fmt::format("<{}", pass); }
    void on_match(const RuleInfo& rule, const UOp& before, const UOp& after, uint64_t ns) override {
      steps.emplace_back(before, after);
      rules.insert(rule_name(rule));
      CHECK(ns < uint64_t{10} * 1000 * 1000 * 1000);
    }
    void on_pass_end(std::string_view, const UOp& result) override { passes += result ? ">" : "!"; }
  } recorder;
  const Matcher<UOp> fold(kFold);
  RewriteTracer* before = set_rewrite_tracer(&recorder);
  graph_rewrite(number(5) * number(3) + number(7), fold, {.name = "fold"});
  CHECK(set_rewrite_tracer(before) == &recorder);
  graph_rewrite(number(1) + number(1), fold);
  CHECK(recorder.passes == "<fold>");
  CHECK(recorder.rules.size() == 2);
  CHECK(recorder.steps == std::vector<std::pair<UOp, UOp>>{{number(5) * number(3), number(15)},
                                                           {number(15) + number(7), number(22)}});
}

TEST_CASE("rewriting leaves no nodes behind") {
  const Matcher<UOp> fold(kFold);
  const size_t before = live_node_count();
  {
    UOp u = number(1);
    for (int i = 0; i < 100; i++) u = u * number(i % 3) + number(i);
    const UOp r = graph_rewrite(u, fold, {.bottom_up = &fold});
    CHECK(r.is_const());
  }
  CHECK(live_node_count() == before);
}

}  // namespace
}  // namespace lathe
