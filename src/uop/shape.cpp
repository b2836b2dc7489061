// Symbolic sizes and shapes.
#include "uop/linear_terms.h"
#include "uop/simplify.h"
#include "uop/uop.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

// What the formatters of uop.h stand on, which fmt/core.h only declares.
template fmt::appender fmt::formatter<fmt::string_view>::format(const fmt::string_view&,
                                                                fmt::format_context&) const;

namespace lathe {

SInt::SInt(UOp u) {
  if (!u.is_const()) u = simplify(u);
  if (u.is_const())
    value_ = u.value().as_i64();
  else
    node_ = std::move(u);
}

UOp SInt::uop() const { return node_ ? node_ : constant(Scalar(value_)); }

int64_t SInt::vmax() const { return node_ ? node_.bounds().hi.as_i64() : value_; }

namespace {
// `f` of numbers, exactly, or of nodes.
template <class F>
SInt combined(const SInt& a, const SInt& b, F f) {
  if (!a.is_const() || !b.is_const()) return SInt(f(a.uop(), b.uop()));
  const int128 v = f(static_cast<int128>(a.value()), static_cast<int128>(b.value()));
  CHECK(v >= INT64_MIN && v <= INT64_MAX, "size arithmetic leaves 64 bits");
  return static_cast<int64_t>(v);
}
}  // namespace

SInt operator+(const SInt& a, const SInt& b) { return combined(a, b, std::plus()); }
SInt operator-(const SInt& a, const SInt& b) { return combined(a, b, std::minus()); }
SInt operator*(const SInt& a, const SInt& b) { return combined(a, b, std::multiplies()); }
SInt floordiv(const SInt& a, const SInt& b) {
  if (!a.is_const() || !b.is_const()) return SInt(a.uop() / b.uop());
  CHECK(b.value() != 0, "size divided by zero");
  return static_cast<int64_t>(floor_div(a.value(), b.value()));
}

SInt prod(const Shape& s) {
  SInt p = 1;
  for (const SInt& d : s) p = p * d;
  return p;
}

std::string to_string(const Shape& s) {
  std::string out = "(";
  for (size_t i = 0; i < s.size(); i++) {
    if (i) out += ", ";
    out += s[i].is_const() ? std::to_string(s[i].value()) : expression(s[i].uop());
  }
  return out + (s.size() == 1 ? ",)" : ")");
}

UOp shape_node(const Shape& s) {
  SmallVec<UOp, 8> lanes;
  for (const SInt& d : s) lanes.push_back(d.uop());
  return UOp::make(Op::Stack, s.empty() ? DType::WeakInt : DType::Void, lanes);
}

Shape shape_from_node(const UOp& stack) {
  CHECK(stack.op() == Op::Stack, "a shape is a Stack, got {}", stack.op());
  Shape s;
  for (const UOp& d : stack.srcs()) s.push_back(SInt(d));
  return s;
}

Shape broadcast_shapes(std::span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& s : shapes) rank = std::max(rank, s.size());
  Shape out;
  out.resize(rank, SInt(1));
  for (size_t axis = 0; axis < rank; axis++) {
    for (const Shape& s : shapes) {
      if (axis + s.size() < rank) continue;
      const SInt& d = s[axis + s.size() - rank];
      if (d == SInt(1) || d == out[axis]) continue;
      if (!(out[axis] == SInt(1))) {
        std::string all;
        for (const Shape& t : shapes) all += (all.empty() ? "" : ", ") + to_string(t);
        index_error("shape mismatch: objects cannot be broadcast to a single shape: {}", all);
      }
      out[axis] = d;
    }
  }
  return out;
}

}  // namespace lathe
