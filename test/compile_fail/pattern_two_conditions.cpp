// EXPECT: rule_has_two_conditions
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

bool yes(const Match&) { return true; }

#ifdef CONTROL
constexpr auto kRules = rules(rule(x + 0, x).when(yes));
#else
constexpr auto kRules = rules(rule(x + 0, x).when(yes).when(yes));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
