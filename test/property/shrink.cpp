#include "property/shrink.h"

#include <algorithm>
#include <unordered_set>

namespace lathe::test {
namespace {

// What a graph weighs: every step of the search lowers it, so the search ends. Nodes first, then the size of
// numbers.
struct Weight {
  size_t nodes = 0;
  double numbers = 0;
  bool operator<(const Weight& o) const { return nodes != o.nodes ? nodes < o.nodes : numbers < o.numbers; }
};

double size_of(int128 v) { return v < 0 ? static_cast<double>(-v) + 0.5 : static_cast<double>(v); }

Weight weight(const UOp& root) {
  Weight w;
  for (const UOp& u : toposort(root)) {
    w.nodes++;
    if (u.is_const() && u.value().is_int()) w.numbers += size_of(u.value().as_int());
    if (u.is_const() && u.value().is_float() && !(std::abs(u.value().as_double()) <= 1)) w.numbers += 2;
    if (u.op() == Op::Param && u.param().bounds)
      w.numbers += size_of(u.param().bounds->first) + size_of(u.param().bounds->second);
    if (u.op() == Op::Param) w.numbers += static_cast<double>(u.param().multiple_of - 1);
  }
  return w;
}

// The constant of a buffer's size may be that of an index, too.
constexpr int64_t kBufferSize = 64;
bool buffers_kept(const UOp& root) {
  for (const UOp& u : toposort(root))
    if (u.op() == Op::Param && u.ndim() > 0 && !(u.shape()[0] == SInt(kBufferSize))) return false;
  return true;
}

bool same_type(const UOp& a, const UOp& b) {
  return a.dtype() == b.dtype() && a.has_shape() == b.has_shape() &&
         (!a.has_shape() || a.shape() == b.shape());
}

// A variable or Range with another end, in place of the whole leaf.
void narrowed(const UOp& u, std::vector<UOp>& out) {
  if (u.op() != Op::Param || !u.param().bounds) return;
  const auto [lo, hi] = *u.param().bounds;
  const int64_t m = u.param().multiple_of;
  auto add = [&](int64_t l, int64_t h) {
    if (l <= h && (l != lo || h != hi)) out.push_back(variable(u.param().name, l, h, u.dtype(), m));
  };
  if (m > 1) out.push_back(variable(u.param().name, lo, hi, u.dtype()));
  if (lo < 0 && hi > 0) add(0, hi), add(lo, 0);
  add(lo / 2, hi), add(lo, hi / 2), add(lo + m, hi), add(lo, hi - m), add(lo, lo), add(hi, hi);
}

std::vector<UOp> replacements(const UOp& u) {
  std::vector<UOp> out;
  if (u.is_const()) {
    if (!u.value().is_int()) return out;
    const int128 v = u.value().as_int();
    for (const int128 w : {static_cast<int128>(0), static_cast<int128>(1), -v, v / 2, v < 0 ? v + 1 : v - 1})
      out.push_back(constant(u.dtype(), Scalar(w)));
    return out;
  }
  if (is_int(u.dtype()))
    for (const int v : {0, 1}) out.push_back(constant(u.dtype(), v));
  if (is_bool(u.dtype()))
    for (const bool v : {false, true}) out.push_back(constant(v));
  if (is_float(u.dtype())) out.push_back(constant(u.dtype(), 1.0));
  narrowed(u, out);
  // Sources, and theirs: a term in the middle of a sum goes in one step.
  for (const UOp& s : u.srcs()) {
    if (same_type(s, u)) out.push_back(s);
    for (const UOp& below : s.srcs())
      if (same_type(below, u)) out.push_back(below);
  }
  return out;
}

}  // namespace

UOp shrink(const UOp& u, const std::function<bool(const UOp&)>& fails) {
  UOp smallest = u;
  Weight least = weight(u);
  for (bool found = true; found;) {
    found = false;
    std::vector<UOp> nodes = toposort(smallest);
    std::reverse(nodes.begin(), nodes.end());  // large pieces first
    for (size_t i = 0; i < nodes.size() && !found; i++) {
      const UOp& node = nodes[i];
      if (node.op() == Op::Stack && node.n_srcs() == 0) continue;  // the shape of a variable
      for (const UOp& by : replacements(node)) {
        UOp candidate;
        try {
          candidate = node == smallest ? by : substitute(smallest, {{node, by}});
          if (!buffers_kept(candidate)) continue;
        } catch (const Error&) {  // no graph
          continue;
        }
        const Weight now = weight(candidate);
        if (!(now < least) || !fails(candidate)) continue;
        smallest = candidate;
        least = now;
        found = true;
        break;
      }
    }
  }
  return smallest;
}

}  // namespace lathe::test
