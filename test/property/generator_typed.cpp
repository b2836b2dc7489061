#include "property/generator.h"
#include "property/numbers.h"

#include <string>

namespace lathe::test {
namespace {

UOp number(int64_t v) { return constant(Scalar(v)); }

}  // namespace

UOp Generator::typed_leaf(DType d) {
  if (random_.one_in(4)) {  // a literal, weak or typed, or beyond the type
    if (is_float(d))
      return random_.one_in(2) ? constant(Scalar(random_.pick(kReals))) : constant(d, random_.pick(kReals));
    if (is_bool(d)) return constant(Scalar(random_.one_in(2)));
    const int64_t v = random_.pick(kConstants);
    return random_.one_in(3) ? constant(d, Scalar(v)) : number(v);
  }
  if (!is_float(d) && random_.one_in(4)) return cast(indices_[random_.below(indices_.size())], d);
  const char name = static_cast<char>('s' + random_.below(3));
  const std::string full = std::string(1, name) + std::to_string(static_cast<int>(d));
  switch (d) {
    case DType::Bool: return bools_[random_.below(2)];
    case DType::Float32: return name == 's' ? variable(full, -4, 4, d) : variable(full, 1, 9, d);
    case DType::UInt8: return name == 's' ? variable(full, 0, 255, d) : variable(full, 0, 9, d);
    case DType::Int64: return name == 's' ? variable(full, -k62, k62, d) : variable(full, -9, 100, d);
    default:
      return name == 's' ? variable(full, -k31, k31 - 1, d) : variable(full, name == 't' ? 0 : -9, 50, d);
  }
}

UOp Generator::typed(DType d, int depth) {
  if (is_bool(d)) return typed_condition(depth);
  return is_float(d) ? real(depth) : typed_int(d, depth);
}

UOp Generator::typed_int(DType d, int depth) {
  if (depth <= 0 || random_.one_in(8)) return typed_leaf(d);
  constexpr DType kTypes[] = {DType::Int32, DType::Int64, DType::UInt8, DType::Float32, DType::Bool};
  auto operand = [&] { return typed_int(d, depth - 1); };
  // At least one side of the type.
  auto anchored = [&] { return cast(operand(), d); };
  auto literal = [&] {
    return random_.one_in(3) ? constant(d, Scalar(random_.pick(kConstants))) : index_constant();
  };
  switch (random_.below(20)) {
    case 0:
    case 1: return anchored() + operand();
    case 2: return anchored() + literal();
    case 3: return anchored() * operand();
    case 4: return anchored() * literal();
    case 5: return maximum(anchored(), operand());
    case 6: return minimum(anchored(), operand());
    case 7: return anchored() / number(divisor());
    case 8: return anchored() % number(divisor());
    case 9: return anchored() / operand();
    case 10: return anchored() & literal();
    case 11: return anchored() | operand();
    case 12: return anchored() ^ operand();
    case 13: return anchored() << number(random_.between(0, 9));
    case 14: return (anchored() & literal()) >> number(random_.between(0, 9));
    case 15: return cast(typed(random_.pick(kTypes), depth - 1), d);
    case 16: return cast(index(depth - 1), d);
    case 17: {
      const UOp x = anchored();
      return x * number(random_.pick(kFactors)) +
             (random_.one_in(2) ? x : operand() * number(random_.pick(kFactors)));
    }
    case 18: {
      const UOp c = typed_condition(depth - 2);
      return where(c, anchored(), literal()) + where(c, operand(), literal());
    }
    default: return where(typed_condition(depth - 1), anchored(), operand());
  }
}

UOp Generator::real(int depth) {
  constexpr DType d = DType::Float32;
  if (depth <= 0 || random_.one_in(8)) return cast(typed_leaf(d), d);
  auto literal = [&] { return constant(Scalar(random_.pick(kReals))); };
  switch (random_.below(12)) {
    case 0: return real(depth - 1) + real(depth - 1);
    case 1: return real(depth - 1) * real(depth - 1);
    case 2:
    case 3: return real(depth - 1) * literal();
    case 4: return real(depth - 1) + literal();
    case 5: return maximum(real(depth - 1), real(depth - 1));
    case 6: return -real(depth - 1);
    case 7: return alu(Op::Reciprocal, {real(depth - 1) * literal()});
    case 8: return cast(typed_int(random_.one_in(2) ? DType::Int32 : DType::UInt8, depth - 1), d);
    case 9: return alu(Op::Trunc, {real(depth - 1)});
    case 10: return cast(cast(real(depth - 1), random_.one_in(2) ? DType::Float64 : DType::Float16), d);
    default: return where(typed_condition(depth - 1), real(depth - 1), literal());
  }
}

UOp Generator::typed_condition(int depth) {
  if (depth <= 0) return bools_[random_.below(2)];
  constexpr DType kTypes[] = {DType::Int32, DType::Int64, DType::UInt8, DType::Float32};
  const DType d = random_.pick(kTypes);
  auto literal = [&] { return is_float(d) ? constant(Scalar(random_.pick(kReals))) : index_constant(); };
  switch (random_.below(11)) {
    case 0: return typed_condition(depth - 1) & typed_condition(depth - 1);
    case 1: return typed_condition(depth - 1) | typed_condition(depth - 1);
    case 2: return logical_not(typed_condition(depth - 1));
    case 3: return maximum(typed_condition(depth - 1), typed_condition(depth - 1));
    case 4: return typed_condition(depth - 1) ^ typed_condition(depth - 1);
    case 5: return cast(cast(typed(d, depth - 1), d), DType::Bool);
    case 6: return ne(cast(typed(d, depth - 1), d), literal());
    case 7: return lt(literal(), cast(typed(d, depth - 1), d));
    case 8: return ne(cast(typed_condition(depth - 1), d), literal());
    case 9: return lt(cast(typed(d, depth - 1), d), typed(d, depth - 1));
    default: return lt(cast(typed(d, depth - 1), d), literal());
  }
}

}  // namespace lathe::test
