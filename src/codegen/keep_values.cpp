#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"
#include "uop/spec_rules.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

constexpr const char* kName = "keep";

// A value that a reduction computes in every step of its loop, and what it is in the steps of others.
struct Repeated {
  UOp reduce, value;
  std::vector<std::pair<UOp, UOp>> again;  // the same value in the loop of another Range, and that Range
};

bool is_costly(const UOp& u) { return has_flag(u.op(), kTranscendental) && !is_weak(u.dtype()); }

std::optional<Repeated> find_repeated(const UOp& body, int64_t most_bytes) {
  constexpr int64_t kLeast = 64;  // shorter loops are unrolled
  const NodeList order = toposort(body);
  const std::unordered_set<UOp> all(order.begin(), order.end());
  for (const UOp& reduce : order) {
    if (reduce.op() != Op::Reduce || reduce.n_srcs() != 2 || !reduce.src(1).src(0).is_const()) continue;
    const UOp& r = reduce.src(1);
    const int64_t n = r.src(0).value().as_i64();
    if (r.range().type != AxisType::Reduce || n < kLeast) continue;
    const NodeList below = toposort(reduce.src(0));
    const std::unordered_set<UOp> inside(below.begin(), below.end());
    for (const UOp& v : below) {
      if (!is_costly(v) || !is_open(v, r) || n * item_size(v.dtype()) > most_bytes) continue;
      Repeated out{reduce, v, {}};
      for (const UOp& q : order) {
        if (q.op() != Op::Range || q == r || !(q.src(0) == r.src(0))) continue;
        const UOp other = substitute(v, {{r, q}});
        if (all.contains(other) && !inside.contains(other)) out.again.emplace_back(other, q);
      }
      if (!out.again.empty()) return out;
    }
  }
  return {};
}

UOp at(const UOp& scratch, const UOp& effect, const UOp& i) { return index(after(scratch, {&effect, 1}), i); }

}  // namespace

UOp keep_values(UOp body, const Target& target) {
  if (target.work_groups) return body;
  for (int64_t slot = 0;; slot++) {
    const auto found = find_repeated(body, target.l2_bytes / 2);
    if (!found) return body;
    const auto& [reduce, value, again] = *found;
    const UOp& r = reduce.src(1);
    const UOp scratch = scratch_buffer(slot, value.dtype(), r.src(0).value().as_i64(), kName);
    const UOp kept = store(index(scratch, r), value);
    const UOp filled = substitute(reduce, {{value, load(at(scratch, kept, r))}});
    std::vector<std::pair<UOp, UOp>> map{{value, load(at(scratch, kept, r))}};
    body = substitute(body, map);
    map.clear();
    for (const auto& [other, q] : again) map.emplace_back(other, load(at(scratch, filled, q)));
    body = substitute(body, map);
  }
}

UOp widen_kept(const UOp& body) {
  const NodeList order = toposort(body);
  std::unordered_map<const Node*, std::vector<UOp>> copies;
  for (const UOp& u : order) {
    if (u.op() != Op::Store || u.src(0).op() != Op::Index) continue;
    const UOp& buffer = strip_after(u.src(0).src(0));
    if (buffer.op() != Op::Buffer || buffer.param().name != kName) continue;
    for (const Node* q : u.ranges()) {
      const AxisType t = std::get<RangeArg>(q->arg).type;
      const bool is_side_by_side = t == AxisType::Upcast || t == AxisType::Unroll || t == AxisType::Vector;
      if (is_side_by_side && !is_open(u.src(0).src(1), UOp(q))) copies[buffer.node()].emplace_back(q);
    }
  }
  if (copies.empty()) return body;
  Rebuilt done;
  return done.walk(order, [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    const bool is_access = u.op() == Op::Index && is_memory(u.src(0));
    const auto c = copies.find(is_access ? strip_after(u.src(0)).node() : u.node());
    if (c == copies.end()) return v;
    // Lanes are neighbours, copies of the rest are apart.
    int64_t n = prod(strip_after(is_access ? u.src(0) : u).shape()).value();
    UOp place = is_access ? v.src(1) : UOp();
    for (const UOp& q : c->second) {
      const int64_t size = q.src(0).value().as_i64();
      if (is_access) place = q.range().type == AxisType::Vector ? place * size + q : q * n + place;
      n *= size;
    }
    if (is_access) return index(v.src(0), place);
    return scratch_buffer(u.param().slot, u.dtype(), n, kName);
  });
}

}  // namespace lathe
