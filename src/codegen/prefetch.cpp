#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/comparison.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace lathe {
namespace {

bool is_plain_load(const UOp& u) {
  return u.op() == Op::Load && u.n_srcs() == 1 && u.src(0).op() == Op::Index &&
         u.src(0).src(0).op() == Op::Param && !is_gated(u.src(0).src(1));
}
std::optional<int64_t> bytes_apart(const UOp& load, const UOp& r) {
  const auto s = stride_in(load.src(0).src(1), r);
  return s ? std::optional(*s * item_size(load.dtype())) : s;
}

// `load`, which first asks for what is `bytes` after it.
UOp asking_ahead(const UOp& load, int64_t bytes) {
  const UOp &memory = load.src(0).src(0), &i = load.src(0).src(1);
  const UOp ahead = UOp::make(Op::Noop, DType::Void, {index(memory, i + bytes / item_size(load.dtype()))});
  return lathe::load(index(after(memory, {&ahead, 1}), i));
}

// How far the first reading of a row runs before this one, which finds the row in the caches and leaves the
// memory idle: to the next row. 0 where it is no second reading.
int64_t next_row(const UOp& load, std::span<const UOp> loops, const std::vector<UOp>& below,
                 const std::unordered_set<UOp>& all, int64_t most) {
  for (const UOp& q : loops) {
    if (q.op() != Op::Range || !is_open(load, q) || !q.src(0).is_const()) continue;
    const int64_t bytes = q.src(0).value().as_i64() * item_size(load.dtype());
    if (bytes_apart(load, q) != item_size(load.dtype()) || bytes < most / 256 || bytes > most) continue;
    // What is open in a loop is inside of its reduction.
    const bool is_second = std::ranges::any_of(below, [&](const UOp& r) {
      return r.op() == Op::Reduce && r.n_srcs() == 2 && r.src(1).src(0) == q.src(0) &&
             all.contains(substitute(load, {{q, r.src(1)}}));
    });
    if (!is_second) continue;
    int64_t least = 0;
    for (const Node* o : load.ranges()) {
      const auto apart = UOp(o) == q ? 0 : bytes_apart(load, UOp(o));
      if (apart && *apart >= bytes && (!least || *apart < least)) least = *apart;
    }
    if (least) return least;
  }
  return 0;
}

}  // namespace

UOp prefetch(const UOp& body, const Target& target) {
  if (target.name != "llvm") return body;
  std::vector<std::pair<UOp, UOp>> map;
  std::unordered_set<UOp> done;  // memory
  const NodeList order = toposort(body);
  const std::unordered_set<UOp> all(order.begin(), order.end());
  for (const UOp& p : order) {
    if (p.op() != Op::Reduce && p.op() != Op::End) continue;
    const NodeList below = toposort(p.src(0));
    for (const UOp& u : below) {
      if (!is_plain_load(u) || done.contains(u.src(0).src(0))) continue;
      const int64_t ahead = next_row(u, p.srcs().subspan(1), below, all, target.l2_bytes / 2);
      if (!ahead) continue;
      map.emplace_back(u, asking_ahead(u, ahead));
      done.insert(u.src(0).src(0));
    }
  }
  return map.empty() ? body : substitute(body, map);
}

}  // namespace lathe
