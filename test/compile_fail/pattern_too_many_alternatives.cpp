// EXPECT: pattern_has_too_many_alternatives
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(either_order(x * y + z * w + u), x));
#else
constexpr auto kRules = rules(rule(either_order(x * y + z * w + u * v + a), x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
