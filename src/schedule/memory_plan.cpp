#include "schedule/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace lathe {
namespace {

size_t aligned(size_t bytes) { return (bytes + kPlanAlign - 1) / kPlanAlign * kPlanAlign; }

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const Lifetime &x = buffers[a], &y = buffers[b];
    return std::tuple(aligned(y.bytes), x.first, a) < std::tuple(aligned(x.bytes), y.first, b);
  });
  MemoryPlan out{std::vector<size_t>(buffers.size()), 0};
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& b = buffers[i];
    const size_t bytes = aligned(b.bytes);
    size_t end = 0;  // of what was passed so far
    for (size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < b.first || b.last < other.first) continue;
      if (out.offsets[j] >= end + bytes) break;
      end = std::max(end, out.offsets[j] + aligned(other.bytes));
    }
    out.offsets[i] = end;
    out.bytes = std::max(out.bytes, end + bytes);
    placed.insert(std::ranges::upper_bound(placed, end, {}, [&](size_t j) { return out.offsets[j]; }), i);
  }
  return out;
}

std::vector<Arena> plan_arenas(std::span<const std::vector<UOp>* const> steps,
                               FunctionRef<bool(const UOp&)> is_planned) {
  struct Group {
    std::vector<UOp> buffers;
    std::vector<Lifetime> lifetimes;
  };
  std::map<std::string, Group> groups;
  std::unordered_map<const Node*, size_t> known;  // position in its group
  for (size_t step = 0; step < steps.size(); step++)
    for (const UOp& b : *steps[step]) {
      if (!is_planned(b)) continue;
      Group& group = groups[b.device()];
      const auto [it, is_new] = known.emplace(b.node(), group.buffers.size());
      if (is_new) {
        group.buffers.push_back(b);
        group.lifetimes.push_back({step, step, storage_bytes(b)});
      }
      group.lifetimes[it->second].last = step;
    }
  std::vector<Arena> out;
  for (const auto& [device, group] : groups) {
    const MemoryPlan plan = plan_memory(group.lifetimes);
    Arena& arena = out.emplace_back(Arena{device, plan.bytes, 0, {}});
    for (size_t i = 0; i < group.buffers.size(); i++) {
      arena.places.push_back({group.buffers[i], plan.offsets[i]});
      arena.separate_bytes += group.lifetimes[i].bytes;
    }
  }
  return out;
}

size_t storage_bytes(const UOp& buffer) {
  return static_cast<size_t>(prod(buffer.shape()).vmax() * item_size(buffer.dtype()));
}

}  // namespace lathe
