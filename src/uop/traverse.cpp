// Walks over the graph; all with explicit stacks.
#include "uop/substitution.h"
#include "uop/uop.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

template <class Enter>
std::vector<UOp> post_order(const UOp& root, bool enter_calls, Enter enter) {
  std::vector<UOp> out;
  std::unordered_set<const Node*> seen;
  struct Frame {
    const Node* node;
    uint32_t next;
  };
  std::vector<Frame> stack;
  auto visit = [&](const Node* n) {
    if (seen.insert(n).second && enter(n)) stack.push_back({n, n->op == Op::Call && !enter_calls ? 1u : 0u});
  };
  visit(root.node());
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (f.next < f.node->n_srcs) {
      visit(f.node->src_begin()[f.next++].node());
    } else {
      out.emplace_back(f.node);
      stack.pop_back();
    }
  }
  return out;
}

int compare_scalar(const Scalar& a, const Scalar& b) {
  if (a == b) return 0;
  if (a.kind() != b.kind()) return a.kind() < b.kind() ? -1 : 1;
  if (a.less(b)) return -1;
  if (b.less(a)) return 1;
  return a.hash() < b.hash() ? -1 : 1;
}

int compare_param(const ParamArg& a, const ParamArg& b) {
  auto key = [](const ParamArg& p) {
    return std::tie(p.slot, p.dtype, p.bounds, p.multiple_of, p.name, p.space, p.device);
  };
  return key(a) < key(b) ? -1 : key(b) < key(a) ? 1 : 0;
}

int compare_arg(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return a.index() < b.index() ? -1 : 1;
  if (const auto* s = std::get_if<Scalar>(&a)) return compare_scalar(*s, std::get<Scalar>(b));
  if (const auto* r = std::get_if<RangeArg>(&a)) {
    const auto& q = std::get<RangeArg>(b);
    return std::tie(r->id, r->type) < std::tie(q.id, q.type)
               ? -1
               : std::tie(q.id, q.type) < std::tie(r->id, r->type);
  }
  if (const auto* p = std::get_if<ParamPtr>(&a)) return compare_param(**p, *std::get<ParamPtr>(b));
  if (same_arg(a, b)) return 0;
  return hash_arg(a, {}) < hash_arg(b, {}) ? -1 : 1;
}

}  // namespace

std::vector<UOp> toposort(const UOp& root) {
  return post_order(root, false, [](const Node*) { return true; });
}
std::vector<UOp> toposort(const UOp& root, const std::function<bool(const UOp&)>& enter, bool enter_calls) {
  return post_order(root, enter_calls, [&](const Node* n) { return !enter || enter(UOp(n)); });
}

bool reaches(const UOp& root, const UOp& node) {
  std::unordered_set<const Node*> seen{root.node()};
  std::vector<const Node*> stack{root.node()};
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (n == node.node()) return true;
    for (size_t i = 0; i < n->n_srcs; i++) {
      const Node* s = n->src_begin()[i].node();
      if (seen.insert(s).second) stack.push_back(s);
    }
  }
  return false;
}

UOp substitute(const UOp& root, const std::vector<std::pair<UOp, UOp>>& map) {
  Substitution now(map);
  for (const UOp& u : post_order(root, true, [&](const Node* n) { return !now.has(UOp(n)); }))
    now.put(u, now.with_sources(u));
  return now(root);
}

// Nodes that differ but have equal op, dtype, arg and source count differ in some source, so following the
// first differing pair always ends in a decision.
int compare_structure(const UOp& a, const UOp& b) {
  const Node *x = a.node(), *y = b.node();
  while (x != y) {
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (const int c = compare_arg(x->arg, y->arg)) return c;
    if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
    const size_t n = std::min(x->n_srcs, y->n_srcs);
    size_t i = 0;
    while (i < n && x->src_begin()[i] == y->src_begin()[i]) i++;
    if (i == n) return x->n_srcs < y->n_srcs ? -1 : 1;
    const Node* next_x = x->src_begin()[i].node();
    y = y->src_begin()[i].node();
    x = next_x;
  }
  return 0;
}

// ---- open ranges
namespace {

bool range_before(const Node* a, const Node* b) {
  const auto &x = std::get<RangeArg>(a->arg), &y = std::get<RangeArg>(b->arg);
  if (x.id != y.id) return x.id < y.id;
  if (x.type != y.type) return x.type < y.type;
  return a != b && a->hash < b->hash;
}

// Sets are shared: a set is only read through a node that keeps all its members alive.
const RangeSet* intern_ranges(const RangeSet& s) {
  static const RangeSet* const empty = new RangeSet;
  if (s.empty()) return empty;
  static std::mutex* const mutex = new std::mutex;
  static auto* const table = new std::unordered_multimap<uint64_t, const RangeSet*>;
  const uint64_t h = hash_bytes(s.data(), s.size() * sizeof(s[0])).lo;
  std::lock_guard lock(*mutex);
  auto [begin, end] = table->equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (*it->second == s) return it->second;
  return table->emplace(h, new RangeSet(s))->second;
}

// Index of the first source that names closed ranges; sources before it contribute their open ranges.
size_t first_closed(const Node* n) {
  switch (n->op) {
    case Op::Reduce:
    case Op::End:
    case Op::Stage: return 1;
    default: return n->n_srcs;
  }
}

const RangeSet* compute_ranges(const Node* n) {
  RangeSet out;
  const RangeSet* only = nullptr;
  auto merge = [&](const RangeSet* s) {
    if (s->empty() || s == only) return;
    if (!only && out.empty()) {
      only = s;
      return;
    }
    RangeSet merged;
    const RangeSet& left = only ? *only : out;
    std::set_union(left.begin(), left.end(), s->begin(), s->end(), std::back_inserter(merged), range_before);
    out = std::move(merged);
    only = nullptr;
  };
  const size_t closed = first_closed(n);
  for (size_t i = 0; i < closed; i++) merge(n->src_begin()[i].node()->ranges.load());
  if (n->op == Op::Range) merge(intern_ranges({n}));
  if (closed == n->n_srcs) return only ? only : intern_ranges(out);
  if (only) out = *only;
  // A closed range's own end expression may stay open around it: only the named Ranges themselves close.
  std::erase_if(out, [&](const Node* r) {
    for (size_t i = closed; i < n->n_srcs; i++)
      if (n->src_begin()[i].node() == r) return true;
    return false;
  });
  return intern_ranges(out);
}

}  // namespace

const RangeSet& UOp::ranges() const {
  if (const RangeSet* known = node_->ranges.load(std::memory_order_acquire)) return *known;
  std::vector<std::pair<const Node*, uint32_t>> stack{{node_, 0}};
  while (!stack.empty()) {
    auto& [n, next] = stack.back();
    if (next < n->n_srcs) {
      const Node* s = n->src_begin()[next++].node();
      if (!s->ranges.load(std::memory_order_acquire)) stack.emplace_back(s, 0);
    } else {
      n->ranges.store(compute_ranges(n), std::memory_order_release);
      stack.pop_back();
    }
  }
  return *node_->ranges.load();
}

}  // namespace lathe
