// EXPECT: right_side_needs_a_dtype
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(sqrt(x), cast(x, DType::Float32)));
#else
constexpr auto kRules = rules(rule(sqrt(x), cast(x)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
