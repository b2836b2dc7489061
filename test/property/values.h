// Values of graphs at many points at once, by the reference ALU.
#pragma once
#include "property/random.h"
#include "uop/uop.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lathe::test {

// Empty where the value is not defined: division by zero, weakint beyond its limit, a float that is not
// finite.
using Value = std::optional<Scalar>;

// Points of the box that the variables, Ranges and Specials of some graphs span: all of them if there are at
// most `most`, else that many, corners often.
class Points {
 public:
  Points(const std::vector<UOp>& roots, Random random, size_t most);
  size_t size() const { return n_; }
  const std::vector<Scalar>* values(const UOp& leaf) const;  // one a point; null when it is no leaf
  std::string text(size_t point) const;                      // "a=3 r0=1"
  UOp substituted(const UOp& u, size_t point) const;         // numbers in place of the leaves

 private:
  bool enumerate(size_t most);
  void sample(Random& random, size_t most);
  std::vector<UOp> leaves_;  // the end of a Range holds leaves before it only
  std::unordered_map<const Node*, size_t> position_;
  std::vector<std::vector<Scalar>> values_;
  size_t n_ = 0;
};

// Every node's value at every point. Values are scalars or vectors of shape (n,). Where takes the value of
// its branch, whatever the other is; a bool And (Or) of false (true) needs no other side. A Load reads a
// number that is a function of the slot and the index, and 0 at Invalid.
class ValueTable {
 public:
  ValueTable(const UOp& root, const Points& points);
  const std::vector<UOp>& nodes() const { return nodes_; }  // sources first
  // lane-major: lane l at point p is [l * points.size() + p]
  const std::vector<Value>& values(size_t node) const { return values_[node]; }
  const std::vector<Value>& result() const { return values_.back(); }
  // Some division has a divisor that is 0 at some point.
  bool divides_by_zero() const { return divides_by_zero_; }
  // Every node has a value at the point.
  bool defined(size_t point) const;
  // Some weakint is beyond what 128 bits hold.
  bool overflows(size_t point) const { return overflows_[point]; }

 private:
  void compute(size_t node, const Points& points);
  std::vector<UOp> nodes_;
  std::unordered_map<const Node*, size_t> position_;
  std::vector<std::vector<Value>> values_;
  size_t n_points_;
  bool divides_by_zero_ = false;
  std::vector<bool> overflows_;
};

// `u` without Reduce: each is written out over the values of its Ranges. Null where there are too many.
UOp unrolled(const UOp& u);

// 3 is 3.0, both zeros are equal, Invalid equals Invalid.
bool same(const Value& a, const Value& b);
std::string value_text(const Value& v);

}  // namespace lathe::test
