// EXPECT: both_sides_name_this_node
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

#ifdef CONTROL
constexpr auto kRules = rules(rule((x + y).as(z) / 2, z));
#else
constexpr auto kRules = rules(rule((x + y).as(w).as(z) / 2, z));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
