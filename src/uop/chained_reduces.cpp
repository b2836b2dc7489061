#include "uop/chained_reduces.h"

#include "uop/linear_terms.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

bool is_open(const UOp& u, const UOp& range) {
  return std::ranges::find(u.ranges(), range.node()) != u.ranges().end();
}

// A float as a sum of nodes times constants.
using Multiples = std::unordered_map<const Node*, double>;
Multiples multiples_of(const UOp& u) {
  Multiples out;
  std::vector<std::pair<UOp, double>> work{{u, 1}};
  while (!work.empty()) {
    const auto [at, factor] = work.back();
    work.pop_back();
    if (at.op() == Op::Add) {
      for (const UOp& s : at.srcs()) work.emplace_back(s, factor);
    } else if (at.op() == Op::Mul && at.src(1).is_const()) {
      work.emplace_back(at.src(0), factor * at.src(1).value().as_double());
    } else {
      out[at.node()] += factor;
    }
  }
  return out;
}

// d/dM of the exponent in a product with exp2(a * (x - M) + rest), a > 0, where `x` is what the Max M folds;
// 0 for terms that are not of this form. No term is then larger than exp2(rest), however large x is.
double slope_of(const UOp& term, const UOp& max, const UOp& x) {
  UOp scaled;
  for (const UOp& f : split_operands(term, Op::Mul)) {
    if (!reaches(f, max)) continue;
    if (scaled || f.op() != Op::Exp2) return 0;
    scaled = f;
  }
  if (!scaled) return 0;
  Multiples exponent = multiples_of(scaled.src(0));
  const double slope = std::exchange(exponent[max.node()], 0);
  for (const auto& [node, factor] : multiples_of(x)) {
    const double is = std::exchange(exponent[node], 0), wanted = -slope * factor;
    if (!(std::abs(is - wanted) <= 1e-6 * std::abs(wanted))) return 0;
  }
  for (const auto& [node, factor] : exponent)
    if (factor != 0 && reaches(UOp(node), max)) return 0;
  return slope < 0 ? slope : 0;
}

class Finder {
 public:
  Finder(const UOp& value, std::span<const UOp> loops) : value_(value), loops_(loops) {}

  std::optional<ChainedReduces> run() {
    if (!find_members() || !rename_steps() || !find_dependences()) return {};
    find_scores();
    return choose_row() ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  // False where the value needs another reduction beside them, which has no place in the walk.
  bool find_members() {
    for (const UOp& u : toposort(value_))
      if (is_chained(u)) out_.members.push_back({u, {}, {}});
    bool alone = !out_.members.empty();
    toposort(value_, [&](const UOp& u) {
      const bool is_member = std::ranges::find(out_.members, u, &ChainedReduce::reduce) != out_.members.end();
      alone = alone && (is_member || u.op() != Op::Reduce);
      return !is_member;
    });
    return alone;
  }

  // All over one new Range.
  bool rename_steps() {
    const UOp& size = out_.members[0].reduce.src(1).src(0);
    int id = 0;
    for (const UOp& u : toposort(value_))
      if (u.op() == Op::Range) id = std::max(id, u.range().id + 1);
    out_.step = range(size, id, AxisType::Reduce);
    std::vector<std::pair<UOp, UOp>> map;
    for (ChainedReduce& m : out_.members) {
      const Op op = m.reduce.arg_as<ReduceArg>().op;
      const bool depends_on_loops = std::ranges::all_of(m.reduce.ranges(), [&](const Node* r) {
        return std::ranges::any_of(loops_, [&](const UOp& l) { return l.node() == r; });
      });
      if (m.reduce.n_srcs() != 2 || !(m.reduce.src(1).src(0) == size) || !size.is_const() ||
          !depends_on_loops || !is_float(m.reduce.dtype()) || (op != Op::Add && op != Op::Max))
        return false;
      map.emplace_back(m.reduce.src(1), out_.step);
      m.term = substitute(m.reduce.src(0), map);
      map.back() = {m.reduce, m.reduce};  // what is folded already stays as it is
    }
    return true;
  }

  bool find_dependences() {
    for (ChainedReduce& m : out_.members)
      for (const ChainedReduce& other : out_.members) {
        if (other.reduce == m.reduce || !reaches(m.term, other.reduce)) continue;
        if (m.is_max() || !other.is_max() || m.largest) return false;
        m.largest = other.reduce;
        m.slope = slope_of(m.term, other.reduce, other.term);
        if (m.slope == 0 || !is_scaled_by_steps(m.term, other.reduce)) return false;
      }
    return true;
  }
  // Whether what the maximum scales is a function of the step and of its own loops: one factor for all that
  // the term depends on besides.
  bool is_scaled_by_steps(const UOp& term, const UOp& largest) const {
    const auto is_own = [&](const Node* r) {
      return r == out_.step.node() || std::ranges::find(largest.ranges(), r) != largest.ranges().end();
    };
    return std::ranges::all_of(toposort(term), [&](const UOp& u) {
      return u.op() != Op::Exp2 || !reaches(u, largest) || std::ranges::all_of(u.ranges(), is_own);
    });
  }

  void find_scores() {
    std::unordered_set<UOp> maxed;
    for (const ChainedReduce& m : out_.members)
      if (m.is_max()) maxed.insert(m.term);
    std::unordered_set<UOp> found;
    for (const ChainedReduce& m : out_.members)
      toposort(m.term, [&](const UOp& u) {
        const bool is_score = maxed.contains(u) || (u.op() == Op::Reduce && is_open(u, out_.step));
        if (is_score && found.insert(u).second) out_.scores.push_back(u);
        return !is_score && is_open(u, out_.step);
      });
  }

  // Inner reductions are one deep, and some of what they fold is the same for all rows.
  bool choose_row() {
    double best = 1;
    for (const UOp& l : loops_) {
      bool repeats = l.src(0).is_const();
      for (const UOp& s : out_.scores) {
        bool shares = false;
        repeats = repeats && is_open(s, l);
        for (const UOp& u : toposort(s)) {
          shares = shares || (is_float(u.dtype()) && is_open(u, out_.step) && !is_open(u, l));
          if (u.op() != Op::Reduce || !is_open(u, out_.step)) continue;
          if (!is_float(u.dtype())) return false;  // blocks of small integers, which dot instructions sum
          if (is_chained(u)) return false;
          for (const UOp& r : u.srcs().subspan(1))
            if (!r.src(0).is_const()) return false;
        }
        repeats = repeats && shares;
      }
      if (!repeats || l.src(0).value().as_double() <= best) continue;
      best = l.src(0).value().as_double();
      out_.row = l;
    }
    return !!out_.row;
  }

  const UOp& value_;
  std::span<const UOp> loops_;
  ChainedReduces out_;
};

}  // namespace

bool is_chained(const UOp& u) {
  if (u.op() != Op::Reduce) return false;
  const std::span<const UOp> ranges = u.srcs().subspan(1);
  return std::ranges::any_of(toposort(u.src(0)), [&](const UOp& b) {
    return b.op() == Op::Reduce && std::ranges::any_of(ranges, [&](const UOp& r) { return is_open(b, r); });
  });
}

std::optional<ChainedReduces> chained_reduces(const UOp& value, std::span<const UOp> loops) {
  return Finder(value, loops).run();
}

}  // namespace lathe
