// Whatever the bytes: an error, or a trace whose sums and graphs can be asked for.
#include "viz/trace.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto trace = lathe::read_trace(std::as_bytes(std::span(data, size)), "fuzz");
  if (!trace.ok()) {
    if (trace.error().offset > size || trace.error().text.empty()) std::abort();
    return 0;
  }
  const lathe::Trace& t = trace.value();
  if (t.cut_at && *t.cut_at > size) std::abort();
  const lathe::TraceTotals totals = lathe::total(t);
  if (totals.rules.size() != t.rules.size() || totals.rewrites > t.events.size()) std::abort();
  if (!t.nodes.empty() &&
      t.graph_text(static_cast<uint32_t>(t.nodes.size() - 1), 1000).size() > 2000 * (size + 30))
    std::abort();
  return 0;
}
