#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/comparison.h"
#include "uop/gates.h"
#include "uop/simplify.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

// Values of a Range, inclusive; empty where lo > hi.
struct Live {
  int64_t lo, hi;
  bool is_empty() const { return lo > hi; }
};
Live both(const Live& a, const Live& b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }
Live either(const Live& a, const Live& b) {
  if (a.is_empty() || b.is_empty()) return a.is_empty() ? b : a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

class LiveValues {
 public:
  explicit LiveValues(const UOp& range) : range_(range), all_{0, range.src(0).value().as_i64() - 1} {}

  // Where the reduction or the End may differ from one that leaves the other values out.
  Live of_closer(const UOp& u) {
    if (u.op() == Op::End) return of_effects(u.src(0));
    const UOp& value = u.src(0);
    const Op op = u.arg_as<ReduceArg>().op;
    if (op == Op::Add) return of(value);
    const Scalar neutral = neutral_element(op, value.dtype());
    return value.op() == Op::Where && value.src(2).is_const(neutral) ? where_holds(value.src(0)) : all_;
  }

 private:
  bool depends(const UOp& u) const { return is_open(u, range_); }

  Live where_holds(const UOp& gate) const {
    if (!depends(gate)) return all_;
    const std::optional<Bounds> b = bounds_under(gate, range_);
    return b ? Live{b->lo.as_i64(), b->hi.as_i64()} : Live{1, 0};
  }
  Live of_address(const UOp& address) const {
    const UOp* i = address.op() == Op::Index ? &address.src(1) : nullptr;
    return i && is_gated(*i) ? where_holds(i->src(0)) : all_;
  }

  Live of_effects(const UOp& effect) const {
    Live live{1, 0};
    std::vector<UOp> work{effect};
    while (!work.empty()) {
      const UOp u = work.back();
      work.pop_back();
      if (u.op() == Op::Group)
        work.insert(work.end(), u.srcs().begin(), u.srcs().end());
      else if (u.op() == Op::End)
        work.push_back(u.src(0));
      else
        live = either(live, u.op() == Op::Store ? of_address(u.src(0)) : all_);
    }
    return live;
  }

  // Where a value may be anything but 0.
  Live of(const UOp& value) {
    for (const UOp& u : toposort(value, [&](const UOp& u) { return depends(u) && u.op() != Op::Index; }))
      live_.try_emplace(u.node(), of_node(u));
    return known(value);
  }
  Live known(const UOp& u) const {
    if (u.is_const(Scalar(0))) return {1, 0};
    const auto it = live_.find(u.node());
    return it == live_.end() ? all_ : it->second;
  }
  // Sources are known.
  Live of_node(const UOp& u) const {
    if (u.dtype() == DType::Bool && u.op() != Op::Load) return where_holds(u);
    switch (u.op()) {
      case Op::Load: return u.n_srcs() == 1 ? of_address(u.src(0)) : all_;
      case Op::Cast: return known(u.src(0));
      // What a gate makes 0 makes a product 0, of an infinity too: as a selection does in reduce_rules.
      case Op::Mul: return both(known(u.src(0)), known(u.src(1)));
      case Op::Add: return either(known(u.src(0)), known(u.src(1)));
      case Op::Reduce: return u.arg_as<ReduceArg>().op == Op::Add ? known(u.src(0)) : all_;
      case Op::Where:
        return either(both(where_holds(u.src(0)), known(u.src(1))),
                      both(where_holds(logical_not(u.src(0))), known(u.src(2))));
      default: return all_;
    }
  }

  UOp range_;
  Live all_;
  std::unordered_map<const Node*, Live> live_;
};

}  // namespace

UOp shrink_ranges(const UOp& body) {
  std::vector<UOp> closers;
  for (const UOp& u : toposort(body))
    if (u.op() == Op::End || u.op() == Op::Reduce) closers.push_back(u);
  int id = next_range_id(body);
  std::vector<RangeChange> changes;
  for (const UOp& r : kernel_axes(body)) {
    if (!r.src(0).is_const()) continue;
    const int64_t size = r.src(0).value().as_i64();
    Live live{1, 0};
    LiveValues values(r);
    for (const UOp& u : closers)
      if (std::find(u.srcs().begin() + 1, u.srcs().end(), r) != u.srcs().end())
        live = either(live, values.of_closer(u));
    const int64_t n = live.hi - live.lo + 1;
    if (n <= 0 || n == size) continue;
    const UOp shrunk = n == 1 ? UOp() : range(n, id++, r.range().type);
    changes.push_back({r, shrunk ? simplify(shrunk + live.lo) : constant(Scalar(live.lo)), {}});
    if (shrunk) changes.back().loops = {shrunk};
  }
  return changes.empty() ? body : simplify_gates(simplify(change_ranges(body, changes)));
}

}  // namespace lathe
