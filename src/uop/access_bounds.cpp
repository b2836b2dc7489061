#include "uop/access_bounds.h"

#include "uop/comparison.h"
#include "uop/eval.h"
#include "uop/expression.h"
#include "uop/gates.h"
#include "uop/linear_terms.h"
#include "uop/simplify.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>

namespace lathe {
namespace {

constexpr int64_t kMaxPoints = 1'000'000, kTrials = 1000;
constexpr size_t kMaxLeaves = 64;  // bits of a mask

// One element, or `limit` such that the elements from the index on fit.
struct Access {
  UOp effect, memory, index;
  SmallVec<UOp, 4> gates;  // all hold where it happens
  int64_t limit;           // largest index that is inside
};

std::string to_text(const UOp& u) { return expression(u, {.characters = 400, .depth = 40}); }

[[noreturn]] void refuse(const Access& a, const UOp& gate, std::string_view reason) {
  const ParamArg& p = a.memory.param();
  const Bounds& range = a.index.bounds();
  throw InternalError(detail::with_context(fmt::format(
      "{} of {} {} may be out of range: {}\n  index: {}\n  range: {}..{}, allowed 0..{}\n  gate: "
      "{}\n  memory: {} "
      "of {}",
      a.effect.op(), p.space == AddrSpace::Global ? "buffer" : "scratch", p.slot, reason, to_text(a.index),
      range.lo.to_string(), range.hi.to_string(), a.limit, to_text(gate), a.memory.shape(), p.dtype)));
}

// The smallest and largest value of an index under a gate, exactly: the sum falls into parts that share no
// leaf (Range, variable, loaded element, float comparison), not even through clauses of the gate, and each
// part is tried point by point.
class Extent {
 public:
  enum class Verdict : uint8_t {
    Exact,
    Never,      // the gate does not hold anywhere
    Unproved,   // what was found until the points ran out
    Unchecked,  // bits are reinterpreted
  };

  Extent(const UOp& index, std::span<const UOp> clauses, int64_t most_points)
      : clauses_(clauses), points_left_(most_points) {
    std::optional<LinearSum> sum = LinearSum::of(index);
    if (!sum) sum = LinearSum{{{index, 1}}, 0};
    SmallVec<UOp, 8> roots(clauses);
    for (const Term& t : sum->terms) roots.push_back(t.base);
    if (!collect(roots)) {
      verdict_ = Verdict::Unchecked;
      return;
    }
    ends_[0].value = ends_[1].value = sum->constant;
    uint64_t done = 0;
    // Clauses that no term shares a leaf with come last: they may never hold.
    for (size_t n = roots_.size(), i = 0; i < n; i++) {
      const size_t first = (i + clauses.size()) % n;
      const uint64_t leaves = nodes_[roots_[first]].leaves, part = connected(leaves);
      if (leaves & done) continue;
      done |= part;
      terms_.clear();
      for (size_t j = 0; j < sum->terms.size(); j++)
        if (const size_t root = clauses.size() + j; root == first || nodes_[roots_[root]].leaves & part)
          terms_.emplace_back(roots_[root], sum->terms[j].factor);
      if (!measure(part)) return;
    }
  }

  // The smallest or largest value, and " r0=16 v=3", a point that has it.
  struct End {
    int128 value = 0, best = 0;  // best: of the part that is measured, at the values `where` of its leaves
    std::vector<Scalar> where;
    std::string point;
  };
  Verdict verdict() const { return verdict_; }
  const End& end(bool largest) const { return ends_[largest]; }

 private:
  enum class Kind : uint8_t { Value, Leaf, Unknown };  // Unknown: a float of any value
  struct Item {
    UOp node;
    Kind kind;
    bool needed = false;
    int level = -1;       // the leaf that settles it
    uint64_t leaves = 0;  // that it depends on
    SmallVec<size_t, 4> srcs;
  };
  struct Leaf {
    size_t at;
    int128 lo = 0, hi = 0, step = 1, count = 0, next = 0;
  };

  Kind kind_of(const Item& item) const {
    const UOp& u = item.node;
    if (u.is_const()) return Kind::Value;
    if (has_flag(u.op(), kComparison) && is_float(u.src(0).dtype())) return Kind::Leaf;
    if (is_alu(u.op()) || u.op() == Op::Cast)
      if (std::none_of(item.srcs.begin(), item.srcs.end(),
                       [&](size_t s) { return nodes_[s].kind == Kind::Unknown; }))
        return Kind::Value;
    return is_float(u.dtype()) ? Kind::Unknown : Kind::Leaf;
  }

  // False where bits are reinterpreted.
  bool collect(std::span<const UOp> roots) {
    std::unordered_map<const Node*, size_t> position;
    for (const UOp& u : toposort(sink(roots), [](const UOp& n) { return !is_address(n); })) {
      Item item{u, Kind::Value, false, -1, 0, {}};
      for (const UOp& s : u.srcs())
        if (const auto it = position.find(s.node()); it != position.end()) item.srcs.push_back(it->second);
      item.kind = kind_of(item);
      position.emplace(u.node(), nodes_.size());
      nodes_.push_back(std::move(item));
    }
    for (const UOp& r : roots) nodes_[roots_.emplace_back(position.at(r.node()))].needed = true;
    for (size_t i = nodes_.size(); i-- > 0;) {
      Item& item = nodes_[i];
      if (!item.needed) continue;
      if (item.node.op() == Op::Bitcast || item.node.op() == Op::Stack) return false;
      const bool has_end = item.node.op() == Op::Range && !item.node.src(0).is_const();
      if (item.kind != Kind::Value && !has_end) item.srcs.clear();
      for (const size_t s : item.srcs) nodes_[s].needed = true;
    }
    size_t n_leaves = 0;
    for (Item& item : nodes_) {
      if (!item.needed) continue;
      for (const size_t s : item.srcs) item.leaves |= nodes_[s].leaves;
      if (item.kind == Kind::Leaf) item.leaves |= uint64_t{1} << n_leaves++;
      if (n_leaves == kMaxLeaves) verdict_ = Verdict::Unproved;
      if (n_leaves == kMaxLeaves) break;
    }
    values_.resize(nodes_.size());
    return true;
  }

  uint64_t connected(uint64_t leaves) const {
    for (uint64_t before = 0; before != leaves;) {
      before = leaves;
      for (const size_t r : roots_)
        if (nodes_[r].leaves & leaves) leaves |= nodes_[r].leaves;
    }
    return leaves;
  }

  // Adds the extent of the terms over `part` to the sum; false where no point was found.
  bool measure(uint64_t part) {
    order(part);
    found_ = false;
    const bool is_complete = search();
    if (!is_complete) verdict_ = Verdict::Unproved;
    if (!found_) {
      if (is_complete) verdict_ = Verdict::Never;
      ends_[0].value = ends_[1].value = 0;
      return false;
    }
    for (End& end : ends_) {
      end.value += end.best;
      for (size_t i = 0; i < leaves_.size(); i++)
        end.point += fmt::format(" {}={}", to_text(nodes_[leaves_[i].at].node), end.where[i].to_string());
    }
    return true;
  }

  // Leaves of the terms come first, those of short clauses before others: whether a gate holds matters only
  // where the value would be a new extreme.
  void order(uint64_t part) {
    uint64_t own = 0, placed = 0;
    for (const auto& [at, factor] : terms_) own |= nodes_[at].leaves;
    std::vector<size_t> by_cost(roots_.begin(),
                                roots_.begin() + static_cast<std::ptrdiff_t>(clauses_.size()));
    const auto cost = [&](size_t root) {
      const uint64_t leaves = nodes_[root].leaves;
      return std::tuple(std::popcount(leaves & ~own), std::popcount(leaves), root);
    };
    std::sort(by_cost.begin(), by_cost.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    leaves_.clear();
    const auto place = [&](uint64_t leaves) {
      for (size_t i = 0; i < nodes_.size(); i++) {
        Item& item = nodes_[i];
        if (item.kind != Kind::Leaf || !(item.leaves & ~placed) || (item.leaves & ~(leaves & part))) continue;
        placed |= item.leaves;
        item.level = static_cast<int>(leaves_.size());
        leaves_.push_back({i});
      }
    };
    for (const size_t c : by_cost)
      if (!(nodes_[c].leaves & ~own)) place(nodes_[c].leaves);
    place(own);
    term_level_ = static_cast<int>(leaves_.size()) - 1;
    for (const size_t c : by_cost) place(nodes_[c].leaves);
    steps_.assign(leaves_.size() + 1, {});
    for (size_t i = 0; i < nodes_.size(); i++) {
      Item& item = nodes_[i];
      if (!item.needed || item.kind != Kind::Value || (item.leaves & ~placed)) continue;
      item.level = -1;
      for (const size_t s : item.srcs) item.level = std::max(item.level, nodes_[s].level);
      steps_[static_cast<size_t>(item.level + 1)].push_back(i);
    }
    placed_ = placed;
  }

  // Starts the leaf over, within its bounds and those that clauses about it alone give.
  void open(Leaf& leaf) {
    constexpr int128 kFar = static_cast<int128>(1) << 70;  // outside any memory, and sums of it are exact
    const UOp& u = nodes_[leaf.at].node;
    int128 lo = std::max(u.bounds().lo.as_int(), -kFar), hi = std::min(u.bounds().hi.as_int(), kFar);
    for (const UOp& clause : clauses_) {
      const auto bound = bound_clause(clause);
      if (!bound) continue;
      UOp x = bound->x;
      while (x.op() == Op::Cast && is_int(x.src(0).dtype()) && x.bounds().lo == x.src(0).bounds().lo &&
             x.bounds().hi == x.src(0).bounds().hi)
        x = x.src(0);
      if (!(x == u)) continue;
      if (bound->is_upper)
        hi = std::min(hi, bound->limit);
      else
        lo = std::max(lo, bound->limit);
    }
    if (const Item& item = nodes_[leaf.at]; !item.srcs.empty() && values_[item.srcs[0]])
      hi = std::min(hi, values_[item.srcs[0]]->as_int() - 1);
    leaf.step = u.op() == Op::Param ? u.param().multiple_of : 1;
    leaf.lo = -floor_div(-lo, leaf.step) * leaf.step;
    leaf.hi = floor_div(hi, leaf.step) * leaf.step;
    leaf.count = leaf.hi < leaf.lo ? 0 : (leaf.hi - leaf.lo) / leaf.step + 1;
    leaf.next = 0;
    // Too many to prove anything; some may still show that the index leaves its memory.
    if (leaf.count > points_left_) points_left_ = std::min(points_left_, kTrials);
  }

  // False when the points run out.
  bool search() {
    if (!evaluate(-1)) return true;
    if (leaves_.empty()) return record(), true;
    size_t at = 0;  // leaf whose values are being tried
    open(leaves_[at]);
    for (;;) {
      Leaf& leaf = leaves_[at];
      if (leaf.next >= leaf.count) {
        if (at == 0) return true;
        at--;
        continue;
      }
      if (points_left_-- == 0) return false;
      // The largest value first, then from the smallest: extremes of sums are at corners.
      const int128 v = leaf.next == 0 ? leaf.hi : leaf.lo + (leaf.next - 1) * leaf.step;
      leaf.next++;
      values_[leaf.at] = cast_scalar(Scalar(v), nodes_[leaf.at].node.dtype());
      if (!evaluate(static_cast<int>(at))) continue;
      if (at + 1 < leaves_.size()) {
        open(leaves_[++at]);
        continue;
      }
      record();
      if (terms_.empty()) return true;
    }
  }

  // Values that the leaf of this level settles; false where a clause does not hold or the sum is no new
  // extreme.
  bool evaluate(int level) {
    for (const size_t i : steps_[static_cast<size_t>(level + 1)]) values_[i] = value_of(nodes_[i]);
    for (size_t i = 0; i < clauses_.size(); i++) {
      const Item& clause = nodes_[roots_[i]];
      if (clause.level != level || (clause.leaves & ~placed_)) continue;
      if (const auto& v = values_[roots_[i]]; v && !v->is_invalid() && !v->as_bool()) return false;
    }
    if (level != term_level_) return true;
    sum_ = 0;
    for (const auto& [at, factor] : terms_) {
      const auto& v = values_[at];
      if (!v || v->is_invalid()) return false;
      sum_ += v->as_int() * factor;
    }
    return !found_ || sum_ < ends_[0].best || sum_ > ends_[1].best;
  }

  void record() {
    for (const bool largest : {false, true}) {
      End& end = ends_[largest];
      if (found_ && !(largest ? sum_ > end.best : sum_ < end.best)) continue;
      end.best = sum_;
      end.where.clear();
      for (const Leaf& leaf : leaves_) end.where.push_back(*values_[leaf.at]);
    }
    found_ = true;
  }

  std::optional<Scalar> value_of(const Item& item) const {
    const UOp& u = item.node;
    if (u.is_const()) return u.value();
    if (u.op() == Op::Where) {  // needs only the branch it takes
      const auto& c = values_[item.srcs[0]];
      if (!c || c->is_invalid()) return c;
      const auto& taken = values_[item.srcs[c->as_bool() ? 1 : 2]];
      return taken ? std::optional(cast_scalar(*taken, u.dtype())) : std::nullopt;
    }
    SmallVec<Scalar, 3> srcs;
    for (const size_t s : item.srcs) {
      if (!values_[s]) return std::nullopt;
      srcs.push_back(*values_[s]);
    }
    return eval(u, srcs);
  }

  std::span<const UOp> clauses_;
  std::vector<Item> nodes_;
  std::vector<std::optional<Scalar>> values_;  // by node
  std::vector<size_t> roots_;                  // clauses, then terms

  // Of the part that is measured.
  std::vector<std::pair<size_t, int128>> terms_;
  std::vector<Leaf> leaves_;
  std::vector<std::vector<size_t>> steps_;  // values that the leaf before settles; first those of no leaf
  uint64_t placed_ = 0;
  int term_level_ = -1;
  bool found_ = false;
  int128 sum_ = 0;

  Verdict verdict_ = Verdict::Exact;
  int64_t points_left_;
  End ends_[2];  // smallest, largest
};

bool is_inside(const Bounds& b, int64_t limit) { return !b.lo.less(Scalar(0)) && !Scalar(limit).less(b.hi); }

// A mask of an int that is neither its low bits nor all but its low bits.
const UOp* scattered_mask(const std::vector<UOp>& nodes) {
  for (const UOp& u : nodes) {
    if (u.op() != Op::And || !is_int(u.dtype())) continue;
    for (const UOp& s : u.srcs()) {
      if (!s.is_const()) continue;
      const int128 m = s.value().as_int();
      if (m < 0 ? (m & -m) != -m : (m & (m + 1)) != 0) return &s;
    }
  }
  return nullptr;
}

// Where `u` is Invalid on one side of a gate, takes the other side for it.
bool take_gate(UOp& u, SmallVec<UOp, 4>& gates) {
  if (u.op() != Op::Where || !(u.src(1).is_invalid() || u.src(2).is_invalid())) return false;
  const bool holds = u.src(2).is_invalid();
  gates.push_back(holds ? u.src(0) : logical_not(u.src(0)));
  u = u.src(holds ? 1 : 2);
  return true;
}

// One scalar access.
void check_scalar(Access a, bool must_prove) {
  while (take_gate(a.index, a.gates)) {
  }
  if (a.index.is_invalid() || is_inside(a.index.bounds(), a.limit)) return;
  const UOp gate = join_operands({a.gates.data(), a.gates.size()}, Op::And, constant(Scalar(true)));
  const std::optional<Bounds> bounds = bounds_under(gate, a.index);
  if (!bounds || is_inside(*bounds, a.limit)) return;
  const SmallVec<UOp, 8> clauses = split_operands(gate, Op::And);
  if (const UOp* mask = scattered_mask(toposort(a.index, [](const UOp& u) { return !is_address(u); })))
    refuse(a, gate, fmt::format("mask {} unsupported, only 2^k-1 and -2^k", mask->value().to_string()));
  const Extent extent(a.index, clauses, must_prove ? kMaxPoints : kTrials);
  if (extent.verdict() == Extent::Verdict::Never || extent.verdict() == Extent::Verdict::Unchecked) return;
  const bool above = extent.end(true).value > a.limit;
  if (const Extent::End& end = extent.end(above); above || end.value < 0)
    refuse(a, gate,
           fmt::format("the index is {}{}{}", Scalar(end.value).to_string(), end.point.empty() ? "" : " at",
                       end.point));
  if (must_prove && extent.verdict() == Extent::Verdict::Unproved)
    refuse(a, gate, fmt::format("not proved with {} points", kMaxPoints));
}

// Lane `i` of a value that may have lanes.
UOp lane_of(const UOp& root, size_t i) {
  std::unordered_map<const Node*, UOp> done;
  const auto lane = [&](const UOp& s) {
    if (!s.has_shape() || s.shape().empty()) return s;
    if (const auto it = done.find(s.node()); it != done.end()) return it->second;
    return lathe::index(s, constant(Scalar(static_cast<int64_t>(i))));
  };
  const auto is_elementwise = [](const UOp& u) {
    return u.has_shape() && !u.shape().empty() &&
           (is_alu(u.op()) || u.op() == Op::Cast || u.op() == Op::Stack);
  };
  for (const UOp& u : toposort(root, is_elementwise)) {
    SmallVec<UOp, 4> srcs;
    if (u.op() != Op::Stack)
      for (const UOp& s : u.srcs()) srcs.push_back(lane(s));
    done.emplace(u.node(), u.op() == Op::Stack ? u.src(i) : u.with_srcs(srcs));
  }
  return lane(root);
}

void check_access(const UOp& u, bool must_prove) {
  if (!is_address(u.src(0))) return;
  const UOp& address = strip_after(u.src(0));
  Access a{u, strip_after(address.src(0)), {}, {}, 0};
  const bool is_run = address.op() == Op::Shrink;
  a.index = is_run ? address.src(1).src(0) : address.src(1);
  const int64_t run = is_run ? address.src(2).src(0).value().as_i64() : 1;
  a.limit = prod(a.memory.shape()).vmax() - run;
  if (is_inside(a.index.bounds(), a.limit)) return;
  if (u.n_srcs() == 3) a.gates.push_back(u.src(2));
  // A Store of Invalid does nothing.
  if (u.op() == Op::Store) {
    UOp value = u.src(1);
    take_gate(value, a.gates);
  }
  size_t lanes = 1;
  for (const UOp& x : a.gates)
    if (!x.shape().empty()) lanes = static_cast<size_t>(x.shape()[0].value());
  if (!a.index.shape().empty()) lanes = static_cast<size_t>(a.index.shape()[0].value());
  if (lanes == 1) return check_scalar(std::move(a), must_prove);
  for (size_t i = 0; i < lanes; i++) {
    Access one = a;
    one.index = simplify(lane_of(a.index, i) + (is_run ? static_cast<int64_t>(i) : 0));
    if (is_run) one.limit = a.limit + run - 1;
    for (UOp& g : one.gates) g = simplify(lane_of(g, i));
    check_scalar(std::move(one), must_prove);
  }
}

}  // namespace

void check_accesses(const UOp& body, bool must_prove) {
  for (const UOp& u : toposort(body))
    if (u.op() == Op::Load || u.op() == Op::Store) check_access(u, must_prove);
}

}  // namespace lathe
