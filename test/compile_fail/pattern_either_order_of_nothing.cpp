// EXPECT: either_order_finds_no_commutative_op
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(either_order(x * y / z), x));
#else
constexpr auto kRules = rules(rule(either_order(x / y), x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
