// EXPECT: left_side_is_just_a_variable
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

UOp root(const Match& m) { return m.root(); }

#ifdef CONTROL
constexpr auto kRules = rules(rule(any_op<kEveryOp>(), fn(root)));
#else
constexpr auto kRules = rules(rule(x, fn(root)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
