// Arithmetic as Python does it: / divides, // and % round down, + joins, * repeats.
#include "base/error.h"
#include "llm/jinja/evaluate.h"

#include <cmath>

namespace lathe::jinja {
namespace {

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Value integers(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &out);
  } else if (op == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    out = 1;
    // With any other base the power is out of range before the loop has gone on for long.
    if (a == 0 || a == 1 || a == -1) return b == 0 || a == 1 || (a == -1 && b % 2 == 0) ? int64_t{1} : a;
    for (int64_t i = 0; i < b && !overflow; i++) overflow = __builtin_mul_overflow(out, a, &out);
  } else {
    if (b == 0) zero_error("{} {} 0", a, op);
    if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1)
      overflow = __builtin_sub_overflow(0, op == "%" ? 0 : a, &out);
    else
      out = op == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
  }
  if (overflow) overflow_error("{} {} {} does not fit into 64 bits", a, op, b);
  return out;
}

Value reals(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  if (b == 0) zero_error("{} {} 0", a, op);
  if (op == "/") return a / b;
  return op == "//" ? std::floor(a / b) : a - std::floor(a / b) * b;
}

Value repeated(Evaluator& e, const Value& value, int64_t count) {
  const size_t size = value.text() ? value.text()->size() : value.list()->size();
  size_t total = 0;
  if (__builtin_mul_overflow(size, static_cast<size_t>(std::max<int64_t>(count, 0)), &total))
    total = SIZE_MAX;
  e.charge_text(total);
  e.charge(value.list() ? static_cast<int64_t>(total) : 0);
  Text text;
  List list;
  for (int64_t i = 0; i < count && size > 0; i++) {
    if (value.text())
      text.append(*value.text());
    else
      list.insert(list.end(), value.list()->begin(), value.list()->end());
  }
  return value.text() ? Value(text) : Value(list);
}

}  // namespace

Value arithmetic(Evaluator& e, std::string_view op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) undefined_error(*v);
  if (a.is_number() && b.is_number()) {
    if (a.real() || b.real()) return reals(op, a.number(), b.number());
    const auto integer = [](const Value& v) { return v.boolean() ? int64_t{*v.boolean()} : *v.integer(); };
    return integers(op, integer(a), integer(b));
  }
  if (op == "+" && a.text() && b.text()) {
    e.charge_text(a.text()->size() + b.text()->size());
    const bool is_safe = a.text()->is_safe() || b.text()->is_safe();
    Text out = is_safe ? escape(*a.text()) : *a.text();
    out.append(is_safe ? escape(*b.text()) : *b.text());
    return is_safe ? e.checked_text(out.as_safe()) : out;
  }
  if (op == "+" && a.list() && b.list()) {
    e.charge(static_cast<int64_t>(a.list()->size() + b.list()->size()));
    List out = *a.list();
    out.insert(out.end(), b.list()->begin(), b.list()->end());
    return out;
  }
  if (op == "*" && (a.text() || a.list()) && b.integer()) return repeated(e, a, *b.integer());
  if (op == "*" && (b.text() || b.list()) && a.integer()) return repeated(e, b, *a.integer());
  type_error("{} of a value of type {} and one of type {}", op, a.type_name(), b.type_name());
}

}  // namespace lathe::jinja
