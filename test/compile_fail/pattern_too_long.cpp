// EXPECT: pattern_is_too_long
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

constexpr auto kSix = x * y + z * w + u * v;
#ifdef CONTROL
constexpr auto kRules = rules(rule(kSix + kSix, x));
#else
constexpr auto kRules = rules(rule(kSix + kSix + kSix, x));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
