#include "schedule/passes.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>

namespace lathe {
namespace {

// The Buffer behind a buffer state.
UOp memory_of(const UOp& state) { return state.op() == Op::After ? state.src(0) : state; }

int version_of(const UOp& state) {
  return state.op() == Op::After ? std::stoi(*state.src(1).arg_as<TextArg>().text) : 0;
}

class BodyMaker {
 public:
  explicit BodyMaker(DraftKernel::Access written) {
    out_.writes.push_back(written);
    slot_of(written.buffer);
  }

  DraftKernel make(const UOp& effect, const std::vector<UOp>& loops) {
    if (as_copy(effect)) return std::move(out_);
    Rebuilt done;
    const UOp flat = done.walk(toposort(effect), [&](const UOp& u) {
      if (u.op() == Op::Load) read_state(u.src(0).src(0));
      const UOp v = done.over_sources(u);
      return u.op() == Op::Index && is_memory(u.src(0)) ? flat_access(u.src(0), v.srcs().subspan(1)) : v;
    });
    finish(flat, loops);
    return std::move(out_);
  }

 private:
  static bool is_memory(const UOp& u) {
    return u.op() == Op::Buffer || u.op() == Op::Param || u.op() == Op::After;
  }

  // What the state waits for is no buffer of this kernel.
  void read_state(const UOp& state) {
    out_.reads.push_back({memory_of(state), version_of(state)});
    if (state.op() != Op::After) return;
    for (const UOp& other : state.srcs().subspan(2))
      out_.reads.push_back({memory_of(other), version_of(other)});
  }

  int slot_of(const UOp& buffer) {
    auto& bufs = out_.kernels[0].buffers;
    const auto it = std::find(bufs.begin(), bufs.end(), buffer);
    if (it != bufs.end()) return static_cast<int>(it - bufs.begin());
    if (bufs.empty())
      out_.kernels[0].device = buffer.device();
    else if (buffer.device() != out_.kernels[0].device)
      user_runtime_error("all buffers must be on the same device: [{}, {}]", out_.kernels[0].device,
                         buffer.device());
    bufs.push_back(buffer);
    return static_cast<int>(bufs.size()) - 1;
  }

  // A Store of Copy(load of another device's buffer) at the same element moves whole buffers.
  bool as_copy(const UOp& effect) {
    const UOp& value = effect.src(1);
    if (value.op() != Op::Copy) return false;
    const UOp& from = value.src(0);
    CHECK(from.op() == Op::Load, "Copy of a value that is not in memory");
    const UOp buffer = memory_of(from.src(0).src(0));
    read_state(from.src(0).src(0));
    out_.kernels[0].device = effect.src(0).src(0).device();
    out_.kernels[0].buffers.push_back(buffer);
    return true;
  }

  UOp flat_access(const UOp& state, std::span<const UOp> coordinates) {
    const UOp buffer = memory_of(state);
    const int slot = slot_of(buffer);
    const UOp p = param(slot, {prod(buffer.shape())}, buffer.dtype());
    return index(p, simplify(flat_index(coordinates, buffer.shape())));
  }

  void finish(const UOp& effect, const std::vector<UOp>& loops) {
    const UOp simple = graph_rewrite(effect, symbolic_rules(), {.name = "simplify effect"});
    std::vector<UOp> order = loops;
    for (const UOp& u : toposort(simple))
      if (u.op() == Op::Range && std::find(order.begin(), order.end(), u) == order.end()) order.push_back(u);
    std::vector<std::pair<UOp, UOp>> renumber;
    for (size_t i = 0; i < order.size(); i++)
      renumber.emplace_back(order[i], range(order[i].src(0), static_cast<int>(i), order[i].range().type));
    SmallVec<UOp, 8> closed{substitute(simple, renumber)};
    for (size_t i = 0; i < loops.size(); i++) closed.push_back(renumber[i].second);
    const UOp body =
        loops.empty() ? closed[0] : UOp::make(Op::End, DType::Void, {closed.data(), closed.size()});
    out_.kernels[0].body = sink(std::span<const UOp>(&body, 1), std::make_shared<const KernelArg>());
  }

  DraftKernel out_{std::vector<ScheduledKernel>(1), {}, {}};
};

}  // namespace

DraftKernel make_kernel(const UOp& effect, const std::vector<UOp>& loops, DraftKernel::Access written) {
  return BodyMaker(std::move(written)).make(effect, loops);
}

}  // namespace lathe
