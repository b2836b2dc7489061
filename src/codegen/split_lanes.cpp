#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "renderer/program.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

namespace lathe {
namespace {

// Of a value, or of what an access moves; 0 of a scalar and of all else.
int64_t moved_lanes(const UOp& u) {
  if (u.op() == Op::Load || u.op() == Op::Store) return access_of(u).at.lanes;
  const bool is_value = u.has_shape() && u.ndim() == 1 && u.dtype() != DType::Void && !is_memory(u) &&
                        !is_address(u) && u.op() != Op::Param;
  return is_value ? u.shape()[0].value() : 0;
}

class LaneSplitter {
 public:
  explicit LaneSplitter(const Target& target) : target_(target) {}

  UOp run(const UOp& body) {
    const NodeList order = toposort(body);
    for (const UOp& u : order) {
      const DType d = u.op() == Op::Store ? u.src(1).dtype() : u.dtype();
      const int64_t n = is_weak(d) ? 0 : moved_lanes(u);
      if (n && (n & (n - 1)) && n * item_size(d) * 8 > target_.vector_bits) split_.insert(n);
    }
    if (split_.empty()) return body;
    return done_.walk(order, [&](const UOp& u) { return visit(u); });
  }

 private:
  struct Part {
    int64_t first, lanes;
  };

  std::vector<Part> parts_of(int64_t n) const {
    std::vector<Part> out;
    for (int64_t at = 0; at < n; at += out.back().lanes) {
      const auto left = std::min<int64_t>(n - at, std::max(1, target_.lanes(DType::Float32)));
      out.push_back({at, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left)))});
    }
    return out;
  }

  static Lane lane_of(const UOp& v, int64_t i) {
    return v.op() == Op::Stack ? Lane{v.src(static_cast<size_t>(i)), 0} : Lane{v, i};
  }
  Lane done_lane(const UOp& u, int64_t i) const {
    const auto it = parts_.find(u.node());
    if (it == parts_.end()) return lane_of(done_.of(u), i);
    for (const UOp& part : it->second) {
      const int64_t n = std::max<int64_t>(1, lanes_of(part));
      if (i < n) return {part, i};
      i -= n;
    }
    CHECK(false, "a lane behind the last");
    __builtin_unreachable();
  }
  // The vector of `lane(i)` for the lanes of a part.
  static UOp joined(const Part& p, FunctionRef<Lane(int64_t)> lane) {
    std::vector<Lane> out;
    for (int64_t i = p.first; i < p.first + p.lanes; i++) out.push_back(lane(i));
    return to_vector(out);
  }
  UOp slice_of(const UOp& u, const Part& p) const {
    return joined(p, [&](int64_t i) { return done_lane(u, i); });
  }
  // A scalar is the same for all parts.
  UOp part_of(const UOp& u, size_t k, const Part& p) const {
    const auto it = parts_.find(u.node());
    return it != parts_.end() ? it->second[k] : moved_lanes(u) ? slice_of(u, p) : done_.of(u);
  }

  UOp visit(const UOp& u) {
    const int64_t n = moved_lanes(u);
    if (split_.contains(n)) return split(u, n);
    if (std::ranges::none_of(u.srcs(), [&](const UOp& s) { return parts_.contains(s.node()); }))
      return done_.over_sources(u);
    if (is_address(u)) return u;  // each access makes its own
    if (u.op() == Op::Index) return pick(u, {0, std::max<int64_t>(1, n)});
    return rebuilt(u);
  }

  // With its sources in one piece.
  UOp rebuilt(const UOp& u) const {
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs())
      srcs.push_back(parts_.contains(s.node()) ? slice_of(s, {0, moved_lanes(s)}) : done_.of(s));
    return u.with_srcs(srcs);
  }

  UOp pick(const UOp& u, const Part& p) const {
    const auto lanes = picked_lanes(u);
    CHECK(lanes, "a lane that is not constant");
    return joined(p, [&](int64_t i) { return done_lane(u.src(0), (*lanes)[static_cast<size_t>(i)]); });
  }

  UOp address(const UOp& u, size_t k, const Part& p) const {
    if (u.op() == Op::After) {
      SmallVec<UOp, 8> srcs{address(u.src(0), k, p)};
      for (const UOp& s : u.srcs().subspan(1)) srcs.push_back(done_.of(s));
      return u.with_srcs(srcs);
    }
    const UOp memory = done_.of(u.src(0));
    if (u.op() == Op::Index) return index(memory, part_of(u.src(1), k, p));
    UOp first = done_.of(u.src(1).src(0));
    if (first.is_const())
      first = constant(first.dtype(), Scalar(first.value().as_i64() + p.first));
    else if (p.first)
      first = first + constant(first.dtype(), Scalar(p.first));
    return elements_from(memory, p.lanes > 1 ? p.lanes : 0, first);
  }

  // Part k of what a node computes lane by lane from scalars and vectors of n lanes.
  UOp part_by_lane(const UOp& u, size_t k, const Part& p) const {
    SmallVec<UOp, 8> srcs;
    for (size_t i = 0; i < u.n_srcs(); i++)
      srcs.push_back(i == 0 && is_address(u.src(0)) ? address(u.src(0), k, p) : part_of(u.src(i), k, p));
    return u.with_srcs(srcs);
  }

  UOp split(const UOp& u, int64_t n) {
    const bool is_pick = u.op() == Op::Index;
    const bool is_by_lane =
        !is_pick && u.op() != Op::Stack && std::ranges::all_of(u.srcs(), [&](const UOp& s) {
          const int64_t m = moved_lanes(s);
          return m == 0 || m == n;
        });
    std::vector<UOp> out;
    const std::vector<Part> parts = parts_of(n);
    const UOp whole = is_pick || is_by_lane ? UOp() : rebuilt(u);
    for (size_t k = 0; k < parts.size(); k++)
      out.push_back(is_pick      ? pick(u, parts[k])
                    : is_by_lane ? part_by_lane(u, k, parts[k])
                                 : joined(parts[k], [&](int64_t i) { return lane_of(whole, i); }));
    if (u.op() == Op::Store) return UOp::make(Op::Group, DType::Void, out);
    parts_[u.node()] = std::move(out);
    return u;
  }

  const Target& target_;
  Rebuilt done_;
  std::set<int64_t> split_;  // numbers of lanes
  std::unordered_map<const Node*, std::vector<UOp>> parts_;
};

}  // namespace

UOp split_lanes(const UOp& sink, const Target& target) { return LaneSplitter(target).run(sink); }

}  // namespace lathe
