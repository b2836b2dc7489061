#include "property/run.h"

#include "property/shrink.h"
#include "uop/gates.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <cstdio>
#include <cstdlib>

namespace lathe::test {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The rules of a theme without what they note on nodes about earlier runs.
UOp simplify_afresh(Theme theme, const UOp& u) {
  static const Matcher<UOp> symbolic({symbolic_rule_set()}), gates({symbolic_rule_set(), gate_rule_set()}),
      reduce({symbolic_rule_set(), reduce_rule_set()});
  return graph_rewrite(u, theme == Theme::Gated ? gates : theme == Theme::Reduced ? reduce : symbolic);
}

// Of a smaller expression, looked at more closely: often it is a rule that shows first, then.
std::string small_report(const UOp& u, Failure failure, CheckOptions options) {
  options.each_rule = true;
  options.points = 400;
  options.reorderings = 8;
  options.order = failure.property == Property::Order;
  if (auto closer = check(u, options)) failure = *closer;
  const UOp small = shrink(u, [&](const UOp& v) {
    const auto f = check(v, options);
    return f && f->same_kind(failure);
  });
  if (auto f = check(small, options)) failure = *f;
  return report(small, failure, options);
}

}  // namespace

RunResult run_properties(Theme theme, size_t count, const Simplifier& simplifier, double tolerance) {
  const uint64_t seed = from_environment("PROPERTY_SEED", 1);
  const uint64_t first = from_environment("PROPERTY_FIRST", 0);
  const uint64_t last = first + from_environment("PROPERTY_COUNT", count / kSlowdown);
  const bool goes_on = std::getenv("PROPERTY_ALL") != nullptr;
  RunResult result;
  for (uint64_t i = first; i < last; i++) {
    Generator generator(theme, Random(seed, i));
    const UOp u = generator.expression();
    const CheckOptions options{.simplify = simplifier,
                               .again = [theme](const UOp& v) { return simplify_afresh(theme, v); },
                               .seed = seed * 1000003 + i,
                               .each_rule = i % 4 == 0,
                               .tolerance = tolerance};
    const std::optional<Failure> failure = check(u, options);
    result.expressions++;
    if (!failure) continue;
    if (failure->property == Property::Order && !std::getenv("PROPERTY_ORDER")) {
      result.order_differs++;
      continue;
    }
    std::string text = fmt::format("PROPERTY_SEED={} PROPERTY_FIRST={} PROPERTY_COUNT=1: {}", seed, i,
                                   small_report(u, *failure, options));
    if (goes_on) {
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
    }
    if (result.failure.empty()) result.failure = std::move(text);
    if (!goes_on) break;
  }
  std::printf("%zu expressions, seed %llu; %zu depend on the order of construction\n", result.expressions,
              static_cast<unsigned long long>(seed), result.order_differs);
  return result;
}

}  // namespace lathe::test
