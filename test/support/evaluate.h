#pragma once

#include "base/error.h"
#include "uop/eval.h"
#include "uop/uop.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace lathe::test {

// An expression of elementwise ops, casts and lanes, computed by the reference ALU. `inputs` are the nodes
// whose values are given; what lies below them is not looked at. Scalars and vectors of shape (n,).
class Evaluator {
 public:
  Evaluator(const UOp& root, std::vector<UOp> inputs) {
    std::unordered_map<const Node*, size_t> slot;
    for (const UOp& u : inputs) {
      slot.emplace(u.node(), steps_.size());
      steps_.push_back({u, {}, lanes_of(u)});
    }
    n_inputs_ = inputs.size();
    for (const UOp& u : toposort(root, [&](const UOp& v) { return !slot.contains(v.node()); })) {
      Step s{u, {}, lanes_of(u)};
      for (const UOp& v : u.srcs()) s.srcs.push_back(slot.at(v.node()));
      slot.emplace(u.node(), steps_.size());
      steps_.push_back(std::move(s));
    }
    root_ = slot.at(root.node());
    values_.resize(steps_.size());
    for (size_t i = 0; i < steps_.size(); i++) values_[i].resize(steps_[i].lanes);
    keep_ = std::move(inputs);
  }

  // One value an input; it stands for all lanes.
  const std::vector<Scalar>& lanes(std::initializer_list<Scalar> inputs) {
    CHECK(inputs.size() == n_inputs_, "{} values for {} inputs", inputs.size(), n_inputs_);
    size_t i = 0;
    for (const Scalar& v : inputs) std::fill(values_[i].begin(), values_[i].end(), v), i++;
    for (; i < steps_.size(); i++) step(steps_[i], values_[i]);
    return values_[root_];
  }
  Scalar operator()(std::initializer_list<Scalar> inputs) { return lanes(inputs)[0]; }
  size_t n_steps() const { return steps_.size() - n_inputs_; }

 private:
  struct Step {
    UOp node;
    std::vector<size_t> srcs;
    size_t lanes;
  };
  static size_t lanes_of(const UOp& u) { return u.ndim() ? static_cast<size_t>(u.shape()[0].value()) : 1; }
  const Scalar& at(const Step& s, size_t src, size_t lane) const {
    const std::vector<Scalar>& v = values_[s.srcs[src]];
    return v[v.size() == 1 ? 0 : lane];
  }

  void step(const Step& s, std::vector<Scalar>& out) {
    const UOp& u = s.node;
    for (size_t lane = 0; lane < s.lanes; lane++) {
      if (is_alu(u.op())) {
        Scalar operands[3];
        for (size_t i = 0; i < s.srcs.size(); i++) operands[i] = at(s, i, lane);
        const auto v = eval(u.op(), u.dtype(), {operands, s.srcs.size()});
        CHECK(v, "{} of {} has no value", op_name(u.op()), dtype_name(u.dtype()));
        out[lane] = *v;
      } else {
        out[lane] = other(s, lane);
      }
    }
  }
  Scalar other(const Step& s, size_t lane) const {
    const UOp& u = s.node;
    switch (u.op()) {
      case Op::Const: return u.value();
      case Op::After: return at(s, 0, lane);
      case Op::Cast: return cast_scalar(at(s, 0, lane), u.dtype());
      case Op::Bitcast: return bitcast_scalar(at(s, 0, lane), u.src(0).dtype(), u.dtype());
      case Op::Stack: return values_[s.srcs[lane]][0];
      case Op::Index: {
        const std::vector<Scalar>& picked = values_[s.srcs[1]];
        return values_[s.srcs[0]][static_cast<size_t>(picked[picked.size() == 1 ? 0 : lane].as_i64())];
      }
      default: break;
    }
    CHECK(false, "an expression with a {}", op_name(u.op()));
    return {};
  }

  std::vector<Step> steps_;
  std::vector<std::vector<Scalar>> values_;
  std::vector<UOp> keep_;
  size_t n_inputs_ = 0, root_ = 0;
};

// A value of which nothing is known: an element of a buffer. No part of it has a weak type.
inline UOp unknown(DType d, int slot = 0) {
  const UOp one = constant(DType::Int32, 1);
  const UOp p = UOp::make(Op::Param, {stack({&one, 1})}, param(slot, {1}, d).arg());
  return load(index(p, constant(DType::Int32, 0)));
}

}  // namespace lathe::test
