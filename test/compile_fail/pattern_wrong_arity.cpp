// EXPECT: op_has_another_number_of_sources
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule(op<Op::Where>(b, x, x), x));
#else
constexpr auto kRules = rules(rule(op<Op::Where>(b, x), x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
