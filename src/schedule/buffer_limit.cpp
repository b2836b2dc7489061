#include "base/knobs.h"
#include "schedule/passes.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

using BufferSet = std::vector<const Node*>;  // sorted

BufferSet merged(const BufferSet& a, const BufferSet& b) {
  BufferSet out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

class Limiter {
 public:
  Limiter(size_t most, const KeepValue& keep) : most_(most), keep_(keep) {}

  UOp run(const UOp& value) {
    for (const UOp& u : toposort(value)) {
      std::vector<Part> parts;
      for (const UOp& s : u.srcs()) parts.push_back(parts_.at(s.node()));
      if (is_buffer(u)) parts.push_back({u, {u.node()}});
      Part made{u, union_of(parts)};
      while (made.reads.size() > most_ && stage_largest(u, parts)) made.reads = union_of(parts);
      SmallVec<UOp, 8> srcs;
      for (size_t i = 0; i < u.n_srcs(); i++) srcs.push_back(parts[i].value);
      made.value = u.with_srcs({srcs.data(), srcs.size()});
      parts_.emplace(u.node(), std::move(made));
    }
    return parts_.at(value.node()).value;
  }

 private:
  struct Part {
    UOp value;
    BufferSet reads;
  };

  static BufferSet union_of(const std::vector<Part>& parts) {
    BufferSet out;
    for (const Part& p : parts) out = merged(out, p.reads);
    return out;
  }

  // Keeps the source of `u` that reads most buffers in memory; false when none would become smaller.
  bool stage_largest(const UOp& u, std::vector<Part>& parts) {
    Part* largest = nullptr;
    for (size_t i = 0; i < u.n_srcs(); i++) {
      Part& p = parts[i];
      const bool has_value = p.value.has_shape() && p.value.shape().empty() &&
                             p.value.dtype() != DType::Void && !is_weak(p.value.dtype());
      if (has_value && p.value.op() != Op::Index && p.reads.size() > 1 &&
          (!largest || p.reads.size() > largest->reads.size()))
        largest = &p;
    }
    if (!largest) return false;
    *largest = in_memory(largest->value);
    for (size_t i = 0; i < u.n_srcs(); i++)
      if (&parts[i] == largest) parts_.at(u.src(i).node()) = *largest;
    return true;
  }

  Part in_memory(const UOp& value) {
    std::vector<std::pair<UOp, UOp>> to_loops;
    std::vector<UOp> loops;
    Coords at;
    Shape shape;
    for (const Node* n : value.ranges()) {
      const UOp r(n);
      loops.push_back(range(r.src(0), r.range().id, AxisType::Loop));
      to_loops.emplace_back(r, loops.back());
      at.push_back(r);
      shape.push_back(SInt(r.src(0)));
    }
    const UOp kept = keep_(substitute(value, to_loops), loops, shape);
    return {load(element(kept, at)), {kept.node()}};
  }

  size_t most_;
  const KeepValue& keep_;
  std::unordered_map<const Node*, Part> parts_;
};

}  // namespace

size_t max_kernel_buffers(const std::string& device) {
  if (const int most = knob(Knob::MAX_KERNEL_BUFFERS)) return static_cast<size_t>(std::max(most, 2));
  if (device.starts_with("WEBGPU")) return 8;
  if (device.starts_with("METAL") || device.starts_with("CPU") || device.starts_with("CL")) return 31;
  return SIZE_MAX;
}

UOp limit_buffers(const UOp& value, size_t most, const KeepValue& keep) {
  size_t buffers = 0;
  for (const UOp& u : toposort(value)) buffers += is_buffer(u);
  return buffers <= most ? value : Limiter(most, keep).run(value);
}

}  // namespace lathe
