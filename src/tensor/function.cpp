#include "tensor/function.h"

#include "tensor/pending.h"
#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/state.h"
#include "tensor/view.h"
#include "uop/variable.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

// What stands for an argument: of its shape, dtype and device, which is `home` for constants.
UOp stand_in(const Tensor& t, size_t slot, const std::string& home) {
  return param(static_cast<int>(slot), t.shape(), strong(t.dtype()), t.device().empty() ? home : t.device());
}
// In a trace stand-ins are those of no other trace.
size_t new_slot() {
  return static_cast<size_t>(new_buffer({}, DType::Bool, "", AddrSpace::Reg).param().slot);
}

CallArg call_arg(const FunctionOptions& options) {
  CallArg arg{.name = options.name, .precompile = options.precompile, .recompute = options.recompute};
  if (!options.gradient) return arg;
  set_gradient(arg, [f = options.gradient](const UOp& call, const std::vector<UOp>& grads) {
    std::vector<Tensor> in, arguments;
    for (const UOp& g : grads) in.emplace_back(g);
    for (const UOp& a : call.srcs().subspan(1)) arguments.emplace_back(a);
    std::vector<UOp> out;
    for (const auto& g : f(in, arguments)) out.push_back(g ? g->uop() : UOp());
    // Memory from outside is behind the arguments.
    if (out.size() < arguments.size()) out.resize(arguments.size());
    return out;
  });
  return arg;
}

// The tensors there are before a trace, and the memory they look at.
class Outside {
 public:
  Outside() : states_(LiveTensors::instance().all()) {
    std::vector<UOp> nodes;
    for (const LiveTensor& s : states_) {
      nodes.push_back(s.uop);
      if (!s->is_stale && is_lazy(s.uop) && !is_storage(view_base(s.uop)))
        lazy_.emplace(s.uop.node(), s.state);
    }
    for (const UOp& u : toposort(sink(nodes)))
      if (is_storage(u)) memory_.insert(u.node());
  }
  // What was there, and what came from the host since.
  bool has(const UOp& u) const {
    return memory_.count(u.node()) || lazy_.count(u.node()) ||
           (u.op() == Op::Buffer && u.param().store->storage);
  }
  // A value that is not computed yet is that of its tensor, whatever that holds at a call.
  Tensor tensor(const UOp& u) const {
    const auto it = lazy_.find(u.node());
    return it == lazy_.end() ? Tensor(u) : TensorState::handle(it->second);
  }
  // Memory of outside that tensors say was assigned, with its last states; all tensors are as before again.
  std::vector<std::pair<UOp, UOp>> undo_assignments() const {
    std::vector<std::pair<UOp, UOp>> out;
    for (const LiveTensor& s : LiveTensors::instance().all()) {
      const UOp last = view_base(s.uop);
      UOp known = last;
      while (known.op() == Op::After && !has(known)) known = known.src(0);
      if (known == last || !has(known)) continue;
      if (std::ranges::find(out, known, &std::pair<UOp, UOp>::first) == out.end())
        out.emplace_back(known, last);
      LiveTensors::instance().set(*s.state, substitute(s.uop, {{last, known}}));
    }
    return out;
  }
  // Undoes the rest; tells whether there was any.
  bool restore() const {
    bool any = false;
    for (const LiveTensor& s : states_) {
      if (s->uop == s.uop) continue;
      any = true;
      LiveTensors::instance().set(*s.state, s.uop);
    }
    return any;
  }

 private:
  std::vector<LiveTensor> states_;
  MemoryNodes memory_;
  std::unordered_map<const Node*, std::shared_ptr<TensorState>> lazy_;
};

}  // namespace

FunctionState::FunctionState(FunctionOptions options)
    : options_(std::move(options)), arg_(call_arg(options_)) {}

const FunctionState::Traced& FunctionState::traced(
    const std::vector<Tensor>& arguments,
    FunctionRef<std::vector<Tensor>(const std::vector<Tensor>&, std::any& shape)> function) {
  std::string home;  // of constants that have to be in memory
  if (options_.precompile)
    for (const Tensor& t : arguments) home = home.empty() ? t.device() : home;
  std::vector<UOp> params;
  for (const Tensor& t : arguments) params.push_back(stand_in(t, params.size(), home));
  for (const auto& known : all_)
    if (known->params == params) return *known;
  auto made = std::make_unique<Traced>();
  made->params = params;
  const Outside outside;
  std::vector<Tensor> stand_ins;
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t i = 0; i < params.size(); i++) {
    stand_ins.emplace_back(stand_in(arguments[i], new_slot(), home));
    map.emplace_back(stand_ins[i].uop(), params[i]);
  }
  std::vector<UOp> values;
  try {
    const FunctionTrace trace(options_.name);
    for (const Tensor& t : function(stand_ins, made->shape))
      values.push_back(promote(t.uop(), strong(t.dtype())));
  } catch (...) {
    outside.undo_assignments();
    outside.restore();
    throw;
  }
  const std::vector<std::pair<UOp, UOp>> assigned = outside.undo_assignments();
  const bool changes = outside.restore();
  for (const auto& [memory, last] : assigned) {
    made->assigned.emplace_back(memory);
    values.push_back(last);
  }
  toposort(sink(values), [&](const UOp& u) {
    if (!outside.has(u)) return true;
    made->implicit.push_back(outside.tensor(u));
    UOp here = stand_in(made->implicit.back(), map.size(), home);
    // It is assigned in a copy.
    if (std::ranges::find(assigned, u, &std::pair<UOp, UOp>::first) != assigned.end())
      here = stored(here, u.device());
    map.emplace_back(u, here);
    return false;
  });
  made->body = substitute(sink(values), map);
  for (const UOp& u : toposort(made->body))
    if (changes || (u.op() == Op::After && !is_bound_variable(u) && storage_root(u).op() == Op::Param))
      user_runtime_error(
          "function {} assigns to an argument, or to a tensor from outside that has no memory: return the "
          "value",
          options_.name);
  if (!made->implicit.empty() && !options_.allow_implicit)
    user_runtime_error("function {} has {} implicit buffer(s), but allow_implicit=false", options_.name,
                       made->implicit.size());
  return *all_.emplace_back(std::move(made));
}

std::vector<Tensor> FunctionState::call(const Traced& traced, const std::vector<Tensor>& arguments) const {
  std::vector<UOp> sources;
  const auto add = [&](const Tensor& t) {
    const Tensor value = t.cast(strong(t.dtype()));
    sources.push_back((options_.recompute ? value.contiguous() : value).uop());
  };
  std::ranges::for_each(arguments, add);
  for (const Tensor& t : traced.implicit) {
    // Before a recomputation it is assigned again.
    const bool moves =
        std::ranges::any_of(traced.assigned, [&](const Tensor& a) { return a.uop() == t.uop(); });
    add(moves && options_.recompute ? t.clone() : t);
  }
  const UOp made = lathe::call(traced.body, sources, arg_);
  std::vector<Tensor> out;
  for (size_t i = 0; i < traced.body.n_srcs(); i++) out.emplace_back(call_result(made, i));
  for (size_t i = traced.assigned.size(); i-- > 0; out.pop_back())
    Tensor(traced.assigned[i]).assign(out.back());
  return out;
}

}  // namespace lathe
