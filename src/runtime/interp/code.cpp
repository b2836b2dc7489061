#include "runtime/interp/code.h"

#include "renderer/program.h"
#include "renderer/renderer.h"
#include "uop/image.h"

#include <unordered_map>

namespace lathe::interp {
namespace {

class Resolver {
 public:
  Resolver(const std::string& name, std::span<const UOp> linear) : linear_(linear) { out_.name = name; }

  Resolved run() {
    const Signature signature = signature_of(linear_);
    for (const UOp& u : signature.buffers) add_memory(u, false);
    out_.n_params = static_cast<int>(signature.buffers.size());
    for (const UOp& u : signature.variables) {
      variable_[u.node()] = static_cast<int32_t>(out_.variables.size());
      out_.variables.push_back(u.param().name);
    }
    for (const UOp& u : linear_) node(u);
    CHECK(open_.empty(), "{}: {} is never closed", out_.name, op_name(open_.back().op()));
    return std::move(out_);
  }

 private:
  void add_memory(const UOp& u, bool is_scratch) {
    const bool known = is_image(u) || (u.has_shape() && u.ndim() == 1 && u.shape()[0].is_const());
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
    CHECK(x.is_const(), "{}: {} is used before it is computed", out_.name, op_name(x.op()));
    constant(x);
    return place_.at(x.node());
  }

  void constant(const UOp& u) {
    if (!place_.contains(u.node())) out_.values[static_cast<size_t>(reserve(u, 1))] = u.value();
  }

  Step& add_step(StepKind kind, const UOp& u) {
    Step step{};
    step.kind = kind;
    step.op = u.op();
    step.dtype = u.dtype();
    out_.steps.push_back(std::move(step));
    return out_.steps.back();
  }

  // A step whose result is the value of `u`.
  Step& add_value(StepKind kind, const UOp& u) {
    const auto lanes = static_cast<int32_t>(std::max<int64_t>(lanes_of(u), 1));
    const int32_t at = reserve(u, lanes);
    Step& step = add_step(kind, u);
    step.at = at;
    step.lanes = lanes;
    return step;
  }

  void node(const UOp& u) {
    switch (u.op()) {
      case Op::Param: return parameter(u);
      case Op::Buffer: return add_memory(u, true);
      case Op::Const: return constant(u);
      case Op::Special: add_value(StepKind::CoreId, u); return;
      case Op::Range: return open_loop(u);
      case Op::End: return close_loop(u);
      case Op::If: return open_if(u);
      case Op::EndIf: return close_if(u);
      case Op::Stack: return gather_stack(u);
      case Op::Index:
        if (!is_memory(u.src(0))) gather_lanes(u);
        return;
      case Op::Shrink: CHECK(is_address(u), "{}: Shrink of a value", out_.name); return;
      case Op::Load: return access(u, StepKind::Load);
      case Op::Store: return access(u, StepKind::Store);
      case Op::Cast: return convert(u, StepKind::Cast);
      case Op::Bitcast: return convert(u, StepKind::Bitcast);
      case Op::After:
      case Op::Group:
      case Op::Noop:
      case Op::Barrier:
      case Op::Sink: return;
      default: return alu(u);
    }
  }

  void parameter(const UOp& u) {
    if (u.param().space == AddrSpace::Alu) add_value(StepKind::Variable, u).index = variable_.at(u.node());
  }

  void open_loop(const UOp& u) {
    const Operand end = operand(u.src(0));
    loop_[u.node()] = static_cast<int32_t>(out_.steps.size());
    add_value(StepKind::OpenLoop, u).srcs.push_back(end);
    open_.push_back(u);
  }

  void close_loop(const UOp& u) {
    CHECK(u.n_srcs() == 2, "{}: an End of {} loops", out_.name, static_cast<int64_t>(u.n_srcs()) - 1);
    close(u.src(1), u);
    Step& step = add_step(StepKind::CloseLoop, u);
    step.jump = loop_.at(u.src(1).node());
    out_.steps[static_cast<size_t>(step.jump)].jump = static_cast<int32_t>(out_.steps.size());
  }

  void open_if(const UOp& u) {
    const Operand condition = operand(u.src(0));
    CHECK(lanes_of(u.src(0)) == 0, "{}: If on a vector", out_.name);
    loop_[u.node()] = static_cast<int32_t>(out_.steps.size());
    add_step(StepKind::Skip, u).srcs.push_back(condition);
    open_.push_back(u);
  }

  void close_if(const UOp& u) {
    close(u.src(0), u);
    out_.steps[static_cast<size_t>(loop_.at(u.src(0).node()))].jump = static_cast<int32_t>(out_.steps.size());
  }

  void close(const UOp& opened, const UOp& by) {
    CHECK(!open_.empty() && open_.back() == opened, "{}: {} does not close the innermost open region",
          out_.name, op_name(by.op()));
    open_.pop_back();
  }

  void gather_stack(const UOp& u) {
    // Sizes of shapes are Stacks too; nothing reads their lanes.
    SmallVec<Operand, 3> lanes;
    for (const UOp& lane : u.srcs()) {
      CHECK(lanes_of(lane) == 0, "{}: a Stack of vectors", out_.name);
      lanes.push_back(operand(lane));
    }
    const int32_t at = reserve(u, static_cast<int32_t>(lanes.size()));
    Step& step = add_step(StepKind::Gather, u);
    step.at = at;
    step.lanes = static_cast<int32_t>(lanes.size());
    step.srcs = std::move(lanes);
  }

  void gather_lanes(const UOp& u) {
    const std::optional<std::vector<int64_t>> picked = picked_lanes(u);
    CHECK(picked, "{}: a lane that is not constant", out_.name);
    const Operand from = operand(u.src(0));
    Step& step = add_value(StepKind::Gather, u);
    for (int64_t lane : *picked) step.srcs.push_back({from.at + static_cast<int32_t>(lane), 0});
  }

  void access(const UOp& u, StepKind kind) {
    const Access a = access_of(u);
    const Operand index = operand(a.at.index);
    const Operand row = a.at.row ? operand(a.at.row) : Operand{};
    const Operand value = a.value ? operand(a.value) : Operand{};
    const Operand gate = a.gate ? operand(a.gate) : Operand{};
    auto memory = memory_.find(a.at.buffer.node());
    CHECK(memory != memory_.end(), "{}: memory is used before it is declared", out_.name);
    Step& step = kind == StepKind::Load ? add_value(kind, u) : add_step(kind, u);
    step.dtype = out_.memories[static_cast<size_t>(memory->second)].dtype;
    step.lanes = static_cast<int32_t>(std::max<int64_t>(a.at.lanes, 1));
    step.index = memory->second;
    step.is_scattered = a.at.scattered;
    step.has_gate = static_cast<bool>(a.gate);
    step.srcs = {index, value, gate};
    if (!a.at.row) return;
    step.srcs.push_back(row);
    step.height = a.at.buffer.shape()[0].value();
    step.width = a.at.buffer.shape()[1].value();
  }

  void convert(const UOp& u, StepKind kind) {
    const Operand from = operand(u.src(0));
    Step& step = add_value(kind, u);
    step.from = u.src(0).dtype();
    step.srcs.push_back(from);
  }

  void alu(const UOp& u) {
    CHECK(is_alu(u.op()), "{}: {} has no place in a linear program", out_.name, op_name(u.op()));
    SmallVec<Operand, 3> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(operand(s));
    add_value(StepKind::Alu, u).srcs = std::move(srcs);
  }

  std::span<const UOp> linear_;
  Resolved out_;
  std::unordered_map<const Node*, Operand> place_;
  std::unordered_map<const Node*, int32_t> memory_;
  std::unordered_map<const Node*, int32_t> variable_;
  std::unordered_map<const Node*, int32_t> loop_;  // Range, If: their step
  std::vector<UOp> open_;                          // Ranges and Ifs, innermost last
};

}  // namespace

Resolved resolve(const std::string& name, std::span<const UOp> linear) {
  return Resolver(name, linear).run();
}

}  // namespace lathe::interp
