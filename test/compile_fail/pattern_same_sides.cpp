// EXPECT: right_side_equals_left_side
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x / y, x % y));
#else
constexpr auto kRules = rules(rule(x / y, x / y));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
