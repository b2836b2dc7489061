#include "ops/table.h"

#include <algorithm>
#include <utility>

namespace lathe::ops {

Input Input::range(double lo, double hi) const {
  Input out = *this;
  out.low = lo;
  out.high = hi;
  return out;
}
Input Input::of(DType d) const {
  Input out = *this;
  out.dtype = d;
  return out;
}
Input Input::without_gradient() const {
  Input out = *this;
  out.differentiable = false;
  return out;
}
Input Input::with(std::vector<double> v) const {
  Input out = *this;
  out.values = std::move(v);
  return out;
}
Input Input::integers() const {
  Input out = *this;
  out.whole = true;
  return out;
}

Input in(Index shape) {
  Input out;
  out.shape = std::move(shape);
  return out;
}
Input ints(Index shape, int low, int high) { return in(std::move(shape)).range(low, high).of(DType::Int32); }
Input bools(Index shape) { return in(std::move(shape)).range(0, 1).of(DType::Bool); }
Input given(Index shape, std::vector<double> v) { return in(std::move(shape)).with(std::move(v)); }

DType Result::of(DType variant) const {
  switch (kind) {
    case Kind::Same: return variant;
    case Kind::Float: return is_float(variant) ? variant : DType::Float32;
    case Kind::Sum:
      if (is_float(variant)) return variant;
      if (is_unsigned(variant)) return variant == DType::UInt64 ? variant : DType::UInt32;
      return variant == DType::Int64 ? variant : DType::Int32;
    case Kind::Fixed: break;
  }
  return dtype;
}

Row&& Row::on(std::vector<DType> d) && {
  dtypes = std::move(d);
  return std::move(*this);
}
Row&& Row::gives(Result r) && {
  results = {r};
  return std::move(*this);
}
Row&& Row::gives(std::vector<Result> r) && {
  results = std::move(r);
  return std::move(*this);
}
Row&& Row::within(double u, double a) && {
  ulps = u;
  absolute = a;
  return std::move(*this);
}
Row&& Row::exact() && { return std::move(*this).within(0); }
Row&& Row::no_gradient(std::string why) && {
  why_no_gradient = std::move(why);
  return std::move(*this);
}
Row&& Row::gradient_within(double tolerance) && {
  gradient_tolerance = tolerance;
  return std::move(*this);
}
Row&& Row::everywhere() && {
  every_device = true;
  return std::move(*this);
}
Row&& Row::plain_only() && {
  any_layout = false;
  return std::move(*this);
}
Row&& Row::fails(std::string why) && {
  known_failure = std::move(why);
  return std::move(*this);
}

std::vector<std::string> Row::methods() const {
  std::vector<std::string> out(1);
  for (char c : name.substr(0, name.find(':'))) {
    if (c == ',')
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

bool Row::checks_gradient() const {
  const auto is_target = [](const Input& i) {
    return i.differentiable && i.dtype.value_or(DType::Float32) == DType::Float32;
  };
  return why_no_gradient.empty() && std::count(dtypes.begin(), dtypes.end(), DType::Float32) > 0 &&
         std::any_of(inputs.begin(), inputs.end(), is_target) &&
         std::any_of(results.begin(), results.end(), [](Result r) { return is_float(r.of(DType::Float32)); });
}

namespace {
std::vector<Rows (*)()>& tables() {
  static std::vector<Rows (*)()> all;
  return all;
}
}  // namespace

RegisteredTable::RegisteredTable(Rows (*make)()) { tables().push_back(make); }

Rows all_rows() {
  Rows out;
  for (Rows (*make)() : tables())
    for (Row& row : make()) out.push_back(std::move(row));
  return out;
}

}  // namespace lathe::ops
