#include "codegen/vectorize.h"

#include "codegen/rebuild.h"

#include <algorithm>

namespace lathe {
namespace {

bool depends_on(const UOp& u, const UOp& r) {
  const RangeSet& open = u.ranges();
  return std::find(open.begin(), open.end(), r.node()) != open.end();
}

// Coefficient of `r` in one product term, or nothing.
std::optional<int64_t> coefficient(const UOp& term, const UOp& r) {
  if (term == r) return 1;
  if (term.op() == Op::Mul && term.src(0) == r && term.src(1).is_const()) return term.src(1).value().as_i64();
  return {};
}

class Vectorizer {
 public:
  UOp run(const UOp& body) {
    return done_.walk(toposort(body), [&](const UOp& u) { return visit(u); });
  }

 private:
  const UOp& of(const UOp& u) const { return done_.of(u); }

  static UOp vector_axis(const UOp& u) {
    for (const Node* r : u.ranges())
      if (std::get<RangeArg>(r->arg).type == AxisType::Vector) return UOp(r);
    return {};
  }

  UOp visit(const UOp& u) {
    if (u.op() == Op::Range && u.range().type == AxisType::Vector) {
      std::vector<UOp> lanes;
      for (int64_t i = 0; i < u.src(0).value().as_i64(); i++) lanes.push_back(constant(Scalar(i)));
      return stack(lanes);
    }
    if (u.op() == Op::Index &&
        (u.src(0).op() == Op::Param || u.src(0).op() == Op::Buffer || u.src(0).op() == Op::After))
      return visit_access(u);
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs())
      if (!(u.op() == Op::End && s.op() == Op::Range && s.range().type == AxisType::Vector))
        srcs.push_back(of(s));
    if (u.op() == Op::End && srcs.size() == 1) return srcs[0];
    if (u.op() == Op::Load && srcs.size() == 3) srcs[0] = with_lanes_of(srcs[0], srcs[2]);
    return u.with_srcs(srcs);
  }

  // A gate that differs by lane needs an address for each lane, even where it is the same one.
  static UOp with_lanes_of(const UOp& address, const UOp& gate) {
    if (gate.shape().empty() || !address.shape().empty()) return address;
    const std::vector<UOp> same(static_cast<size_t>(gate.shape()[0].value()), address.src(1));
    return index(address.src(0), stack(same));
  }

  UOp visit_access(const UOp& u) {
    const UOp r = vector_axis(u.src(1));
    if (!r) return index(of(u.src(0)), of(u.src(1)));
    const auto linear = linear_in(u.src(1), r);
    if (!linear || linear->stride != 1) return index(of(u.src(0)), of(u.src(1)));
    const UOp base = of(linear->base);
    const UOp lanes = constant(r.src(0).value());
    return UOp::make(Op::Shrink, {of(u.src(0)), stack({&base, 1}), stack({&lanes, 1})});
  }

  Rebuilt done_;
};

}  // namespace

std::optional<Linear> linear_in(const UOp& index, const UOp& r) {
  if (!depends_on(index, r)) return Linear{index, 0};
  Linear out{{}, 0};
  std::vector<UOp> terms{index};
  while (!terms.empty()) {
    const UOp t = terms.back();
    terms.pop_back();
    if (t.op() == Op::Add) {
      terms.push_back(t.src(1));
      terms.push_back(t.src(0));
    } else if (!depends_on(t, r)) {
      out.base = out.base ? out.base + t : t;
    } else if (const auto c = coefficient(t, r)) {
      out.stride += *c;
    } else {
      return {};
    }
  }
  if (!out.base) out.base = constant(0);
  return out;
}

UOp vectorize(const UOp& body) { return Vectorizer().run(body); }

}  // namespace lathe
