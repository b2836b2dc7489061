// The checks see what wrong rules do, and the reports of it are small.
#include "property/shrink.h"

#include "property/generator.h"
#include "property/properties.h"
#include "uop/parse.h"
#include "uop/print.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using namespace pat;

constexpr auto kLosesConstant = rules(rule((x + c0) / c1, x / c1).named("wrong"));
constexpr auto kTurns = rules(rule((x + y).dtype(DType::WeakInt), y + x).named("wrong"));
constexpr auto kStopsHalfway =
    rules(rule(maximum(x, maximum(y, z)),
               fn([](const Match& m) { return m[x] == m[z] ? UOp() : maximum(m[y], m[x]); }))
              .named("wrong"));
// True of values below 256 only.
constexpr auto kWrapsLate = rules(rule(cast(cast(x, DType::UInt8), DType::WeakInt), x).named("wrong"));

struct Wrong {
  std::string name;
  RuleView<UOp> rules;
  Property property;
  size_t nodes;  // of the smallest expression that shows it, variables with their shapes
};

// The first random expression that fails in the way looked for, made small.
std::pair<UOp, Failure> smallest_failure(const Wrong& wrong, const CheckOptions& options) {
  for (uint64_t i = 0; i < 20000; i++) {
    const UOp u = Generator(Theme::Index, Random(7, i)).expression();
    const auto first = check(u, options);
    if (!first || first->property != wrong.property) continue;
    const UOp small = shrink(u, [&](const UOp& v) {
      const auto f = check(v, options);
      return f && f->same_kind(*first);
    });
    return {small, *check(small, options)};
  }
  FAIL(wrong.name, ": no expression shows it");
  throw 0;  // FAIL has left already
}

}  // namespace

TEST_CASE("wrong rules are found and shown by tiny expressions") {
  const Wrong cases[] = {{"loses a constant", kLosesConstant, Property::Rule, 5},
                         {"turns forever", kTurns, Property::Error, 5},
                         {"forgets an operand", kStopsHalfway, Property::Rule, 7},
                         {"forgets to wrap", kWrapsLate, Property::Rule, 4}};
  for (const Wrong& wrong : cases) {
    CAPTURE(wrong.name);
    const Matcher<UOp> matcher({wrong.rules, symbolic_rule_set()});
    CheckOptions options{.simplify = [&](const UOp& u) { return graph_rewrite(u, matcher); }, .order = false};
    const auto [small, failure] = smallest_failure(wrong, options);
    CHECK_MESSAGE(toposort(small).size() <= wrong.nodes, print(small));
    CHECK(parse(print(small)).or_throw() == small);
    const std::string text = report(small, failure, options);
    CHECK(contains(text, print(small)));
    CHECK(contains(text, "infix: " + lathe::expression(small)));
    CHECK(contains(text, "seed 0"));
    if (failure.property == Property::Rule) {
      CHECK(contains(failure.rule, "shrink_test.cpp:"));
      CHECK(contains(failure.detail, "must be"));
    } else {
      CHECK(contains(failure.detail, "circle"));
    }
    CHECK(contains(text, "(wrong)"));
  }
}

TEST_CASE("a wrong value is seen without looking at rules") {
  const Matcher<UOp> matcher({RuleView<UOp>(kLosesConstant), symbolic_rule_set()});
  const CheckOptions options{.simplify = [&](const UOp& u) { return graph_rewrite(u, matcher); },
                             .each_rule = false,
                             .order = false};
  const UOp a = variable("a", 0, 3);
  const auto failure = check((a + 1) / 2, options);
  REQUIRE(failure);
  CHECK(failure->property == Property::Value);
  CHECK(contains(failure->detail, "at a=1: 0, must be 1"));
  CHECK(!check(a / 2, options));
}

TEST_CASE("results that can be simplified, and another result for another order, are failures") {
  const UOp a = variable("a", 0, 3), b = variable("b", 0, 3);
  // Takes one factor 1 at a time.
  const CheckOptions once{
      .simplify = [](const UOp& u) { return u.op() == Op::Mul && u.src(1).is_const(1) ? u.src(0) : u; },
      .each_rule = false};
  CHECK(check(alu(Op::Mul, {a * 1, constant(1)}), once)->property == Property::Idempotent);
  const CheckOptions nothing{
      .simplify = [](const UOp& u) { return simplify(u).is_const() ? simplify(u) : u; },
      .each_rule = false,
      .reorderings = 8};
  CHECK(check(a + b, nothing)->property == Property::Order);
  CHECK(!check(a / b, nothing));
}
