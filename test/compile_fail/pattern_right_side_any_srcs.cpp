// EXPECT: right_side_needs_exact_sources
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x + y, op<Op::Group>(x, y)));
#else
constexpr auto kRules = rules(rule(x + y, op<Op::Group>(x, any_srcs())));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
