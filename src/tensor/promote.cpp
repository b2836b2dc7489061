#include "tensor/promote.h"

#include <fmt/format.h>

namespace lathe {

UOp weak_literal(const Scalar& v, DType d) {
  if (v.is_invalid()) return invalid();
  if (is_float(d)) return constant(Scalar(v.as_double()));
  if (is_int(d)) return constant(Scalar(v.as_int()));
  return constant(Scalar(v.as_bool()));
}

UOp promote(const UOp& x, DType d) {
  if (is_weak_literal(x)) return weak_literal(x.value(), d);
  return cast(x, d);
}

UOp promoted_alu(Op op, const UOp& a, const UOp& b) {
  const DType d = join(a.dtype(), b.dtype());
  return alu(op, {promote(a, d), promote(b, d)});
}

std::string dtype_text(DType d) { return fmt::format("dtypes.{}", dtype_name(d)); }

std::string to_text(const Ints& v) {
  std::string out = "(";
  for (size_t i = 0; i < v.size(); i++) out += (i ? ", " : "") + std::to_string(v[i]);
  return out + (v.size() == 1 ? ",)" : ")");
}

}  // namespace lathe
