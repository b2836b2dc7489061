// EXPECT: late_op_needs_late_rules
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = late_rules(rule(op<Op::Sub>(x, y), x));
#else
constexpr auto kRules = rules(rule(op<Op::Sub>(x, y), x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
