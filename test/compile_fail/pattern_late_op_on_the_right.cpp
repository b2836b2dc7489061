// EXPECT: late_op_needs_late_rules
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = late_rules(rule(x + y * -1, op<Op::Sub>(x, y)));
#else
constexpr auto kRules = rules(rule(x + y * -1, op<Op::Sub>(x, y)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
