#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/chained_reduces.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"
#include "uop/simplify.h"

#include <algorithm>
#include <limits>

namespace lathe {
namespace {

using Map = std::vector<std::pair<UOp, UOp>>;

// Lanes for a loop of `size`, of up to two registers of `unit`: vectors that fill no power of two are slow.
int64_t lanes_for(int64_t size, int64_t unit) {
  int64_t best = 1, power = 1;
  for (int64_t n = 2; n <= std::min(size, 2 * unit); n++) {
    if (size % n) continue;
    best = n;
    if (!(n & (n - 1))) power = n;
  }
  return 2 * power >= unit ? power : best;
}

// Where `u` may differ from `value`, which is -inf or 0: clauses, of which all hold there.
void clauses_of(const UOp& u, double value, std::vector<UOp>& out) {
  std::vector<std::pair<UOp, double>> work{{u, value}};
  while (!work.empty()) {
    const auto [at, v] = work.back();
    work.pop_back();
    const auto is = [&](const UOp& c) { return c.is_const() && c.value().as_double() == v; };
    const bool grows = at.op() == Op::Mul && at.src(1).is_const() && at.src(1).value().as_double() > 0;
    if (at.op() == Op::Where && is(at.src(2)))
      out.push_back(at.src(0));
    else if (at.op() == Op::Where && is(at.src(1)))
      out.push_back(logical_not(at.src(0)));
    else if (v == 0 ? at.op() == Op::Mul : at.op() == Op::Add)
      for (const UOp& s : at.srcs()) work.emplace_back(s, v);
    else if (at.op() == Op::Cast || grows)
      work.emplace_back(at.src(0), v);
    else if (at.op() == Op::Exp2 && v == 0)
      work.emplace_back(at.src(0), -std::numeric_limits<double>::infinity());
  }
}

// The kernel of chained reductions over blocks of rows and of steps. The scores of a block stay in scratch,
// as do the running values of all reductions; both are products of tiles.
class Blocking {
 public:
  Blocking(const UOp& store, std::span<const UOp> loops, ChainedReduces chain, const Target& target,
           int next_id)
      : store_(store), chain_(std::move(chain)), next_id_(next_id), lanes_(target.lanes(DType::Float32)) {
    for (const UOp& l : loops) {
      const bool is_wide = std::ranges::none_of(chain_.scores, [&](const UOp& s) { return is_open(s, l); });
      if (!(l == chain_.row)) (is_wide ? wide_ : outer_).push_back(l);
    }
    for (const UOp& w : wide_) width_ *= size_of(w);
    n_rows_ = size_of(chain_.row);
    n_steps_ = size_of(chain_.step);
    copies_ = std::clamp<int64_t>((target.vector_registers - 8) / 2, 1, n_rows_);
    const auto blocks = [&](int64_t tiles) { return (n_rows_ - 1) / (copies_ * tiles) + 1; };
    int64_t tiles = std::clamp<int64_t>(n_rows_ / copies_, 1, kTiles);
    for (int64_t t = tiles; t > tiles / 2; t--)  // threads take whole blocks
      if (blocks(t) % target.max_threads == 0) {
        tiles = t;
        break;
      }
    rows_ = copies_ * tiles;
    vector_ = std::min<int64_t>(n_steps_, 2 * lanes_);
    steps_ = std::min(n_steps_ / vector_, kVectors) * vector_;
  }

  UOp run() {
    block_ = new_loop((n_rows_ + rows_ - 1) / rows_);
    first_row_ =
        n_rows_ % rows_ ? minimum(block_ * rows_, constant(Scalar(n_rows_ - rows_))) : block_ * rows_;
    outer_.push_back(block_);
    start();
    const int64_t whole = n_steps_ / steps_, parts = n_steps_ % steps_ / vector_;
    const UOp step = new_loop(whole);
    take(step * steps_, steps_, {step});
    if (parts) take(constant(Scalar(whole * steps_)), parts * vector_, {});
    if (n_steps_ % vector_) take(constant(Scalar(whole * steps_ + parts * vector_)), n_steps_ % vector_, {});
    return close_loops(finish(), outer_);
  }

 private:
  static constexpr int64_t kTiles = 8;    // of rows, in a block
  static constexpr int64_t kVectors = 2;  // of steps, in a block

  struct Member {
    UOp running;  // its value so far, of each row, and of each element of the wide loops
    UOp scale;    // of what was summed before this block, for each row
    bool is_wide = false;
  };

  UOp new_loop(int64_t n, AxisType type = AxisType::Loop) { return range(n, next_id_++, type); }
  UOp scratch(DType d, int64_t n) { return scratch_buffer(n_scratch_++, d, n, "block"); }

  // A loop over `n` in vectors of `lanes`: its ranges, and the position.
  struct Lanes {
    std::vector<UOp> loops;
    UOp at;
  };
  Lanes in_lanes(int64_t n, int64_t lanes, AxisType outer = AxisType::Loop) {
    Lanes out{{}, constant(0)};
    if (n > lanes) {
      out.loops.push_back(new_loop(n / lanes, outer));
      out.at = out.loops[0] * lanes;
    }
    if (lanes > 1) {
      out.loops.push_back(new_loop(lanes, AxisType::Vector));
      out.at = out.at + out.loops.back();
    }
    return out;
  }

  // Wide loops, the innermost in lanes, and the position in a row of a running value.
  Lanes wide_lanes(Map& map) {
    Lanes out;
    out.at = constant(0);
    for (const UOp& w : wide_) {
      const int64_t n = size_of(w);
      const Lanes own = in_lanes(n, w == wide_.back() ? lanes_for(n, lanes_) : 1);
      out.loops.insert(out.loops.end(), own.loops.begin(), own.loops.end());
      map.emplace_back(w, own.at);
      out.at = out.at * n + own.at;
    }
    return out;
  }

  static UOp value_in(const Map& map, const UOp& u) {
    const auto at = std::ranges::find(map, u, &std::pair<UOp, UOp>::first);
    return at == map.end() ? UOp() : at->second;
  }
  // Of memory for the rows and steps of a block.
  UOp element(const UOp& memory, const UOp& r, const UOp& step) const {
    return index(now(memory), r * steps_ + step);
  }

  // Memory once all that was done so far is done, inside the loops that are open.
  UOp now(const UOp& buffer) const { return after(buffer, now_); }

  void start() {
    now_ = outer_;
    std::vector<UOp> effects;
    for (const UOp& s : chain_.scores) {
      score_at_.emplace_back(s, scratch(s.dtype(), rows_ * steps_));
      for (const UOp& u : operands(s, chain_.row, chain_.step))  // others are read as they are
        if (u.op() != Op::Load) row_packs_.push_back(pack(u, chain_.row, first_row_, rows_, 1, effects));
    }
    for (const ChainedReduce& m : chain_.members) {
      Member& s = members_.emplace_back();
      s.is_wide = std::ranges::any_of(wide_, [&](const UOp& w) { return is_open(m.term, w); });
      const DType d = m.reduce.dtype();
      const int64_t n = rows_ * (s.is_wide ? width_ : 1);
      s.running = scratch(d, n);
      if (m.largest && s.is_wide) s.scale = scratch(d, rows_);
      const Lanes l = in_lanes(n, lanes_for(n, lanes_));
      const UOp init = constant(d, neutral_element(m.is_max() ? Op::Max : Op::Add, d));
      effects.push_back(close_loops(lathe::store(index(now(s.running), l.at), init), l.loops));
      if (s.is_wide) collect_weights(m.term);
    }
    now_ = effects;
  }

  bool in_wide(const UOp& u) const {
    return std::ranges::any_of(wide_, [&](const UOp& w) { return is_open(u, w); });
  }

  // The largest parts of a term that are the same for all of a row.
  void collect_weights(const UOp& term) {
    toposort(term, [&](const UOp& u) {
      if (!is_open(u, chain_.step)) return false;
      if (in_wide(u)) return true;
      const bool is_new = !value_in(score_at_, u) && !value_in(weight_at_, u);
      if (is_new && std::ranges::any_of(chain_.scores, [&](const UOp& s) { return reaches(u, s); }))
        weight_at_.emplace_back(u, scratch(u.dtype(), rows_ * steps_));
      return false;
    });
  }

  // ---- packing

  // The largest floats below the inner reductions of `score` that depend on `along` and not on `but`.
  static std::vector<UOp> operands(const UOp& score, const UOp& along, const UOp& but) {
    std::vector<UOp> out;
    for (const UOp& p : toposort(score)) {
      if (p.op() != Op::Reduce || !is_open(p, along)) continue;
      toposort(p.src(0), [&](const UOp& u) {
        if (!is_open(u, along) || u.op() == Op::Index) return false;
        if (is_open(u, but) || !is_float(u.dtype())) return true;
        if (std::ranges::find(out, u) == out.end()) out.push_back(u);
        return false;
      });
    }
    return out;
  }
  static bool is_contiguous(const UOp& u, const UOp& r) {
    return u.op() == Op::Load && u.src(0).op() == Op::Index && stride_in(u.src(0).src(1), r) == 1;
  }

  struct Pack {
    UOp operand, memory;
    UOp at;  // the place of its first row or step
  };
  // A copy of `operand` for `n` values of `r`, which is `first` plus the position in lanes.
  Pack pack(const UOp& operand, const UOp& r, const UOp& first, int64_t n, int64_t lanes,
            std::vector<UOp>& effects) {
    std::vector<UOp> loops;
    Map map;
    int64_t size = n;
    UOp at = constant(0), to = constant(0);
    for (const Node* o : operand.ranges()) {
      const UOp own(o);
      if (own.range().type != AxisType::Reduce || own == r) continue;
      loops.push_back(new_loop(size_of(own)));
      map.emplace_back(own, loops.back());
      at = at * size_of(own) + own;
      to = to * size_of(own) + loops.back();
      size *= size_of(own);
    }
    const UOp memory = scratch(operand.dtype(), size);
    const Lanes l = in_lanes(n, lanes);
    loops.insert(loops.end(), l.loops.begin(), l.loops.end());
    map.emplace_back(r, first + l.at);
    effects.push_back(
        close_loops(lathe::store(index(now(memory), to * n + l.at), substitute(operand, map)), loops));
    return {operand, memory, at * n};
  }

  // ---- a block of steps

  // One more block: `n` steps from `first` on, inside `loops`.
  void take(const UOp& first, int64_t n, std::vector<UOp> loops) {
    if (const UOp live = some_live(first, n))
      loops.push_back(range(where(live, constant(1), constant(0)), next_id_++, AxisType::Loop));
    const std::vector<UOp> before = now_;
    now_.insert(now_.end(), loops.begin(), loops.end());
    std::vector<UOp> scored;
    for (const UOp& s : chain_.scores) scored.push_back(score(s, first, n));
    now_.insert(now_.end(), scored.begin(), scored.end());
    const UOp weighed = weigh(first, n);
    now_.push_back(weighed);
    std::vector<UOp> done{weighed};
    for (size_t i = 0; i < members_.size(); i++)
      if (members_[i].is_wide) done.push_back(sum(i, first, n));
    now_ = before;
    now_.push_back(close_loops(UOp::make(Op::Group, DType::Void, done), loops));
  }

  // Whether some step of a block may add to some row; null where that is always so.
  UOp some_live(const UOp& first, int64_t n) {
    UOp any;
    for (const ChainedReduce& m : chain_.members) {
      std::vector<UOp> clauses;
      clauses_of(m.term, m.is_max() ? -std::numeric_limits<double>::infinity() : 0, clauses);
      UOp all;
      for (const UOp& joined : clauses)
        for (const UOp& c : split_operands(joined, Op::And))
          if (const UOp some = best_case(c, first, n)) all = all ? all & some : some;
      if (!all) return {};
      any = any ? any | all : all;
    }
    return any ? simplify(any) : any;
  }

  // A comparison at those of the rows and steps where it holds first, or null.
  UOp best_case(const UOp& clause, const UOp& first, int64_t n) const {
    const UOp inner = negated(clause);
    const UOp& cmp = inner ? inner : clause;
    if (cmp.op() != Op::CmpLt || !is_int(cmp.src(0).dtype()) || !is_int(cmp.src(1).dtype())) return {};
    for (const UOp& u : toposort(cmp))
      if (u.op() == Op::Load || in_wide(u)) return {};
    // a < b where b - a - 1 is not negative, !(a < b) where a - b is not.
    const auto wide = [](const UOp& u) { return cast(u, DType::WeakInt); };
    UOp gap = inner ? wide(cmp.src(0)) - wide(cmp.src(1)) : wide(cmp.src(1)) - wide(cmp.src(0)) - 1;
    gap = simplify(gap);
    const auto in_row = stride_in(gap, chain_.row), in_step = stride_in(gap, chain_.step);
    if (!in_row || !in_step) return {};
    return ge(substitute(gap, {{chain_.row, first_row_ + (*in_row > 0 ? rows_ - 1 : 0)},
                               {chain_.step, first + (*in_step > 0 ? n - 1 : 0)}}),
              0);
  }

  // Inner reductions over ranges of their own: each loop is opened once.
  Map own_loops(const UOp& score) {
    Map map;
    for (const UOp& p : toposort(score))
      if (p.op() == Op::Reduce && is_open(p, chain_.step))
        for (const UOp& r : p.srcs().subspan(1)) map.emplace_back(r, new_loop(size_of(r), AxisType::Reduce));
    return map;
  }

  UOp score(const UOp& given, const UOp& first, int64_t n) {
    const int64_t lanes = std::min(n, vector_);
    const Map own = own_loops(given);
    const UOp s = substitute(given, own);
    std::vector<Pack> packs;
    std::vector<UOp> packed;
    for (const UOp& u : operands(s, chain_.step, chain_.row))
      if (!is_contiguous(u, chain_.step)) packs.push_back(pack(u, chain_.step, first, n, lanes, packed));
    const std::vector<UOp> before = now_;
    now_.insert(now_.end(), packed.begin(), packed.end());
    const Lanes l = in_lanes(n, lanes);
    const UOp tile = new_loop(rows_ / copies_);
    std::vector<UOp> stores;
    for (int64_t i = 0; i < copies_; i++) {
      const UOp r = tile * copies_ + i;
      Map map{{chain_.row, first_row_ + r}, {chain_.step, first + l.at}};
      for (const Pack& p : packs) map.emplace_back(p.operand, load(index(now(p.memory), p.at + l.at)));
      for (const Pack& p : row_packs_)
        map.emplace_back(substitute(p.operand, own), load(index(now(p.memory), substitute(p.at, own) + r)));
      stores.push_back(lathe::store(element(value_in(score_at_, given), r, l.at), substitute(s, map)));
    }
    now_ = before;
    std::vector<UOp> loops = l.loops;
    loops.insert(loops.end() - (lanes > 1), tile);
    return close_loops(UOp::make(Op::Group, DType::Void, stores), loops);
  }

  // Row by row: maxima grow, weights are made of scores, and what is not wide is summed.
  UOp weigh(const UOp& first, int64_t n) {
    const UOp row = new_loop(rows_);
    Map known{{chain_.row, first_row_ + row}}, was;  // with what the maxima are now, and were before
    const auto at_step = [&](const UOp& term, const UOp& at, const Map& weights = {}) {
      Map map = known;
      for (const Map* of : std::initializer_list<const Map*>{&weights, &score_at_})
        for (const auto& [u, memory] : *of) map.emplace_back(u, load(element(memory, row, at)));
      map.emplace_back(chain_.step, first + at);
      return substitute(term, map);
    };
    const auto folded = [&](const UOp& term, Op op, const Map& weights = {}) {
      const Lanes l = in_lanes(n, std::min(n, vector_), AxisType::Unroll);
      std::vector<UOp> srcs{at_step(term, l.at, weights)};
      srcs.insert(srcs.end(), l.loops.begin(), l.loops.end());
      return srcs.size() == 1 ? srcs[0] : UOp::make(Op::Reduce, term.dtype(), srcs, ReduceArg{op, 0});
    };
    std::vector<UOp> done;
    for (size_t i = 0; i < members_.size(); i++) {
      const ChainedReduce& m = chain_.members[i];
      if (!m.is_max()) continue;
      const DType d = m.reduce.dtype();
      const UOp place = index(now(members_[i].running), row);
      const UOp most = maximum(load(place), folded(m.term, Op::Max));
      done.push_back(lathe::store(place, most));
      // Below all numbers there is no difference to take: any number serves.
      const UOp is_number = ne(most, constant(d, neutral_element(Op::Max, d)));
      known.emplace_back(m.reduce, where(is_number, most, constant(d, Scalar(0))));
      was.emplace_back(m.reduce, load(place));
    }
    for (const auto& [w, memory] : weight_at_) {
      const Lanes l = in_lanes(n, std::min(n, vector_));
      done.push_back(close_loops(lathe::store(element(memory, row, l.at), at_step(w, l.at)), l.loops));
    }
    const std::vector<UOp> before = now_;
    now_.insert(now_.end(), done.end() - static_cast<ptrdiff_t>(weight_at_.size()), done.end());
    for (size_t i = 0; i < members_.size(); i++) {
      const ChainedReduce& m = chain_.members[i];
      if (m.is_max()) continue;
      UOp factor;
      if (m.largest) {
        const UOp growth = value_in(known, m.largest) - value_in(was, m.largest);
        factor = alu(Op::Exp2, {growth * constant(m.reduce.dtype(), Scalar(m.slope))});
      }
      if (members_[i].is_wide) {
        if (factor) done.push_back(lathe::store(index(now(members_[i].scale), row), factor));
        continue;
      }
      const UOp place = index(now(members_[i].running), row);
      const UOp so_far = factor ? load(place) * factor : load(place);
      done.push_back(lathe::store(place, so_far + folded(m.term, Op::Add, weight_at_)));
    }
    now_ = before;
    return close_loops(UOp::make(Op::Group, DType::Void, done), {&row, 1});
  }

  // The products of weights and what the wide loops run over.
  UOp sum(size_t i, const UOp& first, int64_t n) {
    const ChainedReduce& m = chain_.members[i];
    Map wide;
    const Lanes l = wide_lanes(wide);
    const UOp tile = new_loop(rows_ / copies_), step = new_loop(n, AxisType::Reduce);
    std::vector<UOp> stores;
    for (int64_t k = 0; k < copies_; k++) {
      const UOp r = tile * copies_ + k;
      Map map = wide;
      map.emplace_back(chain_.row, first_row_ + r);
      map.emplace_back(chain_.step, first + step);
      for (const Map* of : {&weight_at_, &score_at_})
        for (const auto& [u, memory] : *of) map.emplace_back(u, load(element(memory, r, step)));
      const UOp place = index(now(members_[i].running), r * width_ + l.at);
      UOp so_far = load(place);
      if (m.largest) so_far = so_far * load(index(now(members_[i].scale), r));
      const UOp more =
          UOp::make(Op::Reduce, m.term.dtype(), {substitute(m.term, map), step}, ReduceArg{Op::Add, 0});
      stores.push_back(lathe::store(place, so_far + more));
    }
    std::vector<UOp> loops{tile};
    loops.insert(loops.end(), l.loops.begin(), l.loops.end());
    return close_loops(UOp::make(Op::Group, DType::Void, stores), loops);
  }

  // What is stored, of the running values. Rows that two blocks have are stored by one.
  UOp finish() {
    Map map;
    const Lanes l = wide_lanes(map);
    const UOp row = new_loop(rows_);
    map.emplace_back(chain_.row, first_row_ + row);
    for (size_t i = 0; i < members_.size(); i++)
      map.emplace_back(
          chain_.members[i].reduce,
          load(index(now(members_[i].running), members_[i].is_wide ? row * width_ + l.at : row)));
    UOp done = substitute(store_, map);
    if (n_rows_ % rows_) {
      const UOp& to = done.src(0);
      const UOp is_own = ge(first_row_ + row, block_ * rows_);
      done = lathe::store(index(to.src(0), where(is_own, to.src(1), invalid())), done.src(1));
    }
    std::vector<UOp> loops{row};
    loops.insert(loops.end(), l.loops.begin(), l.loops.end());
    return close_loops(done, loops);
  }

  UOp store_;
  ChainedReduces chain_;
  int next_id_;
  int64_t lanes_;  // of a register
  int n_scratch_ = 0;
  std::vector<UOp> outer_, wide_;  // loops that the scores depend on, and others
  int64_t width_ = 1;              // the product of the wide loops
  int64_t n_rows_, n_steps_;
  int64_t rows_, steps_;     // of a block
  int64_t copies_, vector_;  // of a tile: rows, and steps or elements
  UOp block_, first_row_;
  std::vector<UOp> now_;
  std::vector<Member> members_;
  Map score_at_, weight_at_;  // scratch for rows and steps of a block
  std::vector<Pack> row_packs_;
};

}  // namespace

UOp block_reductions(const UOp& body, const Target& target) {
  if (target.work_groups || body.n_srcs() != 1 || body.src(0).op() != Op::End) return body;
  const UOp& end = body.src(0);
  const UOp& effect = end.src(0);
  if (effect.op() != Op::Store || effect.n_srcs() != 2 || effect.src(0).op() != Op::Index) return body;
  const std::vector<UOp> loops(end.srcs().begin() + 1, end.srcs().end());
  for (const UOp& l : loops)
    if (!l.src(0).is_const() || l.range().type != AxisType::Loop) return body;
  const std::optional<ChainedReduces> chain = chained_reduces(effect.src(1), loops);
  if (!chain) return body;
  return simplify(body.with_srcs(
      SmallVec<UOp, 8>{Blocking(effect, loops, *chain, target, next_range_id(body) + 1).run()}));
}

}  // namespace lathe
