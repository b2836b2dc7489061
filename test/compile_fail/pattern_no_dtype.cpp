// EXPECT: dtype_predicate_accepts_no_dtype
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x.dtypes(is_float) + 0, x));
#else
constexpr auto kRules = rules(rule(x.dtype(DType::Bool).dtypes(is_float) + 0, x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
