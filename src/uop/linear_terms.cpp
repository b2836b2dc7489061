#include "uop/linear_terms.h"

#include "uop/eval.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr int128 kLimit = static_cast<int128>(1) << 120;  // sums of a few such values cannot overflow

bool in_limit(int128 v) { return v < kLimit && v > -kLimit; }

bool is_weak(const UOp& u, Op op) { return u.op() == op && u.dtype() == DType::WeakInt; }
bool is_int_const(const UOp& u) { return u.is_const() && (u.value().is_int() || u.value().is_bool()); }

bool multiply(int128 a, int128 b, int128* out) {
  return !__builtin_mul_overflow(a, b, out) && in_limit(*out);
}

struct Product {
  int128 constant = 1;
  SmallVec<UOp, 8> factors;  // in structural order, repeated factors listed again
};

// The base of a term in normal form, and its factor.
const UOp& base_of(const UOp& term) {
  return is_weak(term, Op::Mul) && is_int_const(term.src(1)) ? term.src(0) : term;
}
int128 factor_of(const UOp& term) { return &base_of(term) == &term ? 1 : term.src(1).value().as_int(); }

// A multiple of a sum, which the normal form distributes.
bool scales_sum(const UOp& term) {
  const UOp* u = &term;
  while (u != &base_of(*u)) u = &base_of(*u);
  return u != &term && is_weak(*u, Op::Add);
}

// Adds the terms of a multiple of a sum; false where the result leaves 120 bits or has too many terms. A
// multiple of an inner sum is one term unless it `distributes`.
bool add_terms(LinearSum& to, Term first, bool distributes) {
  SmallVec<Term, 8> stack{std::move(first)};
  while (!stack.empty()) {
    Term t = stack.back();
    stack.pop_back();
    if (is_weak(t.base, Op::Add)) {
      stack.push_back({t.base.src(1), t.factor});
      stack.push_back({t.base.src(0), t.factor});
      continue;
    }
    const bool whole = !distributes && scales_sum(t.base);
    int128 value = 0;
    if (is_int_const(t.base)) {
      if (!multiply(t.base.value().as_int(), t.factor, &value) || !in_limit(to.constant + value))
        return false;
      to.constant += value;
    } else if (!multiply(t.factor, factor_of(t.base), &value)) {
      return false;
    } else if (base_of(t.base) == t.base || whole) {
      if (to.terms.size() >= LinearSum::kMaxTerms) return false;
      to.terms.push_back({base_of(t.base), value});
    } else {
      stack.push_back({base_of(t.base), value});
    }
  }
  return true;
}

bool structurally_before(const UOp& a, const UOp& b) { return compare_structure(a, b) < 0; }

std::optional<Product> product_of(const UOp& u) {
  Product p;
  for (const UOp& f : split_operands(u, Op::Mul)) {
    if (is_int_const(f)) {
      if (!multiply(p.constant, f.value().as_int(), &p.constant)) return std::nullopt;
    } else {
      p.factors.push_back(f);
    }
  }
  // The content of a sum stands apart, so that it is one factor however the constants came in.
  for (UOp& f : p.factors) {
    std::optional<LinearSum> s = f.op() == Op::Add ? LinearSum::of(f) : std::nullopt;
    if (!s || s->terms.empty()) continue;
    const int128 content = gcd(s->terms_gcd(), s->constant) * (s->terms[0].factor < 0 ? -1 : 1);
    if (content == 1) continue;
    if (!multiply(p.constant, content, &p.constant)) return std::nullopt;
    s->constant /= content;
    f = s->divide_terms(content).to_uop();
  }
  std::sort(p.factors.begin(), p.factors.end(), structurally_before);
  return p;
}

UOp to_uop(const Product& p) {
  if (p.factors.empty()) return constant(Scalar(p.constant));
  // A lone sum takes the constant in.
  if (LinearSum s;
      p.factors.size() == 1 && p.factors[0].op() == Op::Add && s.add_scaled(p.factors[0], p.constant)) {
    return s.normalize().to_uop();
  }
  const UOp chain = join_operands({p.factors.data(), p.factors.size()}, Op::Mul, {});
  return p.constant == 1 ? chain : alu(Op::Mul, {chain, constant(Scalar(p.constant))});
}

// The quotient of one product by another, null where factors of `v` are missing.
std::optional<Product> quotient(const Product& u, const Product& v) {
  if (v.constant == 0 || u.constant % v.constant != 0) return std::nullopt;
  Product q{u.constant / v.constant, u.factors};
  for (const UOp& f : v.factors) {
    const auto it = std::find(q.factors.begin(), q.factors.end(), f);
    if (it == q.factors.end()) return std::nullopt;
    q.factors.erase(it);
  }
  return q;
}

}  // namespace

SmallVec<UOp, 8> split_operands(const UOp& u, Op op) {
  SmallVec<UOp, 8> out, stack{u};
  while (!stack.empty()) {
    const UOp top = stack.back();
    stack.pop_back();
    if (top.op() == op && top.dtype() == u.dtype()) {
      stack.push_back(top.src(1));
      stack.push_back(top.src(0));
    } else {
      out.push_back(top);
    }
  }
  return out;
}

UOp join_operands(std::span<const UOp> operands, Op op, const UOp& identity) {
  if (operands.empty()) return identity;
  UOp chain = operands[0];
  for (const UOp& u : operands.subspan(1)) chain = alu(op, {chain, u});
  return chain;
}

void LinearSum::add(const UOp& base, int128 factor) { terms.push_back({base, factor}); }

bool LinearSum::add_scaled(const UOp& u, int128 factor) { return add_terms(*this, {u, factor}, true); }

LinearSum& LinearSum::normalize() {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return structurally_before(a.base, b.base); });
  size_t n = 0;
  for (size_t i = 0; i < terms.size();) {
    int128 factor = 0;
    size_t j = i;
    while (j < terms.size() && terms[j].base == terms[i].base) factor += terms[j++].factor;
    if (factor != 0) terms[n++] = {terms[i].base, factor};
    i = j;
  }
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(n), terms.end());
  return *this;
}

std::optional<LinearSum> LinearSum::of(const UOp& u) {
  LinearSum s;
  if (!s.add_scaled(u, 1)) return std::nullopt;
  return s.normalize();
}

UOp LinearSum::to_uop() const {
  UOp sum;
  for (const Term& t : terms) {
    const UOp term = t.factor == 1 ? t.base : alu(Op::Mul, {t.base, lathe::constant(Scalar(t.factor))});
    sum = sum ? alu(Op::Add, {sum, term}) : term;
  }
  if (!sum) return lathe::constant(Scalar(constant));
  return constant == 0 ? sum : alu(Op::Add, {sum, lathe::constant(Scalar(constant))});
}

int128 LinearSum::terms_gcd() const {
  int128 g = 0;
  for (const Term& t : terms) g = gcd(g, t.factor);
  return g;
}

LinearSum& LinearSum::divide_terms(int128 c) {
  for (Term& t : terms) t.factor /= c;
  return *this;
}

std::optional<int128> LinearSum::take_multiple(const LinearSum& x) {
  SmallVec<Term, 8> rest = terms;
  std::optional<int128> m;
  for (const Term& t : x.terms) {
    const auto it = std::find_if(rest.begin(), rest.end(), [&](const Term& o) { return o.base == t.base; });
    if (it == rest.end() || it->factor % t.factor != 0 ||
        m.value_or(it->factor / t.factor) != it->factor / t.factor)
      return std::nullopt;
    m = it->factor / t.factor;
    rest.erase(it);
  }
  if (m) terms = std::move(rest);
  return m;
}

std::optional<IntInterval> interval_of(const LinearSum& s) {
  IntInterval out{s.constant, s.constant};
  for (const Term& t : s.terms) {
    const Bounds& b = t.base.bounds();
    int128 at_lo = 0, at_hi = 0;
    if (!multiply(b.lo.as_int(), t.factor, &at_lo) || !multiply(b.hi.as_int(), t.factor, &at_hi))
      return std::nullopt;
    out.lo += t.factor > 0 ? at_lo : at_hi;
    out.hi += t.factor > 0 ? at_hi : at_lo;
    if (!in_limit(out.lo) || !in_limit(out.hi)) return std::nullopt;
  }
  return out;
}

bool fits(const Bounds& b, DType d) { return !b.lo.less(min_value(d)) && !max_value(d).less(b.hi); }

int128 const_factor(const UOp& u) {
  if (is_int_const(u)) return u.value().as_int();
  if (u.op() == Op::Add) {
    int128 g = 0;
    for (const UOp& t : split_operands(u, Op::Add)) g = gcd(g, const_factor(t));
    return g;
  }
  if (u.op() == Op::Stack) {
    int128 g = 0;
    for (const UOp& lane : u.srcs()) g = gcd(g, lane.op() == Op::Stack ? 1 : const_factor(lane));
    return g;
  }
  if (u.op() == Op::Mul)
    for (const UOp& f : u.srcs())
      if (is_int_const(f)) return f.value().as_int();
  if (u.op() == Op::Shl && is_int_const(u.src(1)))
    return const_factor(u.src(0)) << static_cast<int>(u.src(1).value().as_int());
  if (u.op() == Op::Param && u.param().multiple_of != 0) return u.param().multiple_of;
  return 1;
}

UOp divides(const UOp& u, int128 c) {
  if (c == 1) return u;
  if (is_int_const(u)) return u.value().as_int() % c == 0 ? constant(Scalar(u.value().as_int() / c)) : UOp();
  if (u.op() == Op::Add || u.op() == Op::Mul) {
    std::optional<LinearSum> s = LinearSum::of(u);
    if (!s || s->constant % c != 0) return {};
    s->constant /= c;
    for (Term& t : s->terms) {
      if (t.factor % c == 0) {
        t.factor /= c;
      } else {
        const UOp q = t.base.op() == Op::Param ? divides(t.base, c / gcd(c, t.factor)) : UOp();
        if (!q) return {};
        t = {q, t.factor / gcd(c, t.factor)};
      }
    }
    return s->normalize().to_uop();
  }
  if (u.op() == Op::Param && u.param().multiple_of % c == 0)
    return alu(Op::FloorDiv, {u, constant(Scalar(c))});
  return {};
}

UOp divide_exact(const UOp& u, const UOp& v) {
  if (u == v) return constant(1);
  if (is_int_const(v)) return v.value().as_int() == 0 ? UOp() : divides(u, v.value().as_int());
  const std::optional<Product> divisor = product_of(v);
  if (!divisor) return {};
  if (u.op() == Op::Add) {  // a sum that is itself a factor is handled as a product of one factor first
    LinearSum out;
    for (const UOp& t : split_operands(u, Op::Add)) {
      const std::optional<Product> p = product_of(t);
      const std::optional<Product> q = p ? quotient(*p, *divisor) : std::nullopt;
      if (!q || !out.add_scaled(to_uop(*q), 1)) return {};
    }
    return out.normalize().to_uop();
  }
  const std::optional<Product> p = product_of(u);
  const std::optional<Product> q = p ? quotient(*p, *divisor) : std::nullopt;
  return q ? to_uop(*q) : UOp();
}

UOp common_factor(std::span<const UOp> list) {
  std::optional<Product> common;
  for (const UOp& u : list) {
    for (const UOp& t : split_operands(u, Op::Add)) {
      std::optional<Product> p = product_of(t);
      if (!p) return constant(1);
      if (!common) {
        common = std::move(p);
        if (common->constant < 0) common->constant = -common->constant;
        continue;
      }
      common->constant = gcd(common->constant, p->constant);
      SmallVec<UOp, 8> kept;
      for (const UOp& f : common->factors) {
        const auto it = std::find(p->factors.begin(), p->factors.end(), f);
        if (it == p->factors.end()) continue;
        p->factors.erase(it);
        kept.push_back(f);
      }
      common->factors = std::move(kept);
    }
  }
  return common ? to_uop(*common) : constant(1);
}

namespace {

// u = sum + t where the sum is in order and t comes after its last term: nothing to do.
bool extends_sum(const UOp& u) {
  const UOp &sum = u.src(0), &t = u.src(1);
  const UOp& last = is_weak(sum, Op::Add) ? sum.src(1) : sum;
  if (is_int_const(last)) return false;
  if (is_int_const(t)) return !t.is_const(Scalar(0));
  const UOp& base = base_of(t);
  return !is_weak(t, Op::Add) && !is_int_const(base) && structurally_before(base_of(last), base);
}

bool extends_normal_product(const UOp& u) {
  const UOp &product = u.src(0), &f = u.src(1);
  if (is_int_const(product) || (is_weak(product, Op::Mul) && is_int_const(product.src(1)))) return false;
  if (is_int_const(f)) return !is_weak(product, Op::Add) && !f.is_const(Scalar(0)) && !f.is_const(Scalar(1));
  const UOp& last = is_weak(product, Op::Mul) ? product.src(1) : product;
  return !is_weak(f, Op::Mul) && !is_weak(f, Op::Add) && !is_weak(last, Op::Add) &&
         compare_structure(last, f) <= 0;
}

}  // namespace

Term last_term(const UOp& sum) { return {base_of(sum.src(1)), factor_of(sum.src(1))}; }

bool any_term(const UOp& sum, FunctionRef<bool(const UOp& base, int128 factor)> f) {
  const auto holds = [&](const UOp& term) { return f(base_of(term), factor_of(term)); };
  const UOp* at = &sum;
  for (; is_weak(*at, Op::Add); at = &at->src(0))
    if (holds(at->src(1))) return true;
  return holds(*at);
}

UOp normalize_sum(const UOp& u) {
  if (extends_sum(u) && !is_weak(base_of(u.src(1)), Op::Add)) return {};
  const std::optional<LinearSum> s = LinearSum::of(u);
  if (!s) return {};
  const UOp sum = s->to_uop();
  return sum == u ? UOp() : sum;
}

UOp order_sum(const UOp& u) {
  if (extends_sum(u)) return {};
  LinearSum s;
  if (!add_terms(s, {u, 1}, false)) return {};
  std::vector<const Node*> bases;
  for (const Term& t : s.terms) bases.push_back(t.base.node());
  std::sort(bases.begin(), bases.end());
  const auto n_bases = std::unique(bases.begin(), bases.end()) - bases.begin();
  if (std::ssize(s.normalize().terms) != n_bases) return {};
  const UOp sum = s.to_uop();
  return sum == u ? UOp() : sum;
}

UOp normalize_product(const UOp& u) {
  if (extends_normal_product(u)) return {};
  if (is_int_const(u.src(1)) && u.src(0).op() == Op::Add) {
    LinearSum s;
    return s.add_scaled(u, 1) ? s.normalize().to_uop() : UOp();
  }
  const std::optional<Product> p = product_of(u);
  if (!p) return {};
  if (p->constant == 0) return constant(0);
  const UOp product = to_uop(*p);
  return product == u ? UOp() : product;
}

UOp normalize_chain(const UOp& u) {
  SmallVec<UOp, 8> all = split_operands(u, u.op());
  constexpr size_t kMaxOperands = 32;  // the search below is quadratic
  if (all.size() > kMaxOperands) return {};
  std::sort(all.begin(), all.end(), structurally_before);
  SmallVec<UOp, 8> kept;
  UOp number;
  for (const UOp& x : all) {
    if (is_int_const(x)) {
      const Scalar values[2] = {x.value(), number ? number.value() : x.value()};
      number = constant(*eval(u.op(), u.dtype(), values));
    } else if (kept.empty() || !(kept.back() == x)) {
      kept.push_back(x);
    }
  }
  if (number) kept.push_back(number);
  // Of two that are one number for certain the first stays.
  auto exceeded = [&](size_t i) {
    for (size_t j = 0; j < kept.size(); j++) {
      const Scalar &hi = kept[i].bounds().hi, &lo = kept[j].bounds().lo;
      if (i != j && (hi.less(lo) || (hi.equals(lo) && (j < i || !kept[i].bounds().is_single())))) return true;
    }
    return false;
  };
  SmallVec<UOp, 8> largest;
  for (size_t i = 0; i < kept.size(); i++)
    if (u.op() != Op::Max || !exceeded(i)) largest.push_back(kept[i]);
  const UOp chain = join_operands(largest, u.op(), {});
  return chain == u ? UOp() : chain;
}

}  // namespace lathe
