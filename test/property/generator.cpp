#include "property/generator.h"

#include "property/numbers.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace lathe::test {
namespace {

UOp number(int64_t v) { return constant(Scalar(v)); }

}  // namespace

void Generator::declare() {
  const size_t n = 1 + random_.below(4);
  for (size_t i = 0; i < n; i++) {
    const std::string name(1, static_cast<char>('a' + i));
    if (random_.one_in(3)) {
      const bool symbolic = !indices_.empty() && random_.one_in(8);
      const UOp end = symbolic ? indices_[0] + 2 : number(random_.pick(kEnds));
      indices_.push_back(range(end, static_cast<int>(i), AxisType::Loop));
    } else if (random_.one_in(16)) {
      indices_.push_back(variable(name, 0, 64, DType::WeakInt, 4));
    } else {
      const auto& [lo, hi] = random_.pick(kBoxes);
      indices_.push_back(variable(name, lo, hi));
    }
  }
  bools_.push_back(variable("p", 0, 1, DType::Bool));
  bools_.push_back(variable("q", 0, 1, DType::Bool));
}

UOp Generator::expression() {
  declare();
  const int depth = random_.one_in(4) ? 4 : random_.one_in(3) ? 2 : 3;
  if (theme_ == Theme::Index) return index_root(depth);
  if (theme_ == Theme::Reduced) return reduced_root();
  if (theme_ == Theme::Gated) return gated_root(depth);
  constexpr DType kTypes[] = {DType::Int32, DType::Int32,   DType::Int64,
                              DType::UInt8, DType::Float32, DType::Bool};
  return typed(random_.pick(kTypes), depth);
}

UOp Generator::index_root(int depth) {
  if (random_.one_in(4)) return condition(depth);
  if (!random_.one_in(24)) return index(depth);
  // Lanes: one expression on a vector of a few others.
  std::vector<UOp> lanes(2 + random_.below(3));
  for (UOp& lane : lanes) lane = random_.one_in(8) ? invalid() : index(1);
  const UOp vector = stack(lanes);
  const UOp worked =
      random_.one_in(2) ? vector * number(random_.pick(kFactors)) + index(1) : vector % number(divisor());
  return random_.one_in(2)
             ? worked
             : lathe::index(worked, number(random_.between(0, static_cast<int64_t>(lanes.size()) - 1)));
}

// Clauses that bound what the index is made of.
UOp Generator::gated_root(int depth) {
  const UOp x = sum(1), y = random_.one_in(2) ? x : index_leaf();
  UOp gate = condition(depth - 2);
  for (size_t n = random_.below(3); n > 0; n--) {
    const UOp& bounded = random_.one_in(2) ? x : y;
    const UOp clause = lt(bounded, index_constant());
    gate = gate & (random_.one_in(2) ? clause : logical_not(clause));
  }
  const UOp i = random_.one_in(2) ? (x + index(depth - 2)) / divisor() + y % divisor()
                                  : index(depth - 1) + x % divisor();
  return where(gate, i, invalid());
}

UOp Generator::reduced_root() {
  constexpr DType kTypes[] = {DType::WeakInt, DType::Int32, DType::Int64, DType::Float32};
  constexpr Op kOps[] = {Op::Add, Op::Add, Op::Add, Op::Add, Op::Max, Op::Mul};
  constexpr int64_t kEnds[] = {1, 2, 3, 4, 5, 6, 8};
  const DType d = random_.pick(kTypes);
  UOp out;
  for (size_t depth = random_.one_in(3) ? 2 : 1; depth > 0; depth--) {
    std::vector<UOp> ranges;
    for (size_t n = random_.one_in(3) ? 2 : 1; n > 0; n--) {
      const UOp end =
          random_.one_in(6) ? variable("n", random_.one_in(3) ? 0 : 1, 5) : number(random_.pick(kEnds));
      ranges.push_back(range(end, static_cast<int>(10 * depth + n), AxisType::Reduce));
    }
    const size_t n_outer = indices_.size();
    indices_.insert(indices_.end(), ranges.begin(), ranges.end());
    if (random_.one_in(2)) indices_.insert(indices_.end(), ranges.begin(), ranges.end());  // often, that is
    UOp value = reduced_value(d);
    if (out)
      value = random_.one_in(2) ? out : random_.one_in(2) ? where(condition(1), out, number(0)) : value * out;
    indices_.resize(n_outer);
    std::vector<UOp> srcs{cast(value, d)};
    srcs.insert(srcs.end(), ranges.begin(), ranges.end());
    out = UOp::make(Op::Reduce, DType::Void, srcs, ReduceArg{random_.pick(kOps), 0});
  }
  return out;
}

// One hot, a count, a selection, a product, a sum.
UOp Generator::reduced_value(DType d) {
  const UOp r = indices_.back(), i = random_.one_in(2) ? index_leaf() : sum(1);
  const UOp equal = random_.one_in(2) ? eq(r, i) : eq(r * random_.pick(kFactors), i);
  const UOp below = random_.one_in(2) ? lt(r, i) : lt(i, r + index_leaf());
  const UOp c = random_.one_in(3) ? equal : random_.one_in(2) ? below : condition(2);
  const DType stored = d == DType::WeakInt ? DType::Int32 : d;
  const UOp read = cast(load(lathe::index(param(3, {64}, stored), random_.one_in(2) ? r : sum(1))), d);
  const UOp value = random_.one_in(2) ? read : cast(random_.one_in(2) ? index_leaf() % 7 : number(3), d);
  switch (random_.below(8)) {
    case 0: return where(c, value, constant(d, 0));
    case 1: return where(c, constant(d, 0), value);
    case 2: return cast(c, d) * value;
    case 3: return where(c, value, cast(number(2), d));
    case 4: return where(random_.one_in(2) ? c & condition(1) : c | below, value, constant(d, 0));
    case 5: return value + cast(index_leaf() % 5, d);
    case 6: return value * cast(index_leaf() % 5, d);
    default: return cast(c, d);
  }
}

UOp Generator::index_leaf() {
  return random_.one_in(8) ? index_constant() : indices_[random_.below(indices_.size())];
}
UOp Generator::index_constant() { return number(random_.pick(kConstants)); }
int64_t Generator::divisor() {
  return random_.one_in(8) ? random_.pick(kRareDivisors) : random_.pick(kDivisors);
}

UOp Generator::index(int depth) {
  if (depth <= 0 || random_.one_in(8)) return index_leaf();
  return index_shape(depth);
}

UOp Generator::index_shape(int depth) {
  switch (random_.below(24)) {
    case 0:
    case 1:
    case 2:
    case 3: return sum(depth);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8: return divided(depth);
    case 9:
    case 10:
    case 11: return nested_division(depth);
    case 12:
    case 13: return recombined(depth);
    case 14: return by_symbol(depth);
    case 15: return maximum(index(depth - 1), index(depth - 1));
    case 16: return minimum(index(depth - 1), index(depth - 1));
    case 17: return selected(depth);
    case 18: return correlated(depth);
    case 19: return gated(depth);
    case 20: return bits(depth);
    case 21: return converted(depth);
    case 22: return index(depth - 1) * index(depth - 2);
    default: return index(depth - 1) * random_.pick(kFactors) + index_constant();
  }
}

UOp Generator::sum(int depth) {
  UOp out;
  for (size_t n = 1 + random_.below(4); n > 0; n--) {
    const UOp base = random_.one_in(3) ? index(depth - 1) : index_leaf();
    const int64_t factor = random_.pick(kFactors);
    const UOp term = factor == 1 ? base : base * factor;
    out = out ? out + term : term;
  }
  return random_.one_in(2) ? out + index_constant() : out;
}

UOp Generator::divided(int depth) {
  const UOp x = random_.one_in(3) ? index(depth - 1) : sum(depth - 1);
  return random_.one_in(2) ? x / divisor() : x % divisor();
}

UOp Generator::nested_division(int depth) {
  const UOp x = random_.one_in(2) ? index(depth - 1) : sum(depth - 1);
  const int64_t c = random_.pick(kDivisors), k = random_.pick(kDivisors);
  switch (random_.below(6)) {
    case 0: return (x / c + index_constant()) / divisor();
    case 1: return (x % (c * k)) / c;
    case 2: return (x / c) % k;
    case 3: return (x % c) % divisor();
    case 4: return (x % (c * k)) % c + x / c;
    default: return (x / c * random_.pick(kFactors) + index(depth - 2)) / divisor();
  }
}

// A place in an array of one shape, found again in another shape: the pieces of a number of mixed radix.
UOp Generator::reshaped() {
  constexpr int64_t kSizes[] = {2, 2, 3, 4, 4, 5, 6, 7, 8, 16, 28};
  UOp flat;
  int64_t total = 1;
  for (size_t n = 2 + random_.below(3); n > 0; n--) {
    const int64_t size = random_.pick(kSizes);
    const UOp leaf = index_leaf(), place = random_.one_in(2) ? leaf % size : leaf;
    flat = flat ? flat * size + place : place;
    total *= size;
  }
  if (random_.one_in(3)) flat = flat + index_constant();
  UOp out;
  for (int64_t stride = 1; stride < total;) {
    const int64_t size = random_.pick(kSizes), factor = random_.one_in(2) ? stride : random_.pick(kFactors);
    const UOp place = stride * size >= total ? flat / stride : flat / stride % size;
    out = out ? out + place * factor : place * factor;
    stride *= size;
  }
  return random_.one_in(3) ? where(lt(out, total), out, index_leaf()) : out;
}

// The pieces of a number, put together again or nearly so.
UOp Generator::recombined(int depth) {
  if (random_.one_in(4)) return reshaped();
  const UOp x = random_.one_in(2) ? index_leaf() : sum(depth - 1);
  const int64_t d = random_.pick(kDivisors), e = random_.pick(kDivisors), m = random_.pick(kFactors);
  const UOp low = x % d, high = random_.one_in(2) ? x / d : (x / d) % e;
  const UOp other = random_.one_in(4) ? (x + index_constant()) / d : high;
  UOp out = low * m + other * (random_.one_in(6) ? d : d * m);
  if (random_.one_in(3)) out = out + index(depth - 2);
  return random_.one_in(3) ? out / divisor() : out;
}

// Divisors that are known at run time only, mostly not zero.
UOp Generator::by_symbol(int depth) {
  UOp v = indices_[random_.below(indices_.size())];
  if (!random_.one_in(6)) {
    const Bounds b = v.bounds();
    if (!Scalar(0).less(b.lo) && !b.hi.less(Scalar(0))) v = maximum(v, number(1));
  }
  const UOp a = index(depth - 1);
  const UOp x = random_.one_in(2)   ? a * v + index_leaf()
                : random_.one_in(2) ? a * v * random_.pick(kFactors)
                                    : a;
  const UOp y = random_.one_in(4) ? v * random_.pick(kDivisors) : v;
  return random_.one_in(2) ? x / y : x % y;
}

UOp Generator::selected(int depth) {
  const UOp c = condition(depth - 1);
  return where(c, index(depth - 1), index(depth - 1));
}

// Selections that know of each other's conditions.
UOp Generator::correlated(int depth) {
  const UOp c = condition(depth - 2), a = index(depth - 1), b = index(depth - 2);
  switch (random_.below(6)) {
    case 0: return where(c, where(c, a, b), index_leaf());
    case 1: return where(c, a, number(0)) + where(c, number(0), b);
    case 2: return where(c, a, index_constant()) + where(c, b, index_constant());
    case 3: return where(c, b, where(condition(depth - 2), a, b));
    case 4: return where(logical_not(c), a, where(c, b, a));
    default: return where(c, where(condition(depth - 2), a, b), b);
  }
}

UOp Generator::gated(int depth) {
  const UOp g = condition(depth - 1);
  // A reduction folds values, which Invalid is not.
  if (theme_ == Theme::Reduced || random_.one_in(3)) {
    const UOp buffer = param(static_cast<int>(random_.below(2)), {64}, DType::Int32);
    const UOp read = load(lathe::index(buffer, where(g, index(depth - 1), invalid())));
    const UOp value = random_.one_in(2) ? where(g, read, number(0)) : read;
    return cast(value, DType::WeakInt);
  }
  const UOp x = where(g, index(depth - 1), invalid());
  return random_.one_in(3) ? where(condition(depth - 2), x, index(depth - 2)) : x;
}

UOp Generator::bits(int depth) {
  constexpr int64_t kMasks[] = {0, 1, 3, 5, 7, 8, 15, 255, 511, -1, -2, -8, k31 - 1};
  const UOp x = index(depth - 1);
  switch (random_.below(6)) {
    case 0: return x & number(random_.pick(kMasks));
    case 1: return (x & number(random_.pick(kMasks))) / random_.pick(kDivisors);
    case 2: return x << number(random_.between(0, 5));
    case 3:
      return (random_.one_in(2) ? x & number(random_.pick(kMasks)) : x) >> number(random_.between(0, 5));
    case 4: return x ^ number(random_.one_in(2) ? -1 : random_.pick(kMasks));
    default: return x | number(random_.pick(kMasks));
  }
}

UOp Generator::converted(int depth) {
  if (random_.one_in(2)) return cast(condition(depth - 1), DType::WeakInt);
  constexpr DType kTypes[] = {DType::Int32, DType::Int64, DType::UInt8, DType::Int8, DType::UInt32};
  return cast(cast(index(depth - 1), random_.pick(kTypes)), DType::WeakInt);
}

UOp Generator::comparison(int depth) {
  const UOp x = random_.one_in(3) ? index(depth - 1) : sum(depth - 1);
  switch (random_.below(7)) {
    case 0: return lt(index_constant(), x);
    case 1: return ne(x, index_constant());
    case 2: return lt(x, random_.one_in(2) ? index(depth - 1) : sum(depth - 1));
    case 3: return logical_not(lt(x, index_constant()));
    case 4: return lt(x / divisor(), index_constant());
    case 5: return lt(x % random_.pick(kDivisors), index_constant());
    default: return lt(x, index_constant());
  }
}

// Bounds of one expression, or of few.
UOp Generator::clauses(int depth) {
  const UOp x = random_.one_in(2) ? index_leaf() : sum(depth - 1);
  const int64_t c = random_.pick(kConstants);
  const UOp low = random_.one_in(2) ? lt(x, c) : logical_not(lt(x, c));
  const UOp bound = number(c + random_.between(-3, 3));
  const UOp high = random_.one_in(2) ? lt(bound, x) : lt(random_.one_in(2) ? x : index_leaf(), bound);
  const UOp both = random_.one_in(2) ? low & high : low | high;
  return random_.one_in(3) ? both & condition(depth - 1) : both;
}

UOp Generator::condition(int depth) {
  if (theme_ == Theme::Typed) return typed_condition(depth);
  if (depth <= 0) return random_.one_in(4) ? bools_[random_.below(2)] : lt(index_leaf(), index_constant());
  switch (random_.below(12)) {
    case 0: return condition(depth - 1) & condition(depth - 1);
    case 1: return condition(depth - 1) | condition(depth - 1);
    case 2: return logical_not(condition(depth - 1));
    case 3: return ne(condition(depth - 1), condition(depth - 1));
    case 4: return where(condition(depth - 1), condition(depth - 1), condition(depth - 1));
    case 5: return cast(index(depth - 1), DType::Bool);
    case 6:
    case 7: return clauses(depth);
    default: return comparison(depth);
  }
}

}  // namespace lathe::test
