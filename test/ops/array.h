#pragma once

// The world of the references: dense arrays of doubles and plain loops, which know nothing of lathe but the
// names of its dtypes.

#include "uop/dtype.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lathe::ops {

using Index = std::vector<int64_t>;

struct Array {
  Index shape;
  std::vector<double> data;  // row-major

  Array() = default;
  Array(Index shape, std::vector<double> data);
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t ndim() const { return static_cast<int64_t>(shape.size()); }
  // The element at an index of full rank; an index outside the shape is an error.
  double operator()(const Index& index) const;
  template <class... I>
  double at(I... i) const {
    return (*this)(Index{static_cast<int64_t>(i)...});
  }
};
using Arrays = std::vector<Array>;
// The elements of a group that a reduction folds, or of a line along an axis.
using Values = std::vector<double>;

int64_t count(const Index& shape);
// Calls f with every index of the shape, in row-major order.
void for_each(const Index& shape, const std::function<void(const Index&)>& f);
// The array whose element at i is f(i).
Array build(const Index& shape, const std::function<double(const Index&)>& f);
Array scalar(double v);

Array map(const Array& a, const std::function<double(double)>& f);
// Operands broadcast to each other.
Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f);
Array map(const Array& a, const Array& b, const Array& c,
          const std::function<double(double, double, double)>& f);
Array broadcast(const Array& a, const Index& shape);
Array reshape(const Array& a, const Index& shape);
Array permute(const Array& a, const std::vector<int>& order);

// The elements along `axes` (no negative ones) folded into one.
Array fold(const Array& a, const std::vector<int>& axes, const std::function<double(const Values&)>& f,
           bool keepdim = false);
// Every line along an axis replaced by f of it.
Array along(const Array& a, int axis, const std::function<Values(const Values&)>& f);

double sum(const Values& v);
double mean(const Values& v);

// Storage codes of a dtype, by the definitions of the formats: nearest value, ties to even; integers wrap.
uint64_t to_code(double v, DType d);
double from_code(uint64_t code, DType d);
inline double rounded(double v, DType d) { return from_code(to_code(v, d), d); }
// Distance of 1 to the next larger value of a float type; 0 for others.
double epsilon(DType d);

std::string to_string(const Index& shape);

}  // namespace lathe::ops
