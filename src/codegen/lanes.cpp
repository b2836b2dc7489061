#include "codegen/lanes.h"

#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {
namespace {

// The sum in which `lanes` are folded says the same in any order, and in any type that holds it.
bool adds_exactly(const UOp& reduce) {
  if (reduce.arg_as<ReduceArg>().op != Op::Add) return false;
  if (is_float(reduce.dtype())) return true;
  const Bounds& b = reduce.src(0).bounds();
  double trips = 1;
  for (const UOp& s : reduce.srcs().subspan(1)) trips *= s.bounds().hi.as_double() + 1;
  const double most = max_value(reduce.dtype()).as_double();
  return trips * b.hi.as_double() <= most && -trips * b.lo.as_double() <= most;
}

class LaneHoist {
 public:
  LaneHoist(const UOp& body, UOp lanes) : body_(body), lanes_(std::move(lanes)) {}

  UOp run() {
    const NodeList order = toposort(body_);
    const bool may = std::ranges::all_of(order, [&](const UOp& u) { return follow(u); });
    if (!may || outer_.empty()) return body_;
    Rebuilt done;
    return done.walk(order, [&](const UOp& u) { return rebuilt(u, done.over_sources(u), done); });
  }

 private:
  bool holds(const UOp& u) const { return sums_.contains(u.node()); }

  // Notes what is linear in the sum over the lanes, and what sums that; false where something else is made of
  // it.
  bool follow(const UOp& u) {
    if (closes(u, lanes_)) return u.op() == Op::Reduce && adds_exactly(u) && sums_.insert(u.node()).second;
    const auto n = std::ranges::count_if(u.srcs(), [&](const UOp& s) { return holds(s); });
    if (!n) return true;
    const bool sums = u.op() == Op::Reduce && u.arg_as<ReduceArg>().op == Op::Add && is_float(u.dtype());
    if (sums) return !has_lanes(u) && outer_.insert(u.node()).second;
    const bool linear =
        u.op() == Op::Add || (u.op() == Op::Mul && n == 1) || (u.op() == Op::Cast && is_float(u.dtype()));
    return linear && sums_.insert(u.node()).second;
  }

  // Whether the sum has lanes already: its own, or those of an axis around it.
  static bool has_lanes(const UOp& sum) {
    return std::ranges::any_of(sum.src(0).ranges(),
                               [](const Node* r) { return UOp(r).range().type == AxisType::Vector; });
  }

  UOp rebuilt(const UOp& u, const UOp& v, const Rebuilt& done) const {
    if (closes(u, lanes_)) {
      SmallVec<UOp, 8> srcs;
      for (const UOp& s : v.srcs())
        if (!(s == lanes_)) srcs.push_back(s);
      return srcs.size() == 1 ? srcs[0] : v.with_srcs(srcs);
    }
    if (outer_.contains(u.node())) {
      SmallVec<UOp, 8> srcs(v.srcs());
      srcs.push_back(lanes_);
      return v.with_srcs(srcs);
    }
    if (u.op() != Op::Add || !holds(u) || (holds(u.src(0)) && holds(u.src(1)))) return v;
    const size_t rest = holds(u.src(0));
    const UOp first = eq(lanes_, constant(0));
    const UOp other = where(first, done.of(u.src(rest)), constant(u.src(rest).dtype(), Scalar(0)));
    return done.of(u.src(1 - rest)) + other;
  }

  const UOp& body_;
  UOp lanes_;
  std::unordered_set<const Node*> sums_, outer_;
};

}  // namespace

UOp lanes_beside(const UOp& body, const UOp& r) {
  const NodeList order = toposort(body);
  for (const UOp& lanes : kernel_axes(body))
    if (lanes.range().type == AxisType::Vector && !(lanes == r) &&
        std::ranges::all_of(order, [&](const UOp& u) { return closes(u, r) == closes(u, lanes); }))
      return lanes;
  return {};
}

UOp merge_lanes(const UOp& body, const UOp& outer, const UOp& inner) {
  const int64_t n = inner.src(0).value().as_i64();
  const UOp all = range(outer.src(0).value().as_i64() * n, next_range_id(body), AxisType::Vector);
  return change_ranges(body, {{outer, all / n, {}}, {inner, all % n, {all}}});
}

UOp hoist_lanes(const UOp& start) {
  UOp body = start;
  for (const UOp& r : kernel_axes(body))
    if (r.range().type == AxisType::Vector) body = LaneHoist(body, r).run();
  return body;
}

}  // namespace lathe
