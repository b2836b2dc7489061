// EXPECT: right_side_cannot_test_a_node
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x + y, x));
#else
constexpr auto kRules = rules(rule(x + y, x.dtypes(is_float)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
