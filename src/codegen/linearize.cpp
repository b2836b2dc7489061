#include "codegen/passes.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

// End(effect, r0, r1, …) becomes nested Ends of one Range each, the last range innermost.
UOp split_ends(const UOp& body) {
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (v.op() != Op::End) return v;
    UOp nested = v.src(0);
    for (size_t i = v.n_srcs(); i-- > 1;) nested = UOp::make(Op::End, DType::Void, {nested, v.src(i)});
    return nested;
  });
}

class Linearizer {
 public:
  explicit Linearizer(const UOp& body) : order_(toposort(body)) {
    for (size_t i = 0; i < order_.size(); i++) position_.emplace(order_[i].node(), i);
    users_.resize(order_.size());
    waits_.resize(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); i++)
      for (const UOp& s : order_[i].srcs()) add_edge(position_.at(s.node()), i);
    order_loops();
    interleave();
  }

  std::vector<UOp> run() {
    for (size_t i = 0; i < order_.size(); i++)
      if (!waits_[i]) make_ready(i);
    while (out_.size() < order_.size()) {
      if (!ready_.empty()) {
        const size_t i = ready_.begin()->second;
        ready_.erase(ready_.begin());
        emit(i);
      } else {
        open_loop();
      }
    }
    return std::move(out_);
  }

 private:
  void add_edge(size_t from, size_t to) {
    users_[from].push_back(to);
    waits_[to]++;
  }

  // A loop opens after every loop whose result is used inside it without being nested in it.
  void order_loops() {
    std::vector<size_t> ends;
    for (size_t i = 0; i < order_.size(); i++)
      if (order_[i].op() == Op::End) ends.push_back(i);
    for (size_t e : ends) {
      const Node* loop = order_[e].src(1).node();
      const bool fresh = end_of_.emplace(loop, e).second;
      CHECK(fresh, "a Range is closed twice");
    }
    // The loops around each: those that its own depend on, and what is around these. Ends of outer loops come
    // later.
    std::unordered_map<const Node*, std::unordered_set<const Node*>> around;
    for (size_t k = ends.size(); k-- > 0;) {
      std::unordered_set<const Node*> own;
      for (const Node* r : order_[ends[k]].ranges()) {
        own.insert(r);
        const auto outer = around.find(r);
        if (outer != around.end()) own.insert(outer->second.begin(), outer->second.end());
      }
      around.emplace(order_[ends[k]].src(1).node(), std::move(own));
    }
    // below[i]: the Ends that node i depends on, as a sorted set; only sets that matter are kept small by
    // sharing.
    std::vector<std::vector<size_t>> below(order_.size());
    for (size_t i = 0; i < order_.size(); i++) {
      std::vector<size_t>& mine = below[i];
      for (const UOp& s : order_[i].srcs()) {
        const size_t p = position_.at(s.node());
        std::vector<size_t> merged;
        std::set_union(mine.begin(), mine.end(), below[p].begin(), below[p].end(),
                       std::back_inserter(merged));
        mine = std::move(merged);
      }
      if (order_[i].op() != Op::End) continue;
      const Node* loop = order_[i].src(1).node();
      for (size_t e : mine) {
        if (!around.at(order_[e].src(1).node()).contains(loop)) add_edge(e, position_.at(loop));
      }
      mine.insert(std::lower_bound(mine.begin(), mine.end(), i), i);
    }
  }

  // Effects side by side that take many operations each are computed a few at a time: one after the other,
  // each would wait for its own results.
  void interleave() {
    constexpr size_t kSideBySide = 4;
    constexpr std::ptrdiff_t kMany = 32;
    for (size_t i = 0; i < order_.size(); i++) rank_.emplace_back(i, i);
    for (const UOp& group : order_) {
      if (group.op() != Op::Group) continue;
      size_t k = 0, base = 0;
      for (size_t j = 0; j + 1 < group.n_srcs(); j++) {
        const size_t first = position_.at(group.src(j).node()) + 1,
                     end = position_.at(group.src(j + 1).node()) + 1;
        if (first >= end || std::count_if(order_.begin() + first, order_.begin() + end, [](const UOp& u) {
                              return is_alu(u.op()) && is_float(u.dtype());
                            }) < kMany)
          continue;
        if (k++ % kSideBySide == 0) base = first;
        for (size_t i = first; i < end; i++) rank_[i] = {base + i - first, i};
      }
    }
  }

  void make_ready(size_t i) {
    if (order_[i].op() == Op::Range)
      loops_.insert(i);
    else
      ready_.insert(rank_[i]);
  }

  void emit(size_t i) {
    const UOp& u = order_[i];
    if (u.op() == Op::End) {
      CHECK(!stack_.empty() && stack_.back() == u.src(1).node(), "loops overlap");
      stack_.pop_back();
    }
    out_.push_back(u);
    for (size_t user : users_[i])
      if (--waits_[user] == 0) make_ready(user);
  }

  // Opens the first loop that belongs at this depth: its surroundings are open, the innermost of them on top.
  void open_loop() {
    for (size_t i : loops_) {
      const auto end = end_of_.find(order_[i].node());
      CHECK(end != end_of_.end(), "a Range without End");
      const RangeSet& around = order_[end->second].ranges();
      const bool inside = std::all_of(around.begin(), around.end(), [&](const Node* r) {
        return std::find(stack_.begin(), stack_.end(), r) != stack_.end();
      });
      const bool here =
          stack_.empty() || std::find(around.begin(), around.end(), stack_.back()) != around.end();
      if (!inside || !here) continue;
      loops_.erase(i);
      stack_.push_back(order_[i].node());
      emit(i);
      return;
    }
    CHECK(false, "no loop can be opened: the kernel's loops depend on each other");
  }

  NodeList order_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Node*, size_t> end_of_;
  std::vector<std::vector<size_t>> users_;
  std::vector<size_t> waits_;
  std::vector<std::pair<size_t, size_t>> rank_;  // what comes first when it can, and the position
  std::set<std::pair<size_t, size_t>> ready_;    // lowest rank first
  std::set<size_t> loops_;                       // Ranges that wait to be opened
  std::vector<const Node*> stack_;
  std::vector<UOp> out_;
};

}  // namespace

std::vector<UOp> linearize(const UOp& body) {
  const UOp split = split_ends(body);
  return Linearizer(split).run();
}

}  // namespace lathe
