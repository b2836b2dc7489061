// Walks over the graph; all with explicit stacks.
#include "base/flat_map.h"
#include "uop/derive.h"
#include "uop/rebuild.h"
#include "uop/uop.h"

#include <algorithm>

namespace lathe {
namespace {

template <class Enter>
NodeList post_order(const UOp& root, bool enter_calls, Enter enter) {
  std::vector<const Node*> out;
  FlatMap<const Node*, bool> seen(root.op() == Op::Sink ? 128 : 16);  // kernels have more than expressions
  struct Frame {
    const Node* node;
    uint32_t next;
  };
  std::vector<Frame> stack;
  auto visit = [&](const Node* n) {
    if (seen.try_emplace(n, true).fresh && enter(n))
      stack.push_back({n, n->op == Op::Call && !enter_calls ? 1u : 0u});
  };
  visit(root.node());
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (f.next < f.node->n_srcs) {
      visit(f.node->src_begin()[f.next++].node());
    } else {
      out.push_back(f.node);
      stack.pop_back();
    }
  }
  return {root, std::move(out)};
}

template <class T>
int compare(const T& a, const T& b) {
  return a < b ? -1 : b < a;
}

int compare_scalar(const Scalar& a, const Scalar& b) {
  if (a == b) return 0;
  if (a.kind() != b.kind()) return compare(a.kind(), b.kind());
  if (a.less(b)) return -1;
  return b.less(a) ? 1 : compare(a.hash(), b.hash());
}

int compare_arg(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return compare(a.index(), b.index());
  if (const auto* s = std::get_if<Scalar>(&a)) return compare_scalar(*s, std::get<Scalar>(b));
  if (const auto* s = std::get_if<TextArg>(&a)) return compare(*s->text, *std::get<TextArg>(b).text);
  if (const auto* r = std::get_if<RangeArg>(&a)) {
    const auto& q = std::get<RangeArg>(b);
    return compare(std::tie(r->id, r->type), std::tie(q.id, q.type));
  }
  if (const auto* p = std::get_if<ParamPtr>(&a)) {
    const auto key = [](const ParamArg& p) {
      return std::tie(p.slot, p.dtype, p.bounds, p.multiple_of, p.name, p.space, p.device);
    };
    return compare(key(**p), key(*std::get<ParamPtr>(b)));
  }
  return same_arg(a, b) ? 0 : compare(hash_arg(a, {}), hash_arg(b, {}));
}

}  // namespace

NodeList toposort(const UOp& root) {
  return post_order(root, false, [](const Node*) { return true; });
}
NodeList toposort(const UOp& root, const std::function<bool(const UOp&)>& enter, bool enter_calls) {
  return post_order(root, enter_calls, [&](const Node* n) { return !enter || enter(UOp(n)); });
}

bool reaches(const UOp& root, const UOp& node) {
  bool found = false;
  post_order(root, true, [&](const Node* n) {
    found = found || n == node.node();
    return !found;
  });
  return found;
}

UOp substitute(const UOp& root, const std::vector<std::pair<UOp, UOp>>& map) {
  Rebuilt now(map);
  for (const UOp& u : post_order(root, false, [&](const Node* n) { return !now.contains(UOp(n)); }))
    now.set(u, now.over_sources(u));
  return now.of(root);
}

// Nodes that differ but have equal op, dtype, arg and source count differ in some source, so following the
// first differing pair always ends in a decision.
int compare_structure(const UOp& a, const UOp& b) {
  const Node *x = a.node(), *y = b.node();
  while (x != y) {
    if (x->op != y->op) return compare(x->op, y->op);
    if (const int c = compare_arg(x->arg, y->arg)) return c;
    if (x->dtype != y->dtype) return compare(x->dtype, y->dtype);
    const size_t n = std::min(x->n_srcs, y->n_srcs);
    size_t i = 0;
    while (i < n && x->src_begin()[i] == y->src_begin()[i]) i++;
    if (i == n) return compare(x->n_srcs, y->n_srcs);
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
  return intern(s, hash_bytes(s.data(), s.size() * sizeof(s[0])));
}

// Index of the first source that names closed ranges; sources before it contribute their open ranges.
size_t first_closed(const Node* n) {
  constexpr OpSet kClosing = {Op::Reduce, Op::End, Op::Stage, Op::Dot};
  return kClosing.contains(n->op) ? static_cast<size_t>(min_sources(n->op)) : n->n_srcs;
}

const RangeSet* compute_ranges(const Node* n) {
  RangeSet merged;
  const RangeSet* open = &merged;
  auto merge = [&](const RangeSet* s) {
    if (s->empty() || s == open) return;
    if (open->empty()) {
      open = s;
      return;
    }
    RangeSet both;
    std::set_union(open->begin(), open->end(), s->begin(), s->end(), std::back_inserter(both), range_before);
    merged = std::move(both);
    open = &merged;
  };
  const size_t closed = first_closed(n);
  for (size_t i = 0; i < closed; i++) merge(n->src_begin()[i].node()->ranges.load());
  if (n->op == Op::Range) merge(intern_ranges({n}));
  if (closed == n->n_srcs) return open == &merged ? intern_ranges(merged) : open;
  RangeSet out = *open;
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
  derive_upwards(
      node_, [](const Node* n) { return n->ranges.load(std::memory_order_acquire) != nullptr; },
      [](const Node*) { return true; },
      [](const Node* n) { n->ranges.store(compute_ranges(n), std::memory_order_release); });
  return *node_->ranges.load();
}

}  // namespace lathe
