// Index expressions as sums of constant multiples, and products as lists of factors.
#pragma once
#include "base/function_ref.h"
#include "base/small_vec.h"
#include "uop/uop.h"

#include <optional>
#include <span>
#include <utility>

namespace lathe {

// Rounded towards minus infinity, and the matching remainder (it has the sign of b). b != 0.
constexpr int128 floor_div(int128 a, int128 b) {
  const int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
constexpr int128 floor_mod(int128 a, int128 b) {
  const int128 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
constexpr int128 magnitude(int128 v) { return v < 0 ? -v : v; }
// Non-negative; gcd(0, x) is |x|.
constexpr int128 gcd(int128 a, int128 b) {
  while (b != 0) {
    const int128 r = a % b;
    a = b;
    b = r;
  }
  return magnitude(a);
}

inline UOp number(int128 v) { return constant(Scalar(v)); }

struct Term {
  UOp base;  // neither a sum, nor a constant, nor a product with a constant
  int128 factor;
};

// The exact value `constant + Σ factor·base` of a weakint expression. Bases are distinct, in structural
// order, and no factor is 0, so equal sums have equal forms.
struct LinearSum {
  SmallVec<Term, 8> terms;
  int128 constant = 0;

  // nullopt where an intermediate leaves 120 bits or the sum has more than kMaxTerms terms.
  static std::optional<LinearSum> of(const UOp& u);
  static constexpr size_t kMaxTerms = 512;

  void add(const UOp& base, int128 factor);      // call normalize() afterwards
  bool add_scaled(const UOp& u, int128 factor);  // false as `of`; call normalize() afterwards
  LinearSum& normalize();
  // Terms first, left-associated, then the constant.
  UOp to_uop() const;
  int128 terms_gcd() const;           // of the factors; 0 without terms
  LinearSum& divide_terms(int128 c);  // every factor by c, which divides it
  // Takes m times the terms of `x` out and returns m; nothing where the sum does not have them for any m.
  std::optional<int128> take_multiple(const LinearSum& x);
};

// Inclusive bounds of a sum; nullopt where a bound leaves 120 bits.
struct IntInterval {
  int128 lo, hi;
};
std::optional<IntInterval> interval_of(const LinearSum& s);

// All values in the bounds are values of the integer type.
bool fits(const Bounds& b, DType d);

// Operands of nested uses of one associative op of one dtype, left to right.
SmallVec<UOp, 8> split_operands(const UOp& u, Op op);
// A left-associated chain; `identity` when there are no operands.
UOp join_operands(std::span<const UOp> operands, Op op, const UOp& identity);

// Largest integer known to divide the value: of a constant itself, of a sum the gcd of its terms, of a
// product its constant, of a variable its multiple_of, of a Stack the gcd of its lanes.
int128 const_factor(const UOp& u);
// u/c where that is an integer expression for certain, else null. c != 0.
UOp divides(const UOp& u, int128 c);
// u/v where every term of u contains the factors of v, else null.
UOp divide_exact(const UOp& u, const UOp& v);
// The product of the constant and the factors common to all.
UOp common_factor(std::span<const UOp> list);

// Whether `f` holds of some term of a sum in normal form, the last term first.
bool any_term(const UOp& sum, FunctionRef<bool(const UOp& base, int128 factor)> f);
// The last term of a weakint sum.
Term last_term(const UOp& sum);
// Sums and products of weakints in normal form: like terms combined, operands in structural order, constants
// last and constant factors distributed over sums. The sources of `u` are in normal form; null where `u` is,
// too.
UOp normalize_sum(const UOp& u);
UOp normalize_product(const UOp& u);
// The terms of a sum whose sources are in no normal form yet, like ones combined, in order. A multiple of an
// inner sum is one term: its own terms may still change, and with them what distributing would give. Null
// also where a term would vanish: its base may turn out to be Invalid, and then the sum is.
UOp order_sum(const UOp& u);
// The same of a weakint Max, And or Or: operands once each, in structural order, the constant last; of a Max
// only those that no other one exceeds for certain.
UOp normalize_chain(const UOp& u);

}  // namespace lathe
