// What must hold for the simplification of every expression.
#pragma once
#include "property/values.h"
#include "uop/matcher.h"

#include <functional>
#include <optional>
#include <string>

namespace lathe::test {

enum class Property : uint8_t {
  Value,         // the result has the value of the expression wherever that has one
  Bounds,        // values lie in bounds()
  Idempotent,    // a result is its own result
  Order,         // the order of construction does not matter
  Substitution,  // numbers in place of the variables give the value, before and after
  Rule,          // one application of a rule changes no value
  Error,         // nothing is thrown, no rules go round in a circle
};
std::string_view property_name(Property p);

using Simplifier = std::function<UOp(const UOp&)>;

struct CheckOptions {
  Simplifier simplify;
  Simplifier again = {};  // for Idempotent, where `simplify` would look up that it is done; default: simplify
  uint64_t seed = 0;      // of the points and of the other order
  size_t points = 48;     // at most
  bool each_rule = true;  // check every application of a rule
  bool order = true;      // check Order
  int reorderings = 1;    // tried for Order
  double tolerance = 0;   // of floats, relative: for rules that change the rounding
};

struct Failure {
  Property property;
  std::string rule;    // Rule: its place
  std::string detail;  // point, values, graphs
  bool same_kind(const Failure& o) const { return property == o.property && rule == o.rule; }
};

// The first property that does not hold of `u`.
std::optional<Failure> check(const UOp& u, const CheckOptions& options);

// The places of the rules that fire, in order, each once; "" where something is thrown.
std::string rules_fired(const UOp& u, const Simplifier& simplify);

// A failure of `u` made small, as a report: the text form, infix, variables, what failed and the rules.
std::string report(const UOp& u, const Failure& failure, const CheckOptions& options);

}  // namespace lathe::test
