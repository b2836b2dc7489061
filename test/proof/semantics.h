// What nodes mean, as terms of z3: the reference ALU (uop/eval.h) over all values at once.
#pragma once
#include "uop/uop.h"

#include <z3++.h>

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lathe::proof {

// A node that has no meaning here; the text says why.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The value of one node. Where `poison` holds it is Invalid; where `defined` does not, there is none (a
// division by zero below) and any replacement serves.
struct Value {
  UOp node;
  z3::expr term, poison, defined;
};

// What stands for numbers without a width, and for floats.
struct Model {
  // Unbounded integers. They have no bit operations and do not meet types with a width; where that happens a
  // weak integer is a bit vector of `weak_bits`, wide enough that nothing wraps for variables up to
  // 2^`leaf_bits`.
  bool exact = true;
  unsigned weak_bits = 0, leaf_bits = 0;
  // Rules hold for every IEEE format or for none, and a small one is quick. `weak_float` is that of weak
  // floats, and unless `real_floats` that of all.
  FloatFormat weak_float = {5, 5};
  bool real_floats = false;
};

class Semantics {
 public:
  Semantics(z3::context& context, const Model& model);

  Value variable(const UOp& node, const std::string& name);  // any value; Invalid too
  Value number(const UOp& node, const std::string& name);    // a Const of unknown value
  Value literal(const UOp& constant_node);
  Value apply(const UOp& node, std::span<const Value> srcs);  // Unsupported
  Value convert(const Value& v, DType to);

  z3::expr same(const Value& a,
                const Value& b);  // of one dtype; zeros of either sign are the same, and so are NaNs
  z3::expr equals(const Value& v, const Scalar& s);

  // What the variables are assumed to be: in the bounds of the model.
  z3::expr_vector bounds;
  // That no variable is Invalid.
  z3::expr_vector valid;
  // That a weak integer compared with, or chosen beside, one that has a width is one of its values: the rules
  // that commit literals come first, and an index that meets a typed integer fits it.
  z3::expr_vector committed;
  // That no float operation overflows or loses bits below the smallest normal number.
  z3::expr_vector in_range;

 private:
  z3::sort sort_of(DType d);
  z3::expr constant_term(const Scalar& v, DType d);
  z3::expr convert_term(const z3::expr& e, DType from, DType to);
  z3::expr integer_op(Op op, DType d, const z3::expr& a, const z3::expr& b);
  z3::expr float_op(Op op, DType d, std::span<const z3::expr> s);
  z3::expr bool_op(Op op, const z3::expr& a, const z3::expr& b);
  z3::expr floor_divide(Op op, bool is_unsigned, const z3::expr& a, const z3::expr& b);
  z3::expr shift(const UOp& node, std::span<const Value> srcs);
  z3::expr unknown_function(Op op, DType d, std::span<const z3::expr> s);
  z3::expr less(DType d, const z3::expr& a, const z3::expr& b);
  z3::expr differ(DType d, const z3::expr& a, const z3::expr& b);
  void assume_committed(const UOp& node, std::span<const Value> srcs, DType d);
  void assume_in_range(const z3::expr& result, std::span<const z3::expr> s);
  z3::expr fresh(const std::string& name, DType d);

  z3::context& z_;
  Model model_;
  z3::expr nearest_, towards_zero_;
};

}  // namespace lathe::proof
