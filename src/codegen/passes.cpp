#include "codegen/passes.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "uop/print.h"
#include "uop/rewrite.h"

namespace lathe {
namespace {

bool is_off(std::string_view name) {
  const std::string list = "," + knob_str(Knob::PASS_OFF) + ",";
  return list.find("," + std::string(name) + ",") != std::string::npos;
}

}  // namespace

UOp run_passes(const UOp& body, const Target& target, std::span<const Pass> passes) {
  constexpr int kShowPasses = 6;
  UOp u = body;
  for (const Pass& p : passes) {
    if (!knob_str(Knob::PASS_OFF).empty() && is_off(p.name)) continue;
    ErrorContext context([&] { return fmt::format("running pass {}", p.name); });
    const double start = knob(Knob::PASS_TIME) ? now_seconds() : 0;
    TracedPass traced(p.name, u);
    const UOp next = p.run(u, target);
    traced.finish(next);
    if (knob(Knob::PASS_TIME)) debug_line("{:>10.1f} us  {}", (now_seconds() - start) * 1e6, p.name);
    if (knob(Knob::DEBUG) >= kShowPasses && !(next == u)) debug_line("--- {}\n{}", p.name, print(next));
    u = next;
    if (knob(Knob::SPEC)) verify(u, p.level, p.name);
  }
  return u;
}

}  // namespace lathe
