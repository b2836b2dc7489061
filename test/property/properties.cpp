#include "property/properties.h"

#include "property/generator.h"
#include "uop/print.h"
#include "uop/rewrite.h"

#include <algorithm>
#include <cmath>

namespace lathe::test {
namespace {

struct Application {
  const RuleInfo* rule;
  UOp before, after;
};

// Keeps what it sees, in this thread.
class Recorder : public RewriteTracer {
 public:
  Recorder() : outer_(set_rewrite_tracer(this)) {}
  ~Recorder() override { set_rewrite_tracer(outer_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  void on_pass_begin(std::string_view, const UOp&) override {}
  void on_match(const RuleInfo& rule, const UOp& before, const UOp& after, uint64_t) override {
    applications_.push_back({&rule, before, after});
  }
  void on_pass_end(std::string_view, const UOp&) override {}
  const std::vector<Application>& applications() const { return applications_; }

 private:
  RewriteTracer* outer_;
  std::vector<Application> applications_;
};

std::string infix(const UOp& u) { return lathe::expression(u); }

bool agree(const Value& must, const Value& is, double tolerance) {
  if (tolerance == 0 || !must || !is || !must->is_float() || !is->is_float()) return same(must, is);
  return std::abs(must->as_double() - is->as_double()) <= tolerance * std::abs(must->as_double());
}

// "at a=3: 4, must be 5", where `after` is not the value of `before`.
std::string difference(const ValueTable& before, const ValueTable& after, const Points& points,
                       double tolerance) {
  const std::vector<Value>&x = before.result(), &y = after.result();
  const size_t n = points.size();
  if (n == 0) return "";
  for (size_t i = 0; i < std::max(x.size(), y.size()); i++) {
    const Value &must = x[x.size() == n ? i % n : i], &is = y[y.size() == n ? i % n : i];
    if (must && !agree(must, is, tolerance) && (is || !after.overflows(i % n)))
      return fmt::format("at {}: {}, must be {}", points.text(i % n), value_text(is), value_text(must));
  }
  return "";
}

std::string outside_bounds(const ValueTable& table, const Points& points) {
  for (size_t k = 0; k < table.nodes().size(); k++) {
    const UOp& u = table.nodes()[k];
    const bool is_address = u.op() == Op::Index && u.src(0).op() == Op::Param;
    if (table.values(k).empty() || is_address || !u.has_shape()) continue;
    const Bounds& b = u.bounds();
    for (size_t i = 0; i < table.values(k).size(); i++) {
      const Value& v = table.values(k)[i];
      if (!v || v->is_invalid() || !(v->less(b.lo) || b.hi.less(*v))) continue;
      return fmt::format("{} is outside {}..{} at {}: {}", value_text(v), b.lo.to_string(), b.hi.to_string(),
                         points.text(i % points.size()), infix(u));
    }
  }
  return "";
}

std::optional<Failure> check_rules(const Recorder& recorder, const CheckOptions& options) {
  for (const Application& a : recorder.applications()) {
    if (a.before.dtype() == DType::Void || a.before.op() == Op::Index) continue;
    const std::string place = rule_name(*a.rule);
    auto failure = [&](const std::string& what) {
      return Failure{
          Property::Rule, place,
          fmt::format("{}: {}\n  before: {}\n  after:  {}", place, what, infix(a.before), infix(a.after))};
    };
    const UOp& lane = a.after.op() == Op::Expand ? a.after.src(0) : a.after;
    if (a.before.dtype() != a.after.dtype() && !lane.is_invalid())
      return failure(fmt::format("{} becomes {}", dtype_name(a.before.dtype()), dtype_name(a.after.dtype())));
    const UOp before = unrolled(a.before), after = unrolled(a.after);
    if (!before || !after) continue;
    const Points points({before, after}, Random(options.seed, 3), options.points / 2 + 1);
    const std::string what =
        difference(ValueTable(before, points), ValueTable(after, points), points, options.tolerance);
    if (!what.empty()) return failure(what);
  }
  return {};
}

// Numbers in place of the variables, at the first point where everything has a value.
std::optional<Failure> check_substitution(const ValueTable& before, const ValueTable& after,
                                          const Points& points, const CheckOptions& options) {
  size_t p = 0;
  while (p < points.size() && !(before.defined(p) && after.defined(p))) p++;
  if (p == points.size() || before.result().size() != points.size()) return {};
  const Value& must = before.result()[p];
  for (const UOp& u : {before.nodes().back(), after.nodes().back()}) {
    const UOp number = options.simplify(points.substituted(u, p));
    // A load stays, but for one of a constant address its value is known.
    const ValueTable table(number, Points({number}, Random(0), 1));
    const bool reads = std::any_of(table.nodes().begin(), table.nodes().end(),
                                   [](const UOp& n) { return n.op() == Op::Load; });
    if ((number.is_const() || reads) && agree(must, table.result()[0], options.tolerance)) continue;
    return Failure{Property::Substitution, "",
                   fmt::format("{} at {} gives {}, must be {}", infix(u), points.text(p), infix(number),
                               value_text(must))};
  }
  return {};
}

std::optional<Failure> check_order(const UOp& u, const UOp& simple, const CheckOptions& options) {
  Random random(options.seed, 2);
  for (int i = 0; i < options.reorderings; i++) {
    const UOp other = reorder_randomly(u, random);
    const UOp result = options.simplify(other);
    if (result == simple) continue;
    return Failure{
        Property::Order, "",
        fmt::format("{} gives {}\n  {} gives {}", infix(u), infix(simple), infix(other), infix(result))};
  }
  return {};
}

// `before` is `u` at the points.
std::optional<Failure> check_simplified(const UOp& u, const ValueTable& before, const Points& points,
                                        const CheckOptions& options) {
  std::optional<Recorder> recorder;
  if (options.each_rule) recorder.emplace();
  const UOp simple = options.simplify(u);
  if (recorder)
    if (auto failure = check_rules(*recorder, options)) return failure;
  recorder.reset();
  const UOp simple_flat = unrolled(simple);
  if (!simple_flat) return {};
  const ValueTable after(simple_flat, points);
  if (std::string what = difference(before, after, points, options.tolerance); !what.empty())
    return Failure{Property::Value, "", what};
  if (std::string what = outside_bounds(after, points); !what.empty())
    return Failure{Property::Bounds, "", "of the result: " + what};
  if (const UOp again = (options.again ? options.again : options.simplify)(simple); !(again == simple))
    return Failure{Property::Idempotent, "", fmt::format("{} gives {}", infix(simple), infix(again))};
  if (auto failure = check_substitution(before, after, points, options)) return failure;
  return options.order ? check_order(u, simple, options) : std::nullopt;
}

std::optional<Failure> check_all(const UOp& u, const CheckOptions& options) {
  const UOp flat = unrolled(u);
  if (!flat) return {};
  // Variables that do not count in an empty loop have values all the same.
  std::vector<UOp> roots{flat};
  for (const UOp& n : toposort(u))
    if (n.op() == Op::Param) roots.push_back(n);
  const Points points(roots, Random(options.seed, 1), options.points);
  if (points.size() == 0) return {};
  const ValueTable before(flat, points);
  if (std::string what = outside_bounds(before, points); !what.empty())
    return Failure{Property::Bounds, "", what};
  try {
    return check_simplified(u, before, points, options);
  } catch (const UserError& e) {
    // Of what has no value, one order may fold, as r//r does, and another one be refused.
    if (e.kind() == UserError::Kind::Zero && before.divides_by_zero()) return {};
    throw;
  }
}

}  // namespace

std::string_view property_name(Property p) {
  static constexpr std::string_view kNames[] = {"value",        "bounds", "idempotent", "order",
                                                "substitution", "rule",   "error"};
  return kNames[static_cast<size_t>(p)];
}

std::optional<Failure> check(const UOp& u, const CheckOptions& options) {
  try {
    return check_all(u, options);
  } catch (const Error& e) {
    return Failure{Property::Error, "", e.what()};
  }
}

std::string rules_fired(const UOp& u, const Simplifier& simplify) {
  Recorder recorder;
  try {
    (void)simplify(u);
  } catch (const Error&) {  // what fired so far
  }
  std::vector<std::string> places;
  for (const Application& a : recorder.applications())
    if (std::string place = rule_name(*a.rule);
        std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(std::move(place));
  std::string out;
  for (const std::string& place : places) out += "  " + place + "\n";
  return out;
}

std::string report(const UOp& u, const Failure& failure, const CheckOptions& options) {
  return fmt::format("{} does not hold of\n{}infix: {}\nseed {}: {}\nrules that fired:\n{}",
                     property_name(failure.property), print(u), infix(u), options.seed, failure.detail,
                     rules_fired(u, options.simplify));
}

}  // namespace lathe::test
