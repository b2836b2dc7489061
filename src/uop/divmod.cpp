#include "uop/fold.h"
#include "uop/linear_terms.h"
#include "uop/simplify.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

UOp floor_quotient(const UOp& x, int128 c) { return alu(Op::FloorDiv, {x, number(c)}); }
UOp floor_remainder(const UOp& x, int128 c) { return alu(Op::FloorMod, {x, number(c)}); }

// Nested divisions are simplified while a division is, and the same ones come up again and again: results are
// kept until the outermost division is done.
class NestedSimplifier {
 public:
  NestedSimplifier() { depth_++; }
  ~NestedSimplifier() {
    if (--depth_ == 0) memo_.clear();
  }
  NestedSimplifier(const NestedSimplifier&) = delete;
  NestedSimplifier& operator=(const NestedSimplifier&) = delete;
  UOp operator()(const UOp& u) const {
    if (const auto it = memo_.find(u); it != memo_.end()) return it->second;
    const UOp simple = simplify(u);
    memo_.emplace(u, simple);
    return simple;
  }

 private:
  static thread_local int depth_;
  static thread_local std::unordered_map<UOp, UOp> memo_;
};
thread_local int NestedSimplifier::depth_ = 0;
thread_local std::unordered_map<UOp, UOp> NestedSimplifier::memo_;

struct Division {
  LinearSum quotient, remainder;
};

// x = c*quotient + remainder, where remainder lies in one period of c: quotient is x//c and remainder is x%c.
std::optional<Division> divide_in_period(const LinearSum& x, int128 c, std::span<const int128> residues) {
  Division out;
  out.remainder.constant = floor_mod(x.constant, c);
  out.quotient.constant = floor_div(x.constant, c);
  for (size_t i = 0; i < x.terms.size(); i++) {
    if (residues[i] != 0) out.remainder.add(x.terms[i].base, residues[i]);
    const int128 whole = x.terms[i].factor - residues[i];
    if (whole != 0) out.quotient.add(x.terms[i].base, whole / c);
  }
  const std::optional<IntInterval> range = interval_of(out.remainder);
  if (!range || floor_div(range->lo, c) != floor_div(range->hi, c)) return std::nullopt;
  const int128 period = floor_div(range->lo, c);
  out.quotient.constant += period;
  out.remainder.constant -= period * c;
  return out;
}

// Congruence: a factor f may be replaced by f mod c or by that minus c. The residue of smaller magnitude is
// taken; both are tried where they tie, and for a lone term.
std::optional<Division> divide_by_congruence(const LinearSum& x, int128 c) {
  constexpr size_t kMaxTies = 4;
  SmallVec<int128, 8> residues;
  SmallVec<size_t, 4> open;  // terms with two candidates
  for (size_t i = 0; i < x.terms.size(); i++) {
    const int128 r = floor_mod(x.terms[i].factor, c), other = r - c;
    const bool tie = r != 0 && (magnitude(r) == magnitude(other) || x.terms.size() == 1);
    if (tie && open.size() < kMaxTies) open.push_back(i);
    residues.push_back(tie || magnitude(r) <= magnitude(other) ? r : other);
  }
  for (uint32_t choice = 0; choice < 1u << open.size(); choice++) {
    SmallVec<int128, 8> chosen = residues;
    for (size_t k = 0; k < open.size(); k++)
      if (choice >> k & 1) chosen[open[k]] -= c;
    if (auto found = divide_in_period(x, c, chosen)) return found;
  }
  return std::nullopt;
}

// Multiples of c leave a division by c > 0, and factors beyond it are reduced. nullopt where nothing leaves.
std::optional<Division> split_multiples(const LinearSum& x, int128 c) {
  if (c <= 0) return std::nullopt;
  Division out;
  out.remainder.constant = x.constant;
  for (const Term& t : x.terms) {
    const int128 whole = magnitude(t.factor) >= c ? floor_div(t.factor, c) : 0;
    if (whole != 0) out.quotient.add(t.base, whole);
    if (t.factor != whole * c) out.remainder.add(t.base, t.factor - whole * c);
  }
  if (out.quotient.terms.empty()) return std::nullopt;
  return out;
}

// Candidates for nesting a division: magnitudes of term factors that divide c properly.
SmallVec<int128, 8> nesting_factors(const LinearSum& x, int128 c) {
  SmallVec<int128, 8> out;
  for (const Term& t : x.terms) {
    const int128 f = magnitude(t.factor);
    if (f > 1 && f < c && c % f == 0 && std::find(out.begin(), out.end(), f) == out.end()) out.push_back(f);
  }
  return out;
}

// x//f, for an f that divides some factor of x.
UOp quotient_by_factor(const LinearSum& x, int128 f) {
  if (const auto whole = divide_by_congruence(x, f)) return whole->quotient.to_uop();
  const auto split = split_multiples(x, f);
  return split->quotient.to_uop() + floor_quotient(split->remainder.to_uop(), f);
}

// For f > 0 and c/f > 0:
//   x//c == (x//f)//(c/f)
//   x%c == f*((x//f) % (c/f)) + x%f, useful where x%f needs no modulo.
// The smallest result over the candidates for f wins; null where there is none.
UOp nest(Op op, const LinearSum& x, int128 c) {
  const NestedSimplifier simplified;
  UOp best;
  size_t best_size = 0;
  for (const int128 f : nesting_factors(x, c)) {
    UOp nested;
    if (op == Op::FloorDiv) {
      nested = floor_quotient(simplified(quotient_by_factor(x, f)), c / f);
    } else {
      const auto low = divide_by_congruence(x, f);
      if (!low) continue;
      nested = floor_remainder(low->quotient.to_uop(), c / f) * number(f) + low->remainder.to_uop();
    }
    nested = simplified(nested);
    const size_t size = toposort(nested).size();
    if (best && size >= best_size) continue;
    best = nested;
    best_size = size;
  }
  return best;
}

// The common factor g > 0 of all terms and c leaves both. With k = g*k1 + k0, 0 <= k0 < g:
// floor((g*y + k)/(g*c')) = floor((y + k1)/c') and the remainders differ by the factor g and by k0. For c' <
// 0 this needs k0 == 0.
struct Reduced {
  LinearSum x;
  int128 g, rest;
};
std::optional<Reduced> reduce_by_gcd(const LinearSum& x, int128 c) {
  const int128 g = gcd(x.terms_gcd(), c);
  const int128 rest = g > 1 ? floor_mod(x.constant, g) : 0;
  if (g <= 1 || x.terms.empty() || (c < 0 && rest != 0)) return std::nullopt;
  Reduced r{x, g, rest};
  r.x.constant = (x.constant - rest) / g;
  r.x.divide_terms(g);
  return r;
}

// ---- constant divisors

UOp quotient_by_constant(const UOp& x, int128 c) {
  if (c == 1) return x;
  if (c == -1) return -x;
  std::optional<LinearSum> s = LinearSum::of(x);
  if (!s) return {};
  // (z//k + a)//c == (z + a*k)//(k*c) for c > 0 and any k: flooring twice by a positive divisor floors once.
  if (c > 0 && s->terms.size() == 1 && s->terms[0].factor == 1 && s->terms[0].base.op() == Op::FloorDiv &&
      s->terms[0].base.src(1).is_const()) {
    const int128 k = s->terms[0].base.src(1).value().as_int();
    LinearSum inner;
    int128 product = 0, shift = 0;
    if (!__builtin_mul_overflow(k, c, &product) && !__builtin_mul_overflow(k, s->constant, &shift) &&
        inner.add_scaled(s->terms[0].base.src(0), 1) && inner.add_scaled(number(shift), 1)) {
      return floor_quotient(inner.normalize().to_uop(), product);
    }
  }
  // (y + k)//c == (y + k%c)//c + k//c
  if (const int128 k = floor_mod(s->constant, c); k != s->constant) {
    const int128 whole = floor_div(s->constant, c);
    s->constant = k;
    return floor_quotient(s->to_uop(), c) + number(whole);
  }
  // (z%(k*c))//c == (z//c)%k for k > 0
  if (x.op() == Op::FloorMod && x.src(1).is_const()) {
    const int128 m = x.src(1).value().as_int();
    if (m % c == 0 && m / c > 0) return floor_remainder(floor_quotient(x.src(0), c), m / c);
  }
  if (const auto whole = divide_by_congruence(*s, c)) return whole->quotient.to_uop();
  if (const auto r = reduce_by_gcd(*s, c)) return floor_quotient(r->x.to_uop(), c / r->g);
  if (UOp nested = nest(Op::FloorDiv, *s, c)) return nested;
  if (const auto split = split_multiples(*s, c))
    return split->quotient.to_uop() + floor_quotient(split->remainder.to_uop(), c);
  return {};
}

// Terms that are multiples of c vanish; a remainder inside, whose divisor times its factor is a multiple of
// c, is its numerator modulo c.
bool drop_multiples(LinearSum& s, int128 c) {
  LinearSum out;
  out.constant = s.constant;
  bool changed = false;
  for (const Term& t : s.terms) {
    const int128 known = t.base.op() == Op::Param ? t.base.param().multiple_of : 1;
    int128 scaled = 0;
    if (t.factor % c == 0 || (!__builtin_mul_overflow(t.factor, known, &scaled) && scaled % c == 0)) {
      changed = true;
      continue;
    }
    if (t.base.op() == Op::FloorMod && t.base.src(1).is_const() &&
        !__builtin_mul_overflow(t.factor, t.base.src(1).value().as_int(), &scaled) && scaled % c == 0) {
      LinearSum inner = out;
      if (inner.add_scaled(t.base.src(0), t.factor)) {
        out = std::move(inner);
        changed = true;
        continue;
      }
    }
    out.add(t.base, t.factor);
  }
  if (changed) s = std::move(out.normalize());
  return changed;
}

UOp remainder_by_constant(const UOp& x, int128 c) {
  if (c == 1 || c == -1) return number(0);
  if (x.op() == Op::FloorMod && x.src(1).is_const(Scalar(c))) return x;
  std::optional<LinearSum> s = LinearSum::of(x);
  if (!s) return {};
  if (const int128 k = floor_mod(s->constant, c); k != s->constant) {
    s->constant = k;
    return floor_remainder(s->to_uop(), c);
  }
  if (drop_multiples(*s, c)) return floor_remainder(s->to_uop(), c);
  if (const auto whole = divide_by_congruence(*s, c)) return whole->remainder.to_uop();
  if (const auto r = reduce_by_gcd(*s, c)) {
    const UOp scaled = floor_remainder(r->x.to_uop(), c / r->g) * number(r->g);
    return r->rest ? scaled + number(r->rest) : scaled;
  }
  if (UOp nested = nest(Op::FloorMod, *s, c)) return nested;
  if (const auto split = split_multiples(*s, c)) return floor_remainder(split->remainder.to_uop(), c);
  return {};
}

// ---- divisors known at run time only

// x = quotient*y + remainder, where terms divide by y.
std::optional<Division> split_exact(const UOp& x, const UOp& y) {
  Division out;
  bool any = false;
  for (const UOp& t : split_operands(x, Op::Add)) {
    const UOp q = t.is_const() ? UOp() : divide_exact(t, y);
    any = any || q;
    if (!(q ? out.quotient.add_scaled(q, 1) : out.remainder.add_scaled(t, 1))) return std::nullopt;
  }
  if (!any) return std::nullopt;
  out.quotient.normalize();
  out.remainder.normalize();
  return out;
}

UOp fold_symbolic(Op op, const UOp& x, const UOp& y) {
  const bool div = op == Op::FloorDiv;
  if (x == y) return number(div ? 1 : 0);
  if (const UOp q = divide_exact(x, y)) return div ? q : number(0);
  if (const auto s = split_exact(x, y)) {
    const UOp rest = alu(op, {s->remainder.to_uop(), y});
    return div ? s->quotient.to_uop() + rest : rest;
  }
  // (g*a)//(g*b) == a//b and (g*a)%(g*b) == g*(a%b) for g != 0; were g 0, the original would divide by 0.
  const UOp both[2] = {x, y};
  const UOp g = common_factor(both);
  if (g.is_const(Scalar(1)) || g.is_const(Scalar(0))) return {};
  const UOp a = divide_exact(x, g), b = divide_exact(y, g);
  if (!a || !b) return {};
  const UOp reduced = alu(op, {a, b});
  return div ? reduced : reduced * g;
}

}  // namespace

UOp fold_division(const UOp& u) {
  const UOp &x = u.src(0), &y = u.src(1);
  const bool div = u.op() == Op::FloorDiv;
  const Bounds& divisor = y.bounds();
  if (divisor.lo.equals(0) && divisor.hi.equals(0)) zero_error("division by zero: {}", expression(u));
  if (x.op() == Op::Range && x.src(0) == y) return div ? number(0) : x;  // a loop variable is below its end
  if (!(divisor.lo.less(Scalar(1)) && Scalar(-1).less(divisor.hi))) {    // the divisor keeps one sign
    const UOp quotient = div ? u : alu(Op::FloorDiv, {x, y});
    if (const Bounds& q = quotient.bounds(); q.is_single()) {
      if (div) return constant(q.lo);
      LinearSum rest;
      if (rest.add_scaled(x, 1) && rest.add_scaled(y, -q.lo.as_int())) return rest.normalize().to_uop();
    }
  }
  if (!y.is_const()) return fold_symbolic(u.op(), x, y);
  const int128 c = y.value().as_int();
  return div ? quotient_by_constant(x, c) : remainder_by_constant(x, c);
}

namespace {

// b - a where the difference is a constant.
std::optional<int128> constant_difference(const LinearSum& a, const UOp& b) {
  LinearSum d;
  if (!d.add_scaled(b, 1)) return std::nullopt;
  for (const Term& t : a.terms) d.add(t.base, -t.factor);
  if (!d.normalize().terms.empty()) return std::nullopt;
  return d.constant - a.constant;
}

// One step for the remainder term at position i.
std::optional<LinearSum> recombine_term(const LinearSum& s, size_t i) {
  const Term rem = s.terms[i];
  const int128 d = rem.base.src(1).value().as_int();
  int128 scale = 0;
  if (__builtin_mul_overflow(rem.factor, d, &scale)) return std::nullopt;
  const bool possible = std::any_of(s.terms.begin(), s.terms.end(), [&](const Term& t) {
    return !(t.base == rem.base) && t.factor % scale == 0;
  });
  if (!possible) return std::nullopt;
  const UOp& b = rem.base.src(0);
  const NestedSimplifier simplified;
  const std::optional<LinearSum> quotient = LinearSum::of(simplified(floor_quotient(b, d)));
  if (!quotient || quotient->terms.empty()) return std::nullopt;
  LinearSum rest = s;
  rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(i));
  if (LinearSum all = rest; all.take_multiple(*quotient) == scale) {
    all.constant -= scale * quotient->constant;
    if (!all.add_scaled(b, rem.factor)) return std::nullopt;
    return all.normalize();
  }
  for (size_t j = 0; j < rest.terms.size(); j++) {
    const Term& t = rest.terms[j];
    if (t.factor != scale || t.base.op() != Op::FloorMod || !t.base.src(1).is_const()) continue;
    const int128 e = t.base.src(1).value().as_int();
    const std::optional<int128> shift = e > 0 ? constant_difference(*quotient, t.base.src(0)) : std::nullopt;
    if (!shift) continue;
    const UOp whole = floor_remainder(simplify(alu(Op::Add, {b, number(*shift * d)})), d * e);
    rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(j));
    if (!rest.add_scaled(whole, rem.factor)) return std::nullopt;
    return rest.normalize();
  }
  return std::nullopt;
}

}  // namespace

UOp recombine_divmod(const UOp& sum) {
  const auto is_remainder = [](const UOp& base) {
    return base.op() == Op::FloorMod && base.src(1).is_const() && base.dtype() == DType::WeakInt;
  };
  // What is before the last term is simple already: the last one has to be the remainder or to belong to its
  // quotient.
  const Term last = last_term(sum);
  if (last.base.is_const()) return {};
  const auto may_combine = [&](const UOp& base, int128 factor) {
    int128 scale = 0;
    return is_remainder(base) && !__builtin_mul_overflow(factor, base.src(1).value().as_int(), &scale) &&
           scale != 0 && last.factor % scale == 0;
  };
  if (!is_remainder(last.base) && !any_term(sum.src(0), may_combine)) return {};
  const std::optional<LinearSum> s = LinearSum::of(sum);
  if (!s || s->terms.size() < 2) return {};
  for (size_t i = 0; i < s->terms.size(); i++) {
    if (!is_remainder(s->terms[i].base)) continue;
    if (const auto better = recombine_term(*s, i)) return better->to_uop();
  }
  return {};
}

}  // namespace lathe
