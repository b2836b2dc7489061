// EXPECT: right_side_needs_a_single_op
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(x + y, op<Op::Xor>(x, y)));
#else
constexpr auto kRules = rules(rule(x + y, any_op<kAluOps>(x, y)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
