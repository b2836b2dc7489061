// Whole numbers that are known when a kernel is launched.
#pragma once
#include "uop/uop.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lathe {

// A number in [lo, hi] with a name, which goes wherever an SInt does: sizes, bounds of slices, positions.
// With a value it is bound. Kernels know the bounds, and not the value: they run for every value, without
// being compiled again.
//
//   Variable n("n", 1, 64);
//   Tensor mean = x.at(Slice{0, n.bind(5)}).mean();
class Variable : public SInt {
 public:
  // ValueError where lo > hi or the name is empty. Values are multiples of `multiple_of`.
  Variable(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of = 1);
  // ValueError for a value outside of the bounds, or no multiple.
  Variable bind(int64_t value) const;
  // The variable without its value, and the value; RuntimeError where it has none.
  std::pair<Variable, int64_t> unbind() const;
  const std::string& name() const { return param_.param().name; }

 private:
  Variable(UOp param, std::optional<int64_t> value);
  UOp param_;
  std::optional<int64_t> value_;
};

// Values by name.
using VariableValues = std::map<std::string, int64_t>;

// In a graph, a variable is a Param in ALU space, and one with a value the After of a Store of the value to
// it.
bool is_bound_variable(const UOp& u);
// `graph` with the variables in place of those with a value, and the values in `values`. RuntimeError "bind
// mismatch on NAME, a != b" for two values of a name; and for variables that only share the name.
UOp take_values(const UOp& graph, VariableValues& values);
// The other way.
UOp give_values(const UOp& graph, const VariableValues& values);
// The size where all its variables have values.
std::optional<int64_t> value_of(const SInt& size);

// Sizes at their largest.
Shape max_shape(const Shape& s);

}  // namespace lathe
