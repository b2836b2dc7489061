#include "tensor/jit.h"

#include "base/knobs.h"
#include "base/log.h"
#include "engine/graph.h"
#include "tensor/pending.h"
#include "tensor/promote.h"
#include "tensor/state.h"
#include "tensor/view.h"

#include <algorithm>
#include <atomic>
#include <iterator>

namespace lathe {
namespace {

// The Buffers that a value is a view of, one a device; none where it has no memory.
std::vector<UOp> memory_below(const Tensor& t) {
  const UOp base = view_base(t.uop());
  return is_in_memory(base) ? storage_parts(base) : std::vector<UOp>();
}

// Realised inputs, each over memory of its own.
void check_inputs(const std::vector<Tensor>& inputs) {
  std::unordered_map<const Node*, size_t> seen;
  for (size_t i = 0; i < inputs.size(); i++) {
    const std::vector<UOp> memory = memory_below(inputs[i]);
    if (memory.empty())
      user_runtime_error("JIT inputs must be real buffers; input {} of shape {} has no memory, use .clone()",
                         i, inputs[i].shape());
    for (const UOp& b : memory) {
      const auto [first, is_new] = seen.emplace(b.node(), i);
      if (!is_new)
        user_runtime_error("duplicate inputs to JIT: inputs {} and {} share memory, use .clone()",
                           first->second, i);
    }
  }
}

using Pairs = std::vector<std::pair<UOp, UOp>>;

// Buffers and the Params that stand for them, numbered from `first` on.
Pairs params_for(std::span<const UOp> buffers, size_t first = 0) {
  Pairs out;
  for (const UOp& b : buffers)
    out.emplace_back(b, param(static_cast<int>(first++), b.shape(), b.dtype(), b.device()));
  return out;
}

// A view with Params, numbered from `first` on, instead of its memory; what its variables are bound to goes
// to `values`.
UOp signature(const Tensor& t, size_t first, VariableValues& values) {
  return take_values(substitute(t.uop(), params_for(memory_below(t), first)), values);
}

// "(8, 4) Shrink from (2, 0) to (4, 4) Permute to (4, 4)"
std::string view_text(const UOp& view) {
  std::string out;
  for (UOp u = view; !(u == view_base(view)); u = u.src(0)) {
    const std::string from = u.op() == Op::Shrink ? " from " + to_string(shape_from_node(u.src(1))) : "";
    out = fmt::format(" {}{} to {}{}", u.op(), from, u.shape(), out);
  }
  return to_string(view_base(view).shape()) + out;
}

void check_signature(const Tensor& t, const UOp& expected, size_t i, size_t first, VariableValues& values) {
  const bool is_whole = t.uop().op() == Op::Buffer;
  const UOp u = is_whole ? t.uop() : signature(t, first, values);
  const auto refuse = [&](std::string_view what, const std::string& got, const std::string& wanted) {
    user_runtime_error("args mismatch in JIT: input {} has {} {}, it was captured with {}", i, what, got,
                       wanted);
  };
  if (!(u.shape() == expected.shape())) refuse("shape", to_string(u.shape()), to_string(expected.shape()));
  if (u.dtype() != expected.dtype()) refuse("dtype", dtype_text(u.dtype()), dtype_text(expected.dtype()));
  if (u.device() != expected.device()) refuse("device", u.device(), expected.device());
  if (is_whole ? expected.op() != Op::Param : !(u == expected))
    refuse("the view", view_text(u), view_text(expected) + "; clone() makes a whole of it");
}

// Buffers that something other than `but` looks at.
MemoryNodes looked_at(const std::vector<Tensor>& but) {
  MemoryNodes out;
  std::vector<UOp> nodes;
  for (const auto& s : LiveTensors::instance().all())
    if (!s->is_stale &&
        std::ranges::none_of(but, [&](const Tensor& t) { return TensorState::of(t) == s.state; }))
      nodes.push_back(s.uop);
  for (const UOp& u : toposort(sink(nodes)))
    if (u.op() == Op::Buffer) out.insert(u.node());
  return out;
}

MemoryNodes written_memory(const Recording& recording) {
  MemoryNodes out;
  for (const Launch& l : recording.launches())
    for (const UOp& b : l.written()) out.insert(b.node());
  return out;
}

// What all tensors stand for, to go back to.
class SavedTensors {
 public:
  SavedTensors() {
    for (const auto& s : LiveTensors::instance().all())
      states_.push_back({s.state, s.uop, s->grad, s->is_stale});
  }
  // After a recording that will not run. Tensors made since, over memory as it would have left it, are lost.
  void restore(const Recording& recording) const {
    LiveTensors& live = LiveTensors::instance();
    std::unordered_set<const TensorState*> old;
    for (const Saved& saved : states_) {
      const auto s = saved.state.lock();
      if (!s) continue;
      old.insert(s.get());
      if (!(s->uop == saved.uop)) live.set(*s, saved.uop);
      s->grad = saved.grad;
      s->is_stale = saved.is_stale;
    }
    const MemoryNodes written = written_memory(recording);
    for (const auto& s : live.all()) {
      if (old.count(s.state.get())) continue;
      for (const UOp& u : toposort(s.uop))
        if (u.op() == Op::Buffer && (recording.made(u) || written.count(u.node()))) s->is_stale = true;
    }
  }

 private:
  struct Saved {
    std::weak_ptr<TensorState> state;  // the function may drop it
    UOp uop;
    std::shared_ptr<TensorState> grad;
    bool is_stale;
  };
  std::vector<Saved> states_;
};

// Runs what was lazy before the recording and reads memory that it writes.
void run_older_readers(const Recording& recording) {
  run_pending({}, written_memory(recording), 0, recording.mark());
}

// RuntimeError where the function bound a Variable of the arguments or of a result to another value: a replay
// has one.
void check_values(const Recording& recording, const std::vector<Tensor>& outputs, VariableValues values) {
  for (const Tensor& t : outputs) take_values(t.uop(), values);
  for (const Launch& l : recording.launches())
    for (size_t i = 0; i < l.vars.size(); i++) {
      const auto it = values.find(l.kernel->variables[i]);
      if (it != values.end() && it->second != l.vars[i])
        user_runtime_error("bind mismatch on {}, {} != {}: an argument has one value in a capture", it->first,
                           it->second, l.vars[i]);
    }
}

}  // namespace

// Of a call, without values.
struct JitState::Expected {
  std::vector<UOp> inputs;  // over Params
  UOp variables;            // a Stack of those among the arguments, null where there are none
  VariableValues values;    // of the last call
};

struct JitState::Captured {
  Expected expected;
  std::vector<UOp> outputs;  // over Params: inputs, then what the graph makes; without values
  Graph graph;
  std::vector<std::shared_ptr<Buffer>> results;  // of the last call
  MemoryNodes used, written;                     // of what stays from call to call
  uint64_t checked;                              // lazy values up to this number do not concern the graph
};

JitState::JitState() = default;
JitState::~JitState() = default;
JitState::JitState(JitState&&) noexcept = default;
JitState& JitState::operator=(JitState&&) noexcept = default;

std::optional<std::vector<Tensor>> JitState::call(const std::vector<Tensor>& inputs,
                                                  const std::vector<UOp>& variables,
                                                  FunctionRef<std::vector<Tensor>()> function) {
  if (!knob(Knob::JIT) || Recording::open()) {
    function();
    return std::nullopt;
  }
  Tensor::realize(inputs);
  check_inputs(inputs);
  const UOp given = variables.empty() ? UOp() : stack(variables);
  if (captured_) return replay(inputs, given);
  if (has_run_) {
    capture(inputs, given, function);
  } else {
    run(pending_writes(0));  // those of a call that failed may have other values of the same Variables
    Tensor::realize(function());
  }
  has_run_ = true;
  return std::nullopt;
}

void JitState::capture(const std::vector<Tensor>& inputs, const UOp& given,
                       FunctionRef<std::vector<Tensor>()> function) {
  Expected expected;
  if (given) expected.variables = take_values(given, expected.values);
  size_t first = 0;
  for (const Tensor& t : inputs) {
    expected.inputs.push_back(signature(t, first, expected.values));
    first += memory_below(t).size();
  }
  run(pending_writes(0));
  LiveTensors& live = LiveTensors::instance();
  const SavedTensors before;
  Recording recording(live.last_lazy_number());
  std::vector<Tensor> outputs;
  try {
    outputs = function();
    std::vector<UOp> roots = pending_writes(recording.mark());
    for (const Tensor& t : outputs) roots.push_back(t.uop());
    run(std::move(roots));
    if (recording.launches().empty() && outputs.empty())
      user_runtime_error(
          "didn't JIT anything! No kernel ran: return what the function computes, or realize it");
    check_values(recording, outputs, expected.values);
  } catch (...) {
    recording.close();
    try {
      run_older_readers(recording);
      recording.run();
    } catch (...) {
      before.restore(recording);
    }
    throw;
  }
  recording.close();
  try {
    run_captured(recording, inputs, outputs, std::move(expected));
  } catch (...) {
    before.restore(recording);
    throw;
  }
}

void JitState::run_captured(const Recording& recording, const std::vector<Tensor>& inputs,
                            const std::vector<Tensor>& outputs, Expected expected) {
  std::vector<UOp> bases, results;
  for (const Tensor& t : inputs) std::ranges::copy(memory_below(t), std::back_inserter(bases));
  const size_t n_inputs = bases.size();
  for (const Tensor& t : outputs) std::ranges::copy(memory_below(t), std::back_inserter(results));
  Captured c{std::move(expected), {}, Graph(recording, bases, results, looked_at(outputs)), {}, {}, {}, 0};
  bases.insert(bases.end(), results.begin(), results.end());
  const Pairs params = params_for(bases);
  for (const Tensor& t : outputs)
    c.outputs.push_back(take_values(substitute(t.uop(), params), c.expected.values));
  for (const UOp& b : c.graph.fixed()) {
    c.used.insert(b.node());
    if (c.graph.writes(b)) c.written.insert(b.node());
  }
  if (knob(Knob::DEBUG) >= 1) debug_line("captured {}", c.graph.summary());
  run_older_readers(recording);
  std::vector<std::shared_ptr<Buffer>> memory;
  for (const UOp& b : bases) memory.push_back(memory_of(b));
  c.graph.run(memory);
  c.results.assign(memory.begin() + static_cast<std::ptrdiff_t>(n_inputs), memory.end());
  captured_ = std::make_unique<Captured>(std::move(c));
}

std::vector<Tensor> JitState::replay(const std::vector<Tensor>& inputs, const UOp& given) {
  Captured& c = *captured_;
  Expected& expected = c.expected;
  if (inputs.size() != expected.inputs.size())
    user_runtime_error("args mismatch in JIT: {} tensors, it was captured with {}", inputs.size(),
                       expected.inputs.size());
  VariableValues values;
  if (const UOp variables = given ? take_values(given, values) : given; !(variables == expected.variables))
    user_runtime_error("args mismatch in JIT: Variables {}, it was captured with {} and their bounds",
                       variables ? expression(variables) : "{}",
                       expected.variables ? expression(expected.variables) : "{}");
  std::vector<std::shared_ptr<Buffer>> memory;
  std::vector<UOp> bases;
  for (size_t i = 0; i < inputs.size(); i++) {
    check_signature(inputs[i], expected.inputs[i], i, bases.size(), values);
    for (const UOp& b : memory_below(inputs[i])) {
      bases.push_back(b);
      memory.push_back(memory_of(b));
    }
  }
  const uint64_t newest = LiveTensors::instance().last_lazy_number();
  if (c.graph.writes_inputs()) {
    MemoryNodes written = c.written;
    for (const UOp& b : bases) written.insert(b.node());
    run_pending(c.used, written, 0, newest);
  } else if (newest > c.checked) {
    run_pending(c.used, c.written, c.checked, newest);
  }
  c.checked = newest;
  for (size_t i = 0; i < c.results.size(); i++) {
    std::shared_ptr<Buffer>& m = c.results[i];
    if (m.use_count() > 1) m = Buffer::make(m->device(), m->size());
    std::atomic_thread_fence(std::memory_order_acquire);  // after what other threads did with it
    const UOp& like = c.graph.results()[i];
    bases.push_back(new_buffer(like.shape(), like.dtype(), like.device()));
    bases.back().param().store->storage = m;
    memory.push_back(m);
  }
  for (const auto& [name, value] : values) expected.values[name] = value;
  c.graph.run(memory, expected.values);

  Pairs params = params_for(bases);
  for (auto& [buffer, param] : params) std::swap(buffer, param);
  std::vector<Tensor> out;
  for (const UOp& o : c.outputs) out.emplace_back(give_values(substitute(o, params), expected.values));
  return out;
}

void JitState::reset() { *this = JitState(); }
void JitState::free_intermediates() {
  if (captured_) captured_->graph.free_intermediates();
}

}  // namespace lathe
