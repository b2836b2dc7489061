#include "formats/onnx/plan.h"

#include "engine/realize.h"
#include "engine/recording.h"
#include "tensor/place.h"
#include "tensor/view.h"

#include <algorithm>

namespace lathe::onnx {
namespace {

// Inputs of more elements than this do not decide how a graph looks, as far as plans go: hardly ever would
// they come again.
constexpr int64_t kMaxNumbers = 64;

bool is_constant(const Tensor& t) { return t.device().empty() && t.numel().value() <= kMaxNumbers; }

std::string place_of(const Tensor& t, const std::string& device) {
  return t.device().empty() ? place(device) : t.device();
}

// In memory, in row-major order without gaps.
Tensor in_memory(const Tensor& t, const std::string& device) {
  const Tensor out = t.device().empty() ? t.clone(device) : t.cast(strong(t.dtype())).contiguous();
  out.realize();
  return out;
}

// Buffers that take the memory of others as long as this lives.
class Loan {
 public:
  Loan() = default;
  ~Loan() { end(); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  void lend(const UOp& to, const UOp& memory) {
    borrowers_.push_back(to);
    lend_memory(to, memory);
  }
  void end() {
    for (const UOp& b : borrowers_) lend_memory(b, std::nullopt);
    borrowers_.clear();
  }

 private:
  std::vector<UOp> borrowers_;
};

bool is_same(const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Scalar& x, const Scalar& y) { return x.equals(y); });
}

}  // namespace

Plan::Plan(const Inputs& inputs, std::string device) : device_(std::move(device)) {
  for (const auto& [name, v] : inputs) {
    stand_ins_[name] = v;
    if (!v.is_tensor() || v.tensor().numel() == SInt(0)) continue;
    Slot slot{name, v.type(), v.shape(), {}, {}};
    if (is_constant(v.tensor())) {
      slot.numbers = elements(v.tensor());
    } else {
      const Tensor x = in_memory(v.tensor(), device_);
      slot.placeholder = new_buffer(x.shape(), x.dtype(), x.device());
      lend_memory(slot.placeholder, x.uop());
      stand_ins_[name] = Value(Tensor(slot.placeholder), v.type());
    }
    slots_.push_back(std::move(slot));
  }
}

std::vector<UOp> Plan::placeholders() const {
  std::vector<UOp> out;
  for (const Slot& s : slots_)
    if (s.placeholder) out.push_back(s.placeholder);
  return out;
}

bool Plan::keep(const Values& outputs, const ReadLog& log) {
  if (log.has_run() || slots_.size() != stand_ins_.size()) return false;
  for (Slot& s : slots_) {
    if (!s.placeholder || !log.has_read(s.placeholder)) continue;
    const Tensor x(s.placeholder);
    if (x.numel().value() > kMaxNumbers) return false;
    s.numbers = elements(x);
  }
  for (const Value& v : outputs) {
    if (!v.is_tensor()) return false;
    const Tensor& t = v.tensor();
    outputs_.push_back({t.cast(strong(t.dtype())).contiguous().uop(), v.type()});
    // Memory that the graph itself writes would be that of the outputs of every run.
    if (view_base(outputs_.back().root).op() == Op::After) return false;
  }
  stand_ins_.clear();
  return true;
}

bool Plan::fits(const Inputs& inputs) const {
  if (inputs.size() != slots_.size()) return false;
  return std::ranges::all_of(slots_, [&](const Slot& s) {
    const auto it = inputs.find(s.name);
    if (it == inputs.end() || !it->second.is_tensor()) return false;
    const Value& v = it->second;
    if (v.type() != s.type || v.shape() != s.shape) return false;
    if (s.placeholder && place_of(v.tensor(), device_) != s.placeholder.device()) return false;
    return s.numbers.empty() || is_same(elements(v.tensor()), s.numbers);
  });
}

Values Plan::run(const Inputs& inputs) {
  std::lock_guard lock(mutex_);
  // A recording runs again when the loan is over: it gets kernels over the inputs themselves.
  const bool is_recorded = Recording::open() != nullptr;
  std::vector<Tensor> given;  // in memory, as long as the placeholders name it
  std::vector<std::pair<UOp, UOp>> lent;
  Loan loan;
  for (const Slot& s : slots_) {
    if (!s.placeholder) continue;
    given.push_back(in_memory(inputs.at(s.name).tensor(), device_));
    if (!is_recorded) loan.lend(s.placeholder, given.back().uop());
    lent.emplace_back(s.placeholder, given.back().uop());
  }
  std::vector<UOp> targets, roots;  // what each output is now, and those to run
  for (const Output& o : outputs_) {
    targets.push_back(is_recorded ? substitute(o.root, lent) : o.root);
    const UOp& target = targets.back();
    if (o.root.op() == Op::Contiguous && std::find(roots.begin(), roots.end(), target) == roots.end())
      roots.push_back(target);
  }
  const std::vector<Becomes> done = lathe::realize(roots);
  loan.end();
  Values out;
  for (size_t i = 0; i < outputs_.size(); i++) {
    const auto it = std::ranges::find_if(done, [&](const Becomes& b) { return b.from == targets[i]; });
    // What is a view of an input shows the caller's memory.
    out.emplace_back(Tensor(substitute(it == done.end() ? targets[i] : it->to, lent)), outputs_[i].type);
  }
  return out;
}

}  // namespace lathe::onnx
