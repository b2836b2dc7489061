// EXPECT: commutative_op_needs_its_constant_on_the_right
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(ne(x * c0, y), x));
#else
constexpr auto kRules = rules(rule(ne(c0 * x, y), x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
