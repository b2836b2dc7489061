#include "codegen/passes.h"

#include "codegen/actions.h"
#include "codegen/lower.h"
#include "golden/golden.h"
#include "renderer/cstyle.h"
#include "schedule/schedule.h"
#include "schedule/shard.h"
#include "uop/access_bounds.h"
#include "uop/print.h"
#include "uop/simplify.h"
#include "uop/spec.h"

namespace lathe::test {
namespace {

// A pass over graphs, as a row's function.
GoldenFunction graph_pass(UOp (*pass)(const UOp&)) {
  return [pass](const GoldenValue& v) -> GoldenValue { return pass(std::get<UOp>(v)); };
}

GoldenFunction verify_pass(SpecLevel level) {
  return [level](const GoldenValue& v) -> GoldenValue {
    if (const auto* list = std::get_if<std::vector<UOp>>(&v))
      verify(*list, "golden");
    else
      verify(std::get<UOp>(v), level, "golden");
    return v;
  };
}

GoldenValue check_bounds(const GoldenValue& v) {
  check_accesses(std::get<UOp>(v));
  return "ok\n";
}

GoldenValue to_expression(const GoldenValue& v) { return expression(std::get<UOp>(v)) + "\n"; }
GoldenValue with_shapes(const GoldenValue& v) {
  return print(std::get<UOp>(v), {.renumber = true, .shapes = true});
}
GoldenValue to_list(const GoldenValue& v) { return toposort(std::get<UOp>(v)); }

// The bodies of the kernels that a tensor graph needs, in order.
GoldenValue schedule_graph(const GoldenValue& v) {
  const UOp& root = std::get<UOp>(v);
  const std::vector<UOp> roots =
      root.op() == Op::Sink ? std::vector<UOp>(root.srcs().begin(), root.srcs().end()) : std::vector{root};
  std::string out;
  for (const ScheduledKernel& k : make_schedule(roots).kernels)
    out += (out.empty() ? "" : "---\n") + print(k.body);
  return out.empty() ? std::string("no kernels\n") : out;
}

// The parts of a value over several devices.
GoldenValue parts_of(const GoldenValue& v) { return sink(resolve_shards({&std::get<UOp>(v), 1})[0].parts); }

// Applies the schedule that the body carries in KernelArg::given.
GoldenValue apply_given(const GoldenValue& v) {
  UOp body = std::get<UOp>(v);
  for (const Action& a : body.arg_as<KernelPtr>()->given.value()) body = apply_action(body, a);
  return body;
}

// On a device with little room in each dimension.
GoldenValue place_work_groups(const GoldenValue& v) {
  Target t = opencl_target();
  t.work_groups = WorkGroupLimits{{64, 8, 8}, {16, 16, 16}, 64, 1 << 10};
  return to_work_groups(std::get<UOp>(v), t);
}

GoldenValue prefetch_rows(const GoldenValue& v) {
  Target t = c_target();
  t.name = "llvm";
  t.l2_bytes = 1 << 20;
  return prefetch(std::get<UOp>(v), t);
}
GoldenValue keep_in_scratch(const GoldenValue& v) { return keep_values(std::get<UOp>(v), c_target()); }

// With registers of four floats.
GoldenValue split_long_lanes(const GoldenValue& v) {
  Target t = c_target();
  t.vector_bits = 128;
  return split_lanes(std::get<UOp>(v), t);
}
GoldenValue combine_short_lanes(const GoldenValue& v) {
  Target t = c_target();
  t.vector_bits = 128;
  return combine_lanes(std::get<UOp>(v), t);
}
GoldenValue to_all_dots(const GoldenValue& v) {
  Target t;
  t.dots = all_dots();
  return to_dots(std::get<UOp>(v), t);
}

// With the schedule that the body carries.
GoldenValue to_opencl_text(const GoldenValue& v) {
  const LoweredKernel k = lower(std::get<UOp>(v), opencl_target());
  return CStyleRenderer(opencl_target(), kOpenClDialect).render(k.name, k.linear).source;
}

// For vectors of four and tiles of one row.
GoldenValue block(const GoldenValue& v) {
  Target t;
  t.vector_bits = 128;
  t.vector_registers = 10;
  return block_reductions(std::get<UOp>(v), t);
}

GoldenValue to_program_order(const GoldenValue& v) { return linearize(std::get<UOp>(v)); }

}  // namespace

std::span<const GoldenPass> golden_passes() {
  static const GoldenPass kPasses[] = {
      {"simplify", graph_pass(simplify)},
      {"resolve_shards", parts_of},
      {"schedule", schedule_graph},
      {"apply", apply_given},
      {"merge_ranges", graph_pass(merge_ranges)},
      {"keep_values", keep_in_scratch},
      {"shorten_sums", graph_pass(shorten_sums)},
      {"prefetch", prefetch_rows},
      {"widen_kept", graph_pass(widen_kept)},
      {"block_reductions", block},
      {"expand_upcasts", graph_pass(expand_upcasts)},
      {"to_dots", to_all_dots},
      {"lower_reduces", graph_pass(lower_reduces)},
      {"widen_dots", graph_pass(widen_dots)},
      {"vectorize", graph_pass(vectorize)},
      {"combine_lanes", combine_short_lanes},
      {"split_lanes", split_long_lanes},
      {"linearize", to_program_order},
      {"to_work_groups", place_work_groups},
      {"opencl", to_opencl_text},
      {"expression", to_expression},
      {"shapes", with_shapes},
      {"toposort", to_list},
      {"check_accesses", check_bounds},
      {"verify_tensor", verify_pass(SpecLevel::Tensor)},
      {"verify_kernel", verify_pass(SpecLevel::Kernel)},
      {"verify_program", verify_pass(SpecLevel::Program)},
  };
  return kPasses;
}

}  // namespace lathe::test
