// Running graphs, reading values, writing to memory.
#include "engine/realize.h"

#include "engine/recording.h"
#include "runtime/device.h"
#include "schedule/shard.h"
#include "tensor/pending.h"
#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/state.h"
#include "tensor/view.h"
#include "uop/variable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace lathe {
namespace {

using States = std::vector<LiveTensor>;

void replace_in(const States& states, const std::vector<std::pair<UOp, UOp>>& map) {
  if (map.empty() || states.empty()) return;
  std::vector<UOp> nodes;
  for (const auto& s : states) nodes.push_back(s.uop);
  const UOp after = substitute(sink(nodes), map);
  for (size_t i = 0; i < states.size(); i++)
    if (!(after.src(i) == states[i].uop))
      LiveTensors::instance().set_if(*states[i].state, states[i].uop, after.src(i));
}

// The states of memory that a set of graphs writes: for each Buffer the Afters that no later After builds on.
class Writes {
 public:
  explicit Writes(const UOp& graph) {
    std::unordered_set<const Node*> superseded;
    std::vector<UOp> afters;
    for (const UOp& u : toposort(graph)) {
      if (u.op() != Op::After || !is_storage(u)) continue;
      afters.push_back(u);
      superseded.insert(u.src(0).node());
    }
    for (const UOp& u : afters) {
      if (!superseded.count(u.node())) last_.insert(u.node());
      roots_.insert(storage_root(u).node());
    }
  }
  bool empty() const { return roots_.empty(); }
  // Whether `storage` is a state of memory that the writes leave behind.
  bool overwrites(const UOp& storage) const {
    if (!roots_.count(storage_root(storage).node())) return false;
    for (UOp u = storage; u.op() == Op::After || is_storage(u); u = u.src(0)) {
      if (last_.count(u.node())) return false;
      if (u.op() != Op::After) break;
    }
    return true;
  }
  bool is_last(const UOp& u) const { return last_.count(u.node()) != 0; }

 private:
  std::unordered_set<const Node*> last_, roots_;
};

// Expressions that read memory as it was before `writes`. They have to run in the same go, since afterwards
// their input is gone. Views follow their memory: assign moves them to its new state.
States pending_readers(const States& live, const Writes& writes) {
  States candidates;
  std::vector<UOp> nodes;
  for (const auto& s : live) {
    if (s->is_stale || !is_lazy(s.uop)) continue;
    candidates.push_back(s);
    nodes.push_back(s.uop);
  }
  std::unordered_set<const Node*> readers;
  for (const UOp& u : toposort(sink(nodes), [&](const UOp& u) { return !writes.is_last(u); })) {
    const bool in_place = u.op() == Op::After && is_storage(u);
    for (const UOp& s : u.srcs()) {
      // The target of a Store and the first source of an After name memory; they do not read it.
      if (&s == &u.srcs()[0] && (in_place || u.op() == Op::Store)) continue;
      if (readers.count(s.node()) || (is_storage(s) && writes.overwrites(s))) readers.insert(u.node());
    }
  }
  States out;
  for (const auto& s : candidates)
    if (readers.count(s.uop.node())) out.push_back(s);
  return out;
}

// States of memory that kernels of `graph` leave behind besides those in it: such a kernel runs once.
std::vector<UOp> written_beside(const UOp& graph, const States& live) {
  std::unordered_set<const Node*> calls, inside;
  for (const UOp& u : toposort(graph)) {
    const auto* call = std::get_if<CallPtr>(&u.arg());
    (call && (*call)->n_written > 1 ? calls : inside).insert(u.node());
  }
  std::vector<UOp> nodes, out;
  if (calls.empty()) return out;
  for (const auto& s : live)
    if (!s->is_stale && is_lazy(s.uop)) nodes.push_back(s.uop);
  for (const UOp& u : toposort(sink(nodes)))
    if (u.op() == Op::After && calls.count(u.src(1).node()) && !inside.count(u.node())) out.push_back(u);
  return out;
}

// Everything that has to run so that `roots` may run: grows until no write hides a value that is still
// wanted. Gradients that are not become `lost`.
std::vector<UOp> with_pending_readers(std::vector<UOp> roots, const States& live, States& lost) {
  std::unordered_set<const Node*> known;
  for (const UOp& r : roots) known.insert(r.node());
  for (size_t before = 0; before != roots.size();) {
    before = roots.size();
    const Writes writes(sink(roots));
    if (writes.empty()) break;
    for (UOp& u : written_beside(sink(roots), live)) roots.push_back(std::move(u));
    for (const auto& s : pending_readers(live, writes)) {
      if (s->is_gradient) {
        s->is_stale = true;  // rarely read after the step that used it: an error then, instead of memory now
        lost.push_back(s);
      } else if (known.insert(s.uop.node()).second) {
        roots.push_back(s.uop);
      }
    }
  }
  return roots;
}

// A value without elements is a constant: there is nothing to compute and no memory to hold it.
UOp filled_if_empty(UOp u) {
  for (const SInt& d : u.shape())
    if (d == SInt(0) && !view_base(u).is_const())
      return broadcast_to(is_weak(u.dtype()) ? weak_literal(0, u.dtype()) : constant(u.dtype(), 0),
                          u.shape());
  return u;
}

thread_local const std::string* t_traced = nullptr;  // the name of the function

}  // namespace

FunctionTrace::FunctionTrace(const std::string& name) : outer_(std::exchange(t_traced, &name)) {}
FunctionTrace::~FunctionTrace() { t_traced = outer_; }

std::unique_lock<std::recursive_mutex> lock_tensors() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

void run(std::vector<UOp> roots) {
  std::vector<UOp> needed;
  for (UOp& r : roots)
    if (is_lazy(r) && std::find(needed.begin(), needed.end(), r) == needed.end())
      needed.push_back(is_storage(view_base(r)) ? view_base(r) : std::move(r));
  if (needed.empty()) return;
  if (t_traced)
    user_runtime_error("function {} is traced: values cannot be realized or read inside of it", *t_traced);
  const auto lock = lock_tensors();
  // What was lazy before a recording began is no part of it, unless it is asked for by itself.
  const Recording* recording = Recording::open();
  const auto is_outside = [&](const auto& s) { return recording && s->lazy_number <= recording->mark(); };
  States live = LiveTensors::instance().all();
  States readers, lost;
  std::ranges::copy_if(live, std::back_inserter(readers), [&](const auto& s) { return !is_outside(s); });
  needed = with_pending_readers(std::move(needed), readers, lost);
  std::vector<std::pair<UOp, UOp>> map;
  try {
    for (Becomes& b : lathe::realize(needed)) map.emplace_back(std::move(b.from), std::move(b.to));
  } catch (...) {
    for (const auto& s : lost) s->is_stale = false;  // nothing was overwritten
    throw;
  }
  std::unordered_set<const Node*> realised;
  for (const auto& [from, to] : map) realised.insert(from.node());
  std::erase_if(live, [&](const auto& s) {
    const UOp base = view_base(s.uop);
    return is_in_memory(base) || (is_outside(s) && !realised.count(base.node()));
  });
  replace_in(live, map);
}

void run_pending(const MemoryNodes& used, const MemoryNodes& written, uint64_t after, uint64_t until) {
  const auto lock = lock_tensors();
  const States lazy = LiveTensors::instance().lazy(after, until);
  std::vector<UOp> nodes, roots;
  for (const auto& s : lazy) nodes.push_back(s.uop);
  std::unordered_set<const Node*> readers;
  for (const UOp& u : toposort(sink(nodes))) {
    if (u.op() == Op::After && is_storage(u) &&
        std::ranges::any_of(storage_parts(u), [&](const UOp& b) { return used.count(b.node()) != 0; }))
      roots.push_back(u);
    if (written.count(u.node()) ||
        std::ranges::any_of(u.srcs(), [&](const UOp& s) { return readers.count(s.node()) != 0; }))
      readers.insert(u.node());
  }
  for (const auto& s : lazy) {
    if (!readers.count(s.uop.node())) continue;
    if (s->is_gradient)
      s->is_stale = true;
    else
      roots.push_back(s.uop);
  }
  run(std::move(roots));
}

void move_views(const UOp& base, const UOp& after) {
  replace_in(LiveTensors::instance().views_of(base), {{base, after}});
}

std::vector<UOp> pending_writes(uint64_t after) {
  std::vector<UOp> nodes, out;
  for (const auto& s : LiveTensors::instance().lazy(after)) nodes.push_back(s.uop);
  for (const UOp& u : toposort(sink(nodes)))
    if (u.op() == Op::After && is_storage(u)) out.push_back(u);
  return out;
}

Tensor::Tensor() : Tensor(Scalar(0.0)) {}
Tensor::Tensor(const Scalar& v) : Tensor(constant(v)) {}
Tensor::Tensor(const Scalar& v, DType dtype)
    : Tensor(is_weak(dtype) ? weak_literal(v, dtype) : constant(dtype, v)) {}
Tensor::Tensor(UOp uop) : state_(TensorState::make(filled_if_empty(std::move(uop)))) {}

const UOp& Tensor::uop() const { return state_->node(); }
SInt Tensor::size(int64_t dim) const { return shape()[static_cast<size_t>(resolve_dim(dim))]; }
Shape Tensor::max_shape() const { return lathe::max_shape(shape()); }

int64_t Tensor::element_size() const {
  if (is_weak(dtype())) user_runtime_error("element_size requires a concrete dtype, got dtypes.{}", dtype());
  return item_size(dtype());
}

int64_t Tensor::len() const {
  if (ndim() == 0) type_error("len() of a 0-d tensor");
  return shape()[0].value();
}

Tensor& Tensor::set_param(bool flag) {
  state_->is_param = flag;
  return *this;
}
bool Tensor::is_param() const { return state_->is_param; }

std::string Tensor::to_string() const {
  const std::string where = device().empty() ? "None" : device();
  const std::string gradient = state_->grad ? TensorState::handle(state_->grad).to_string() : "None";
  return fmt::format("<Tensor <UOp {} {} dtypes.{}> on {} with grad {}>", where, shape(), dtype(), where,
                     gradient);
}

const Tensor& Tensor::realize() const {
  run({uop()});
  return *this;
}

void Tensor::realize(std::span<const Tensor> tensors) {
  std::vector<UOp> roots;
  for (const Tensor& t : tensors) roots.push_back(t.uop());
  run(std::move(roots));
}

bool Tensor::is_realized() const { return is_in_memory(view_base(uop())); }

namespace {

// The first elements of each axis of row-major `data`, of `width` bytes each.
void cut_to(const Shape& sizes, const Shape& whole, size_t width, std::vector<std::byte>& data) {
  for (size_t axis = whole.size(), row = width; axis-- > 0;) {
    const size_t from = row * static_cast<size_t>(whole[axis].value());
    row *= static_cast<size_t>(sizes[axis].value());
    const size_t n = data.size() / std::max<size_t>(from, 1);
    for (size_t i = 0; i < n; i++) std::memmove(data.data() + i * row, data.data() + i * from, row);
    data.resize(n * row);
  }
}

}  // namespace

std::vector<std::byte> Tensor::read(DType dtype) const {
  Tensor value = cast(strong(this->dtype())).cast(dtype);
  Shape sizes;
  for (const SInt& d : value.shape()) {
    const std::optional<int64_t> n = value_of(d);
    if (!n) value_error("cannot read a tensor of symbolic shape {}: bind() the Variables", shape());
    sizes.push_back(*n);
  }
  if (!(sizes == value.shape())) {  // through one of a shape that does not depend on the values
    std::vector<std::byte> out = value.pad_to(value.max_shape()).read(dtype);
    cut_to(sizes, value.max_shape(), static_cast<size_t>(item_size(dtype)), out);
    return out;
  }
  std::vector<std::byte> out(static_cast<size_t>(value.numel().value() * item_size(dtype)));
  if (out.empty()) return out;
  if (value.device().empty()) value = value.clone();
  if (names_several(value.device())) value = Tensor(copy_to(value.uop(), split_devices(value.device())[0]));
  if (!has_buffer_identity(value.uop())) value = value.contiguous();
  value.realize();
  read_buffer(value.uop(), out.data(), out.size());
  return out;
}

std::vector<std::byte> Tensor::bytes() const { return read(strong(dtype())); }

void Tensor::write(const UOp& given, bool is_temporary) {
  UOp target = uop();
  if (target == given) return;
  LiveTensors& live = LiveTensors::instance();
  if (is_weak(target.dtype())) {
    target = lathe::cast(target, strong(target.dtype()));
    live.set(*state_, target);
  }
  UOp value = is_weak_literal(given) ? constant(target.dtype(), given.value()) : given;
  if (is_weak(value.dtype()) && join(value.dtype(), target.dtype()) == target.dtype())
    value = lathe::cast(value, target.dtype());
  if (!(value.shape() == target.shape())) value = Tensor(value).expand(target.shape()).uop();
  const bool on_disk = is_disk(target.device());
  if (on_disk) value = copy_to(value, target.device());
  if (!value.device().empty() && !target.device().empty() && value.device() != target.device())
    user_runtime_error("assign device mismatch {} != {}", target.device(), value.device());
  if (value.dtype() != target.dtype())
    user_runtime_error("assign dtype mismatch dtypes.{} != dtypes.{}", target.dtype(), value.dtype());

  if (lathe::prod(target.shape()) == SInt(0)) return;
  const UOp base = view_base(target);
  if (!is_storage(base)) {
    if (is_temporary)
      user_runtime_error(
          "cannot assign into a temporary view of a value without memory, the result would be lost: use "
          "set() on the "
          "tensor itself, or realize() it first");
    // An expression changes by taking another; memory must stay that of one tensor.
    const std::string where = memory_beside(value.device());
    live.set(*state_, is_storage(view_base(value)) ? stored(copy_to(value, where), where) : value);
    return;
  }
  if (repeats_elements(target, base))
    user_runtime_error("cannot assign to an expanded view: its elements share memory");
  // What resizes elements is written as a whole, and so as elements of what is below.
  while (const UOp whole = outer_resize(target)) {
    if (!(target == whole))
      value = lathe::where(view_mask(target, whole), invert_view(target, whole, value), whole);
    target = whole.src(0);
    value = lathe::bitcast(value, target.dtype());
  }
  const UOp after = UOp::make(Op::After, {base, store(target, value)});
  move_views(base, after);
  if (on_disk) run({after});
}

Tensor& Tensor::assign(const Tensor& x) & {
  write(x.uop(), false);
  return *this;
}
Tensor Tensor::assign(const Tensor& x) && {
  write(x.uop(), true);
  return std::move(*this);
}

Tensor& Tensor::replace(const Tensor& x) {
  if (!(shape() == x.shape())) value_error("replace shape mismatch {} != {}", shape(), x.shape());
  LiveTensors::instance().set(*state_, x.uop());
  return *this;
}

Tensor Tensor::clone(const std::string& device) const {
  const std::string where = place(device.empty() ? memory_beside(this->device()) : device);
  Tensor out(stored(copy_to(uop(), where), where));
  out.state_->is_param = state_->is_param;
  if (state_->grad) out.set_grad(TensorState::handle(state_->grad).clone(device));
  return out;
}

Tensor Tensor::detach() const { return Tensor(UOp::make(Op::Detach, {uop()})); }

Tensor Tensor::contiguous() const {
  const UOp& u = uop();
  if (is_weak(u.dtype()) || u.device().empty() || u.op() == Op::Contiguous || has_buffer_identity(u))
    return Tensor(u);
  return Tensor(UOp::make(Op::Contiguous, {u}));
}
Tensor Tensor::contiguous_backward() const { return Tensor(UOp::make(Op::ContiguousBackward, {uop()})); }

Tensor Tensor::to(const std::string& device) const {
  const std::string where = place(device);
  if (this->device().empty() || this->device() == where) return *this;
  const UOp copy = copy_to(uop(), where);
  Tensor out(is_disk(where) ? stored(copy, where) : copy);
  out.state_->is_param = state_->is_param;
  if (state_->grad) out.set_grad(TensorState::handle(state_->grad).to(where));
  return out;
}

Tensor& Tensor::move_to(const std::string& device) {
  const Tensor moved = to(device);
  if (moved.is_same(*this)) return *this;
  LiveTensors::instance().set(*state_, moved.uop());
  state_->grad = moved.state_->grad;
  return *this;
}

}  // namespace lathe
