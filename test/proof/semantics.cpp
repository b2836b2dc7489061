#include "proof/semantics.h"

#include <cmath>

namespace lathe::proof {
namespace {

constexpr OpSet kCommits = {Op::CmpLt, Op::CmpNe, Op::CmpEq, Op::Max, Op::FloorDiv, Op::FloorMod, Op::Where};

z3::expr is(const z3::expr& e, Z3_ast (*test)(Z3_context, Z3_ast)) {
  return z3::expr(e.ctx(), test(e.ctx(), e));
}
z3::expr is_nan(const z3::expr& e) { return is(e, Z3_mk_fpa_is_nan); }
z3::expr is_infinite(const z3::expr& e) { return is(e, Z3_mk_fpa_is_infinite); }
z3::expr is_zero(const z3::expr& e) { return is(e, Z3_mk_fpa_is_zero); }
z3::expr is_normal(const z3::expr& e) { return is(e, Z3_mk_fpa_is_normal); }

}  // namespace

Semantics::Semantics(z3::context& context, const Model& model)
    : bounds(context),
      valid(context),
      committed(context),
      in_range(context),
      z_(context),
      model_(model),
      nearest_(context, Z3_mk_fpa_rne(context)),
      towards_zero_(context, Z3_mk_fpa_rtz(context)) {}

z3::sort Semantics::sort_of(DType d) {
  if (d == DType::Bool) return z_.bool_sort();
  if (d == DType::WeakInt) return model_.exact ? z_.int_sort() : z_.bv_sort(model_.weak_bits);
  if (is_int(d)) return z_.bv_sort(static_cast<unsigned>(bit_width(d)));
  if (is_fp8(d)) throw Unsupported("fp8 values are not those of an IEEE format");
  if (!is_float(d)) throw Unsupported("no value");
  const FloatFormat f = model_.real_floats && !is_weak(d) ? float_format(d) : model_.weak_float;
  return z_.fpa_sort(static_cast<unsigned>(f.exponent_bits), static_cast<unsigned>(f.mantissa_bits) + 1);
}

z3::expr Semantics::constant_term(const Scalar& v, DType d) {
  const Scalar s = cast_scalar(v, d);
  if (d == DType::Bool) return z_.bool_val(s.as_bool());
  const z3::sort sort = sort_of(d);
  if (is_float(d)) return z3::expr(z_, Z3_mk_fpa_numeral_double(z_, s.as_double(), sort));
  const std::string text = s.to_string();
  return sort.is_int() ? z_.int_val(text.c_str()) : z_.bv_val(text.c_str(), sort.bv_size());
}

z3::expr Semantics::fresh(const std::string& name, DType d) {
  const z3::expr e = z_.constant(name.c_str(), sort_of(d));
  if (d == DType::WeakInt && !model_.exact) {
    const int64_t most = int64_t{1} << model_.leaf_bits;
    bounds.push_back(e <= z_.bv_val(most, model_.weak_bits));
    bounds.push_back(e >= z_.bv_val(-most, model_.weak_bits));
  }
  return e;
}

Value Semantics::variable(const UOp& node, const std::string& name) {
  const z3::expr poison = z_.bool_const((name + " is Invalid").c_str());
  valid.push_back(!poison);
  return {node, fresh(name, node.dtype()), poison, z_.bool_val(true)};
}

Value Semantics::number(const UOp& node, const std::string& name) {
  return {node, fresh(name, node.dtype()), z_.bool_val(false), z_.bool_val(true)};
}

Value Semantics::literal(const UOp& c) {
  const bool inv = c.is_invalid();
  return {c, inv ? z_.bool_val(false) : constant_term(c.value(), c.dtype()), z_.bool_val(inv),
          z_.bool_val(true)};
}

z3::expr Semantics::convert_term(const z3::expr& e, DType from, DType to) {
  if (from == to) return e;
  if (from == DType::Bool) return z3::ite(e, constant_term(1, to), constant_term(0, to));
  if (to == DType::Bool) return is_float(from) ? !is_zero(e) : e != constant_term(0, from);
  const z3::sort sort = sort_of(to);
  if (is_float(from) && is_float(to)) {
    if (z3::eq(e.get_sort(), sort)) return e;
    return z3::expr(z_, Z3_mk_fpa_to_fp_float(z_, nearest_, e, sort));
  }
  if (e.get_sort().is_int() || sort.is_int())
    throw Unsupported("unbounded integers meet a type with a width");
  if (is_float(to))
    return z3::expr(
        z_, (is_unsigned(from) ? Z3_mk_fpa_to_fp_unsigned : Z3_mk_fpa_to_fp_signed)(z_, nearest_, e, sort));
  const unsigned bits = sort.bv_size();
  if (is_float(from))
    return z3::expr(z_, (is_unsigned(to) ? Z3_mk_fpa_to_ubv : Z3_mk_fpa_to_sbv)(z_, towards_zero_, e, bits));
  const unsigned have = e.get_sort().bv_size();
  if (bits <= have) return e.extract(bits - 1, 0);
  return is_unsigned(from) ? z3::zext(e, bits - have) : z3::sext(e, bits - have);
}

Value Semantics::convert(const Value& v, DType to) {
  Value r = v;
  // Invalid has no dtype of its own: any term serves.
  if (v.node.is_invalid())
    r.term = constant_term(0, to);
  else if (v.node.is_const() && v.term.is_numeral())
    r.term = constant_term(v.node.value(), to);
  else
    r.term = convert_term(v.term, v.node.dtype(), to);
  return r;
}

z3::expr Semantics::less(DType d, const z3::expr& a, const z3::expr& b) {
  if (d == DType::Bool) return !a && b;
  if (is_float(d)) return z3::expr(z_, Z3_mk_fpa_lt(z_, a, b));
  return is_unsigned(d) ? z3::ult(a, b) : a < b;
}

z3::expr Semantics::differ(DType d, const z3::expr& a, const z3::expr& b) {
  return is_float(d) ? !z3::expr(z_, Z3_mk_fpa_eq(z_, a, b)) : a != b;
}

z3::expr Semantics::floor_divide(Op op, bool is_unsigned, const z3::expr& a, const z3::expr& b) {
  const bool quotient = op == Op::FloorDiv;
  if (is_unsigned) return quotient ? z3::udiv(a, b) : z3::urem(a, b);
  if (a.get_sort().is_int()) {
    const z3::expr q =
        z3::ite(b > 0, a / b, (-a) / (-b));  // z3 divides so that the remainder is not negative
    return quotient ? q : a - b * q;
  }
  const z3::expr zero = z_.bv_val(0, a.get_sort().bv_size());
  const z3::expr q = a / b, r = z3::srem(a, b), down = r != zero && ((r < zero) != (b < zero));
  return quotient ? z3::ite(down, q - z_.bv_val(1, a.get_sort().bv_size()), q) : z3::ite(down, r + b, r);
}

z3::expr Semantics::integer_op(Op op, DType d, const z3::expr& a, const z3::expr& b) {
  const bool exact = a.get_sort().is_int();
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Max: return z3::ite(less(d, a, b), b, a);
    case Op::FloorDiv:
    case Op::FloorMod: return floor_divide(op, is_unsigned(d), a, b);
    case Op::CDiv:
      if (!exact) return is_unsigned(d) ? z3::udiv(a, b) : a / b;
      break;
    case Op::CMod:
      if (!exact) return is_unsigned(d) ? z3::urem(a, b) : z3::srem(a, b);
      break;
    case Op::And:
      if (!exact) return a & b;
      break;
    case Op::Or:
      if (!exact) return a | b;
      break;
    case Op::Xor:
      if (!exact) return a ^ b;
      break;
    default: break;
  }
  const z3::expr s[] = {a, b};
  return unknown_function(op, d, s);
}

z3::expr Semantics::bool_op(Op op, const z3::expr& a, const z3::expr& b) {
  switch (op) {
    case Op::Add:
    case Op::Max:
    case Op::Or: return a || b;
    case Op::Mul:
    case Op::And: return a && b;
    case Op::Sub:
    case Op::Xor: return a != b;
    default: break;
  }
  const z3::expr s[] = {a, b};
  return unknown_function(op, DType::Bool, s);
}

z3::expr Semantics::float_op(Op op, DType d, std::span<const z3::expr> s) {
  const auto call = [&](auto f) { return z3::expr(z_, f(z_, nearest_, s[0], s[1])); };
  // Sums and products do not depend on the order, and x - y is x + -y, which solvers find hard to see.
  const auto commutative = [&](auto f, const z3::expr& a, const z3::expr& b) {
    const bool swap = Z3_get_ast_id(z_, a) > Z3_get_ast_id(z_, b);
    return z3::expr(z_, f(z_, nearest_, swap ? b : a, swap ? a : b));
  };
  switch (op) {
    case Op::Add: return commutative(Z3_mk_fpa_add, s[0], s[1]);
    case Op::Sub: return commutative(Z3_mk_fpa_add, s[0], is(s[1], Z3_mk_fpa_neg));
    case Op::Mul:
      // So is a product with -1 the negation.
      for (int i = 0; i < 2; i++)
        if (z3::eq(s[i], constant_term(-1.0, d))) return is(s[1 - i], Z3_mk_fpa_neg);
      return commutative(Z3_mk_fpa_mul, s[0], s[1]);
    case Op::FDiv: return call(Z3_mk_fpa_div);
    case Op::Neg: return is(s[0], Z3_mk_fpa_neg);
    case Op::Max: return z3::ite(less(d, s[0], s[1]), s[1], s[0]);
    case Op::Sqrt: return z3::expr(z_, Z3_mk_fpa_sqrt(z_, nearest_, s[0]));
    case Op::Reciprocal: return z3::expr(z_, Z3_mk_fpa_div(z_, nearest_, constant_term(1.0, d), s[0]));
    case Op::Trunc: return z3::expr(z_, Z3_mk_fpa_round_to_integral(z_, towards_zero_, s[0]));
    default: return unknown_function(op, d, s);
  }
}

// Equal operands give equal results; no more is known.
z3::expr Semantics::unknown_function(Op op, DType d, std::span<const z3::expr> s) {
  z3::sort_vector sorts(z_);
  z3::expr_vector args(z_);
  std::string name(op_name(op));
  for (const z3::expr& e : s) {
    sorts.push_back(e.get_sort());
    args.push_back(e);
    name += " " + e.get_sort().to_string();
  }
  return z_.function((name + " " + std::string(dtype_name(d))).c_str(), sorts, sort_of(d))(args);
}

z3::expr Semantics::shift(const UOp& node, std::span<const Value> srcs) {
  const DType d = node.dtype();
  const z3::expr &a = srcs[0].term, &count = srcs[1].term;
  if (a.get_sort().is_int()) throw Unsupported("shifts of unbounded integers");
  const unsigned bits = std::max(a.get_sort().bv_size(), count.get_sort().bv_size());
  const auto widen = [&](const z3::expr& e, DType from) {
    const unsigned more = bits - e.get_sort().bv_size();
    return is_unsigned(from) ? z3::zext(e, more) : z3::sext(e, more);
  };
  const z3::expr x = widen(a, d), n = widen(count, srcs[1].node.dtype());
  const z3::expr r = node.op() == Op::Shl ? z3::shl(x, n) : is_unsigned(d) ? z3::lshr(x, n) : z3::ashr(x, n);
  return r.extract(a.get_sort().bv_size() - 1, 0);
}

void Semantics::assume_committed(const UOp& node, std::span<const Value> srcs, DType d) {
  if (!kCommits.contains(node.op()) || !is_int(d) || is_weak(d)) return;
  for (size_t i = node.op() == Op::Where; i < srcs.size(); i++) {
    const Value& v = srcs[i];
    if (v.node.is_invalid() || v.node.dtype() != DType::WeakInt) continue;
    committed.push_back(v.term >= constant_term(min_value(d), DType::WeakInt));
    committed.push_back(v.term <= constant_term(max_value(d), DType::WeakInt));
  }
}

void Semantics::assume_in_range(const z3::expr& result, std::span<const z3::expr> s) {
  z3::expr special = z_.bool_val(false);
  for (const z3::expr& e : s) special = special || is_zero(e) || is_infinite(e) || is_nan(e);
  // What was rounded up to the smallest normal number may have lost bits as well.
  const z3::sort sort = result.get_sort();
  const double smallest = std::ldexp(1.0, 2 - (1 << (Z3_fpa_get_ebits(z_, sort) - 1)));
  const z3::expr limit(z_, Z3_mk_fpa_numeral_double(z_, smallest, sort));
  const z3::expr above(z_, Z3_mk_fpa_gt(z_, is(result, Z3_mk_fpa_abs), limit));
  in_range.push_back(special || (above && is_normal(result)));
}

Value Semantics::apply(const UOp& node, std::span<const Value> srcs) {
  const Op op = node.op();
  const DType d = node.dtype();
  z3::expr poison = z_.bool_val(false), defined = z_.bool_val(true);
  for (const Value& v : srcs) {
    poison = poison || v.poison;
    defined = defined && v.defined;
  }
  if (op == Op::Cast) {
    Value r = convert(srcs[0], d);
    r.node = node;
    return r;
  }
  if (op == Op::After && srcs.size() == 1) return {node, srcs[0].term, poison, defined};
  if (op == Op::Bitcast) {
    if (srcs[0].node.dtype() == d) return {node, srcs[0].term, poison, defined};
    if (srcs[0].node.is_invalid()) return {node, constant_term(0, d), poison, defined};
    const z3::expr bits[] = {srcs[0].term};
    return {node, unknown_function(op, d, bits), poison, defined};
  }
  if (!is_alu(op)) throw Unsupported(fmt::format("{} is no arithmetic", op_name(op)));
  if (op == Op::Where) {
    assume_committed(node, srcs, d);
    const Value yes = convert(srcs[1], d), no = convert(srcs[2], d);
    const z3::expr& c = srcs[0].term;
    return {node, z3::ite(c, yes.term, no.term), srcs[0].poison || z3::ite(c, yes.poison, no.poison),
            srcs[0].defined && z3::ite(c, yes.defined, no.defined)};
  }
  // The type in which it is computed.
  DType in = d;
  if (has_flag(op, kComparison)) {
    const UOp &a = srcs[0].node, &b = srcs[1].node;
    in = a.is_invalid() ? b.dtype() : b.is_invalid() ? a.dtype() : join(a.dtype(), b.dtype());
  }
  assume_committed(node, srcs, in);
  if (op == Op::Shl || op == Op::Shr) {
    if (srcs[0].node.is_invalid() || srcs[1].node.is_invalid())
      return {node, constant_term(0, d), poison, defined};
    const z3::expr& n = srcs[1].term;
    if (!is_unsigned(srcs[1].node.dtype())) defined = defined && n >= constant_term(0, srcs[1].node.dtype());
    return {node, shift(node, srcs), poison, defined};
  }
  std::vector<z3::expr> s;
  for (const Value& v : srcs) s.push_back(convert(v, in).term);
  if (has_flag(op, kComparison)) {
    const z3::expr r = op == Op::CmpLt ? less(in, s[0], s[1]) : differ(in, s[0], s[1]);
    return {node, op == Op::CmpEq ? !r : r, poison, defined};
  }
  if (op == Op::FloorDiv || op == Op::FloorMod || op == Op::CDiv || op == Op::CMod)
    defined = defined && s[1] != constant_term(0, d);
  if (op == Op::MulAcc) {  // may round in between
    const z3::expr product[] = {s[0], s[1]};
    const z3::expr p = is_float(d)        ? float_op(Op::Mul, d, product)
                       : d == DType::Bool ? bool_op(Op::Mul, s[0], s[1])
                                          : integer_op(Op::Mul, d, s[0], s[1]);
    const z3::expr sum[] = {p, s[2]};
    const z3::expr r = is_float(d)        ? float_op(Op::Add, d, sum)
                       : d == DType::Bool ? bool_op(Op::Add, p, s[2])
                                          : integer_op(Op::Add, d, p, s[2]);
    return {node, r, poison, defined};
  }
  if (is_float(d)) {
    const z3::expr r = float_op(op, d, s);
    if (op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::FDiv || op == Op::Reciprocal)
      assume_in_range(r, s);
    return {node, r, poison, defined};
  }
  if (s.size() == 1) {
    if (op == Op::Trunc) return {node, s[0], poison, defined};
    if (op == Op::Neg && d == DType::Bool) return {node, s[0], poison, defined};  // 0 - 1 is true
    if (op == Op::Neg) return {node, -s[0], poison, defined};
    return {node, unknown_function(op, d, s), poison, defined};
  }
  return {node, d == DType::Bool ? bool_op(op, s[0], s[1]) : integer_op(op, d, s[0], s[1]), poison, defined};
}

z3::expr Semantics::same(const Value& a, const Value& b) {
  if (!z3::eq(a.term.get_sort(), b.term.get_sort())) throw Unsupported("the sides have different dtypes");
  if (!a.term.is_fpa()) return a.term == b.term;
  return (is_nan(a.term) && is_nan(b.term)) || z3::expr(z_, Z3_mk_fpa_eq(z_, a.term, b.term));
}

z3::expr Semantics::equals(const Value& v, const Scalar& s) {
  const Value c{v.node, constant_term(s, v.node.dtype()), v.poison, v.defined};
  return same(v, c);
}

}  // namespace lathe::proof
