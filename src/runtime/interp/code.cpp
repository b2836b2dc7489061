#include "runtime/interp/code.h"

#include "renderer/program.h"
#include "renderer/renderer.h"

#include <unordered_map>

namespace lathe::interp {
namespace {

class Resolver {
 public:
  Resolver(const std::string& name, std::span<const UOp> linear) : linear_(linear) { out_.name = name; }

  Resolved run() {
    const Signature signature = signature_of(linear_);
    refuse_work_groups(signature, "interpreter");
    for (const UOp& u : signature.buffers) add_memory(u, false);
    out_.n_params = static_cast<int>(signature.buffers.size());
    for (const UOp& u : signature.variables) {
      variable_[u.node()] = static_cast<int32_t>(out_.variables.size());
      out_.variables.push_back(u.param().name);
    }
    for (const UOp& u : linear_) write_node(*this, u);
    CHECK(open_.empty(), "{}: {} is never closed", out_.name, open_.back().first.op());
    return std::move(out_);
  }

  // Statements, for write_node.
  void leaf(const UOp& u) {
    if (u.is_const()) return constant(u);
    if (u.op() == Op::Special)
      add_value(StepKind::CoreId, u);
    else if (const auto it = variable_.find(u.node()); it != variable_.end())
      add_value(StepKind::Variable, u).index = it->second;
  }
  void buffer(const UOp& u) { add_memory(u, true); }
  void barrier() {}

  void range(const UOp& u) {
    add_value(StepKind::OpenLoop, u, {operand(u.src(0))});
    open(u);
  }
  void end(const UOp& u) {
    const int32_t opened = close(u.src(1), u);
    add_step(StepKind::CloseLoop, u).jump = opened;
    out_.steps[static_cast<size_t>(opened)].jump = next_step();
  }
  void open_if(const UOp& u) {
    CHECK(lanes_of(u.src(0)) == 0, "{}: If on a vector", out_.name);
    add_step(StepKind::Skip, u, {operand(u.src(0))});
    open(u);
  }
  void end_if(const UOp& u) {
    const int32_t opened = close(u.src(0), u);
    out_.steps[static_cast<size_t>(opened)].jump = next_step();
  }

  // Sizes of shapes are Stacks too; nothing reads their lanes.
  void stack(const UOp& u) {
    SmallVec<Operand, 3> lanes;
    for (const UOp& lane : u.srcs()) {
      CHECK(lanes_of(lane) == 0, "{}: a Stack of vectors", out_.name);
      lanes.push_back(operand(lane));
    }
    const auto n = static_cast<int32_t>(lanes.size());
    const int32_t at = reserve(u, n);
    Step& step = add_step(StepKind::Gather, u, std::move(lanes));
    step.at = at;
    step.lanes = n;
  }

  void pick(const UOp& u) {
    const std::optional<std::vector<int64_t>> picked = picked_lanes(u);
    CHECK(picked, "{}: a lane that is not constant", out_.name);
    const Operand from = operand(u.src(0));
    SmallVec<Operand, 3> lanes;
    for (int64_t lane : *picked) lanes.push_back({from.at + static_cast<int32_t>(lane), 0});
    add_value(StepKind::Gather, u, std::move(lanes));
  }

  void load(const UOp& u) { access(u, StepKind::Load); }
  void store(const UOp& u) { access(u, StepKind::Store); }
  void cast(const UOp& u) { add_value(StepKind::Cast, u, {operand(u.src(0))}); }
  void bitcast(const UOp& u) { add_value(StepKind::Bitcast, u, {operand(u.src(0))}).from = u.src(0).dtype(); }
  void alu(const UOp& u) {
    if (u.op() == Op::Dot) return dot(u);
    CHECK(is_alu(u.op()), "{}: {} has no place in a linear program", out_.name, u.op());
    SmallVec<Operand, 3> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(operand(s));
    add_value(StepKind::Alu, u, std::move(srcs));
  }

 private:
  // Its operands get a group of lanes for each lane of the result.
  void dot(const UOp& u) {
    const int64_t group = 32 / bit_width(u.src(1).dtype()), n = std::max<int64_t>(lanes_of(u), 1);
    SmallVec<Operand, 3> srcs{operand(u.src(0))};
    for (const UOp& s : u.srcs().subspan(1)) {
      const Operand from = operand(s);
      const auto wrap = static_cast<int32_t>(std::max<int64_t>(lanes_of(s), 1));
      Step gather{};
      gather.kind = StepKind::Gather;
      gather.lanes = static_cast<int32_t>(n * group);
      gather.at = static_cast<int32_t>(out_.values.size());
      out_.values.resize(out_.values.size() + static_cast<size_t>(gather.lanes));
      for (int32_t i = 0; i < gather.lanes; i++) gather.srcs.push_back({from.at + i % wrap, 0});
      srcs.push_back({gather.at, 1});
      out_.steps.push_back(std::move(gather));
    }
    add_value(StepKind::Dot, u, std::move(srcs)).from = u.src(1).dtype();
  }

  void add_memory(const UOp& u, bool is_scratch) {
    const bool known = u.has_shape() && u.ndim() == 1 && u.shape()[0].is_const();
    CHECK(known || !is_scratch, "{}: scratch of unknown size", out_.name);
    memory_[u.node()] = static_cast<int32_t>(out_.memories.size());
    out_.memories.push_back({u.param().dtype, u.param().slot, known ? element_count(u) : -1, is_scratch});
  }

  // Lanes of the table, 1 for a scalar.
  int32_t reserve(const UOp& u, int32_t lanes) {
    const auto at = static_cast<int32_t>(out_.values.size());
    out_.values.resize(out_.values.size() + static_cast<size_t>(lanes));
    place_[u.node()] = {at, u.has_shape() && u.ndim() > 0 ? 1 : 0};
    return at;
  }

  Operand operand(const UOp& u) {
    const UOp& x = strip_after(u);
    auto found = place_.find(x.node());
    if (found != place_.end()) return found->second;
    CHECK(x.is_const(), "{}: {} is used before it is computed", out_.name, x.op());
    constant(x);
    return place_.at(x.node());
  }

  void constant(const UOp& u) {
    if (!place_.contains(u.node())) out_.values[static_cast<size_t>(reserve(u, 1))] = u.value();
  }

  int32_t next_step() const { return static_cast<int32_t>(out_.steps.size()); }

  Step& add_step(StepKind kind, const UOp& u, SmallVec<Operand, 3> srcs = {}) {
    Step step{};
    step.kind = kind;
    step.op = u.op();
    step.dtype = u.dtype();
    step.srcs = std::move(srcs);
    out_.steps.push_back(std::move(step));
    return out_.steps.back();
  }

  // A step whose result is the value of `u`.
  Step& add_value(StepKind kind, const UOp& u, SmallVec<Operand, 3> srcs = {}) {
    const auto lanes = static_cast<int32_t>(std::max<int64_t>(lanes_of(u), 1));
    const int32_t at = reserve(u, lanes);
    Step& step = add_step(kind, u, std::move(srcs));
    step.at = at;
    step.lanes = lanes;
    return step;
  }

  // `u` was the last step.
  void open(const UOp& u) { open_.emplace_back(u, next_step() - 1); }
  // The step that opened the region.
  int32_t close(const UOp& opened, const UOp& by) {
    CHECK(!open_.empty() && open_.back().first == opened, "{}: {} does not close the innermost open region",
          out_.name, by.op());
    const int32_t step = open_.back().second;
    open_.pop_back();
    return step;
  }

  void access(const UOp& u, StepKind kind) {
    const Access a = access_of(u);
    const auto operand_or_none = [&](const UOp& x) { return x ? operand(x) : Operand{}; };
    SmallVec<Operand, 3> srcs{operand(a.at.index), operand_or_none(a.value), operand_or_none(a.gate)};
    auto memory = memory_.find(a.at.buffer.node());
    CHECK(memory != memory_.end(), "{}: memory is used before it is declared", out_.name);
    Step& step =
        kind == StepKind::Load ? add_value(kind, u, std::move(srcs)) : add_step(kind, u, std::move(srcs));
    step.dtype = out_.memories[static_cast<size_t>(memory->second)].dtype;
    step.lanes = static_cast<int32_t>(std::max<int64_t>(a.at.lanes, 1));
    step.index = memory->second;
    step.is_scattered = a.at.scattered;
    step.has_gate = static_cast<bool>(a.gate);
  }

  std::span<const UOp> linear_;
  Resolved out_;
  std::unordered_map<const Node*, Operand> place_;
  std::unordered_map<const Node*, int32_t> memory_;
  std::unordered_map<const Node*, int32_t> variable_;
  std::vector<std::pair<UOp, int32_t>> open_;  // Ranges and Ifs with their steps, innermost last
};

}  // namespace

Resolved resolve(const std::string& name, std::span<const UOp> linear) {
  return Resolver(name, linear).run();
}

}  // namespace lathe::interp
