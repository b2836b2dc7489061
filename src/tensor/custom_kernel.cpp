#include "tensor/custom_kernel.h"

#include "schedule/index_map.h"
#include "schedule/schedule.h"
#include "schedule/shard.h"
#include "tensor/pending.h"
#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/state.h"
#include "tensor/view.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"
#include "uop/spec.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lathe {
namespace {

bool is_argument(const UOp& u) { return u.op() == Op::Param && u.param().space == AddrSpace::Global; }

using Order =
    std::vector<size_t>;  // numbers of arguments, as a Call takes them: those that are written first

// Memory with one axis, and the coordinates of its accesses as positions. Scratch is numbered, so that a
// kernel that is built again is the same kernel; the name keeps it from being that of a pass.
UOp flattened(const UOp& body, const Order& order) {
  Rebuilt done;
  int64_t scratch = 0;
  return done.walk(toposort(body), [&](const UOp& u) {
    if (is_argument(u)) {
      const auto at = std::ranges::find(order, static_cast<size_t>(u.param().slot));
      if (at == order.end()) value_error("a kernel uses argument {} of {}", u.param().slot, order.size());
      return param(static_cast<int>(at - order.begin()), {prod(u.shape())}, u.dtype());
    }
    if (u.op() == Op::Buffer) {
      ParamArg arg = u.param();
      arg.slot = scratch++;
      arg.name = "scratch";
      return UOp::make(Op::Buffer, {shape_node({prod(u.shape())})}, std::make_shared<const ParamArg>(arg));
    }
    if (u.op() != Op::Index || !is_memory(u.src(0))) return done.over_sources(u);
    const Shape& shape = u.src(0).shape();
    if (u.n_srcs() != shape.size() + 1)
      value_error("a kernel indexes memory of shape {} with {} coordinates", shape, u.n_srcs() - 1);
    Coords at;
    for (const UOp& i : u.srcs().subspan(1)) at.push_back(done.of(i));
    return index(done.of(u.src(0)), shape.size() == 1 ? at[0] : simplify(flat_index(at, shape)));
  });
}

// Numbers of the arguments that the body stores to.
std::set<size_t> written_by(const UOp& body) {
  std::set<size_t> out;
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Store) continue;
    const UOp& to = strip_after(strip_after(u.src(0)).src(0));
    if (is_argument(to)) out.insert(static_cast<size_t>(to.param().slot));
  }
  return out;
}

// The device of the arguments.
std::string device_of(const std::vector<Tensor>& arguments) {
  std::string out;
  for (const Tensor& t : arguments) {
    if (t.device().empty()) continue;
    if (!out.empty() && t.device() != out)
      user_runtime_error("all buffers must be on the same device: [{}, {}]", out, t.device());
    out = t.device();
  }
  return out.empty() ? place(out) : out;
}

// The state of memory that `t` shows all of; it gets memory where it has none.
UOp written_state(const Tensor& t, const std::string& device, const std::string& name) {
  if (!is_storage(view_base(t.uop())))
    LiveTensors::instance().set(*TensorState::of(t), stored(t.uop(), device));
  if (is_storage(t.uop())) return t.uop();
  const std::optional<MemoryRun> run = memory_run(t.uop());
  if (!run || !(prod(run->storage.shape()) == t.numel()) || run->storage.dtype() != t.dtype())
    user_runtime_error(
        "the kernel {} writes to a view of memory (shape {}): it has to be all of it, in order", name,
        t.shape());
  return run->storage;
}

UOp read_state(const Tensor& t, const std::string& device) {
  const UOp& u = t.uop();
  if (u.device().empty()) return stored(u, device);
  const std::optional<MemoryRun> run = memory_run(u);
  return is_storage(u) || (run && run->first == 0) ? u : UOp::make(Op::Contiguous, {u});
}

void set_kernel_gradient(CallArg& arg, const std::vector<Tensor>& arguments, const Order& order,
                         const GradientFunction& gradient) {
  std::vector<Shape> shapes;
  for (const Tensor& t : arguments) shapes.push_back(t.shape());
  const auto n_written = static_cast<size_t>(arg.n_written);
  set_gradient(arg, [=](const UOp& call, const std::vector<UOp>& grads) {
    std::vector<Tensor> in, all(shapes.size());
    for (size_t i = 0; i < order.size(); i++) {
      const UOp& s = call.src(i + 1);
      const UOp value = i < n_written ? UOp::make(Op::After, {s, call}) : s;
      all[order[i]] = Tensor(reshape(value, shapes[order[i]]));
      if (i < n_written) in.emplace_back(reshape(grads[i], shapes[order[i]]));
    }
    const std::vector<std::optional<Tensor>> found = gradient(in, all);
    if (found.size() != all.size())
      value_error("the gradient of a kernel has {} parts for {} arguments", found.size(), all.size());
    std::vector<UOp> out(all.size());
    for (size_t i = 0; i < order.size(); i++)
      if (found[order[i]]) out[i] = reshape(found[order[i]]->uop(), call.src(i + 1).shape());
    return out;
  });
}

std::vector<Tensor> run_kernel(const std::vector<Tensor>& arguments, const UOp& body, const Order& order,
                               size_t n_written, const KernelOptions& options) {
  const std::string& name = options.name;
  if (!n_written) value_error("the kernel {} writes to none of its {} arguments", name, order.size());
  const std::string device = device_of(arguments);
  std::vector<UOp> states;
  for (const size_t i : order) {
    const Tensor& t = arguments[i];
    if (is_weak(t.dtype()))
      user_runtime_error("argument {} of the kernel {} is dtypes.{}: cast it", i, name, t.dtype());
    const bool is_written = states.size() < n_written;
    states.push_back(is_written ? written_state(t, device, name) : read_state(t, device));
    for (size_t k = 0; k + 1 < states.size() && k < n_written; k++)
      if (storage_root(states[k]) == storage_root(states.back()))
        user_runtime_error("arguments {} and {} of the kernel {} are one memory, which it writes", order[k],
                           i, name);
  }
  CallArg arg{.name = name, .n_written = static_cast<int32_t>(n_written)};
  if (options.gradient) set_kernel_gradient(arg, arguments, order, options.gradient);
  const UOp made = call(body, states, arg);
  for (size_t i = 0; i < n_written; i++) move_views(states[i], UOp::make(Op::After, {states[i], made}));
  return arguments;
}

// For what one device has of the arguments.
std::vector<UOp> placeholders(const std::vector<Tensor>& arguments) {
  std::vector<UOp> out;
  for (const Tensor& t : arguments) {
    Shape shape = t.ndim() ? t.shape() : Shape{1};
    if (const auto axis = shard_axis(t.uop())) {
      SInt& size = shape[static_cast<size_t>(*axis)];
      size = shard_size(size, split_devices(t.device()).size());
    }
    out.push_back(param(static_cast<int>(out.size()), shape, strong(t.dtype())));
  }
  return out;
}

}  // namespace

std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelFunction& kernel,
                                  const KernelOptions& options) {
  const UOp made = kernel(placeholders(arguments));
  const std::set<size_t> written = written_by(made);
  Order order(written.begin(), written.end());
  for (size_t i = 0; i < arguments.size(); i++)
    if (!written.count(i)) order.push_back(i);
  const UOp effects = flattened(made.op() == Op::Sink ? sink(made.srcs()) : sink({&made, 1}), order);
  KernelArg arg{options.name, {}, options.actions};
  const auto orders = [](const UOp& u) { return u.op() == Op::After || u.op() == Op::Buffer; };
  if (!arg.given && (effects.n_srcs() != 1 || std::ranges::any_of(toposort(effects), orders)))
    arg.given.emplace();
  const UOp body = sink(effects.srcs(), std::make_shared<const KernelArg>(std::move(arg)));
  if (const auto wrong = find_violation(body, SpecLevel::Kernel))
    value_error("the kernel {} is not legal: {}, which a {} breaks", options.name, wrong->rule,
                wrong->node.op());
  return run_kernel(arguments, body, order, written.size(), options);
}

std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelText& kernel,
                                  const KernelOptions& options) {
  if (kernel.source.empty()) value_error("the kernel {} has no source", kernel.entry);
  Order order(arguments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const KernelArg arg{kernel.entry, {}, {}, kernel.source, kernel.is_binary, kernel.n_cores};
  const UOp body = flattened(sink(placeholders(arguments), std::make_shared<const KernelArg>(arg)), order);
  return run_kernel(arguments, body, order, std::min(kernel.n_written, order.size()), options);
}

}  // namespace lathe
