// EXPECT: right_side_uses_an_unbound_variable
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(one_of(x + y, x* y), x ^ y));
#else
constexpr auto kRules = rules(rule(one_of(x + y, sqrt(x)), x ^ y));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
