// EXPECT: a rule of another result type than its set
#include "uop/pattern.h"

namespace lathe {
namespace {

using namespace pat;

std::string text(const Match&) { return "+"; }

#ifdef CONTROL
constexpr auto kRules = rules_for<std::string>(rule(x + y, fn(text)));
#else
constexpr auto kRules = rules(rule(x + y, fn(text)));
#endif
static_assert(kRules.rules.size() == 1);

}  // namespace
}  // namespace lathe
