// EXPECT: right_side_uses_an_unbound_variable
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x + 0, x));
#else
constexpr auto kRules = rules(rule(x + 0, y));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
