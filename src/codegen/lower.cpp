#include "codegen/lower.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/access_bounds.h"
#include "uop/gates.h"
#include "uop/print.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace lathe {
namespace {

int64_t n_parts(const UOp& body) {
  int64_t n = 1;
  for (const UOp& r : kernel_axes(body))
    if (r.range().type == AxisType::Thread) n *= r.src(0).value().as_i64();
  return n;
}

// The Thread loops are run by the caller: their Ranges follow from the number of the part.
UOp threads_to_core_id(const UOp& body) {
  const int64_t n = n_parts(body);
  if (n == 1) return body;
  const UOp id = UOp::make(Op::Special, {constant(Scalar(n))}, TextArg("core_id"));
  std::vector<RangeChange> changes;
  int64_t left = n;
  for (const UOp& r : kernel_axes(body)) {
    if (r.range().type != AxisType::Thread) continue;
    const int64_t size = r.src(0).value().as_i64();
    left /= size;
    changes.push_back({r, size == n ? id : id / left % size, {}});
  }
  return change_ranges(body, changes);
}

template <bool must_prove>
UOp checked(const UOp& body, const Target&) {
  if (knob(Knob::CHECK_OOB)) check_accesses(body, must_prove);
  return body;
}

constexpr Pass kPasses[] = {
    {"shorten_sums", [](const UOp& u, const Target&) { return shorten_sums(u); }, SpecLevel::Kernel},
    {"threads_to_core_id", [](const UOp& u, const Target&) { return threads_to_core_id(u); },
     SpecLevel::Kernel},
    {"to_work_groups", to_work_groups, SpecLevel::Kernel},
    {"widen_kept", [](const UOp& u, const Target&) { return widen_kept(u); }, SpecLevel::Kernel},
    {"expand_upcasts", [](const UOp& u, const Target&) { return expand_upcasts(u); }, SpecLevel::Kernel},
    // Copies have constants where they had ranges, so indices fold again.
    {"simplify", [](const UOp& u, const Target&) { return simplify_gates(simplify(u)); }, SpecLevel::Kernel},
    // Gates leave the indices before lanes are made of them: a contiguous access has one address and a gate a
    // lane.
    {"move_gates", move_gates, SpecLevel::Kernel},
    // Sums of products that dot instructions compute are told from others while they are sums.
    {"to_dots", to_dots, SpecLevel::Kernel},
    {"lower_reduces", [](const UOp& u, const Target&) { return lower_reduces(u); }, SpecLevel::Kernel},
    {"widen_dots", [](const UOp& u, const Target&) { return widen_dots(u); }, SpecLevel::Kernel},
    {"vectorize", [](const UOp& u, const Target&) { return vectorize(u); }, SpecLevel::Kernel},
    {"simplify_lanes", [](const UOp& u, const Target&) { return simplify_lanes(u); }, SpecLevel::Kernel},
    // Indices are still exact here.
    {"check_accesses", checked<true>, SpecLevel::Kernel},
    // From here every value has the width it is computed in.
    {"commit_weak_types", commit_weak_types, SpecLevel::Kernel},
    {"decompose_dtype", decompose_dtype, SpecLevel::Kernel},
    {"decompose_float", decompose_float, SpecLevel::Kernel},
    {"decompose_int", decompose_int, SpecLevel::Kernel},
    {"decompose_long", decompose_long, SpecLevel::Kernel},
    {"use_native_ops", use_native_ops, SpecLevel::Program},
    {"combine_lanes", combine_lanes, SpecLevel::Program},
    {"split_lanes", split_lanes, SpecLevel::Program},
    // Typed integers wrap, so that less can be proved of them; points that are outside are outside.
    {"check_typed_accesses", checked<false>, SpecLevel::Program},
};

// In the order of AxisType.
constexpr Color kAxisColors[] = {Color::White,   Color::White, Color::Blue, Color::White,
                                 Color::Cyan,    Color::Green, Color::Red,  Color::Yellow,
                                 Color::Magenta, Color::Cyan,  Color::White};
static_assert(static_cast<size_t>(AxisType::Dot) + 1 == std::size(kAxisColors));

// "r_2_64x1024_8u_32v": r where something is reduced, e otherwise; then the axes, letters for those that are
// no plain loops.
void name_kernel(const UOp& body, LoweredKernel& out) {
  const std::vector<UOp> axes = kernel_axes(body);
  const bool reduces = std::any_of(axes.begin(), axes.end(), [](const UOp& r) {
    return r.range().type == AxisType::Reduce || r.range().type == AxisType::Unroll ||
           r.range().type == AxisType::GroupReduce;
  });
  out.name = out.colored_name = reduces ? "r" : "e";
  for (const UOp& r : axes) {
    const AxisType t = r.range().type;
    std::string size = r.src(0).is_const() ? std::to_string(r.src(0).value().as_i64()) : "s";
    if (t != AxisType::Loop && t != AxisType::Reduce) size += axis_letter(t);
    out.name += "_" + size;
    out.colored_name += "_" + colored(size, kAxisColors[static_cast<size_t>(t)]);
  }
  if (axes.empty()) out.name = out.colored_name = out.name + "_1";
  if (const std::string& given = body.arg_as<KernelPtr>()->name; !given.empty())
    out.name = out.colored_name = given;
}

bool is_off(std::string_view name) {
  const std::string list = "," + knob_str(Knob::PASS_OFF) + ",";
  return list.find("," + std::string(name) + ",") != std::string::npos;
}

}  // namespace

Estimate estimate(const UOp& body) {
  Estimate out;
  std::map<std::pair<const Node*, Op>, double> touched;
  std::unordered_set<UOp> data;  // values that depend on a Load
  for (const UOp& u : toposort(body)) {
    if (u.op() == Op::Load ||
        std::any_of(u.srcs().begin(), u.srcs().end(), [&](const UOp& s) { return data.count(s); }))
      data.insert(u);
    // Which piece an element comes from is a matter of its place, not arithmetic on it.
    if (u.op() == Op::Where && !data.count(u.src(0))) continue;
    if (u.op() == Op::Load || u.op() == Op::Store) {
      const UOp& address = u.src(0);
      if (address.op() == Op::Index && address.src(0).op() == Op::Param)
        touched[{address.src(0).node(), u.op()}] +=
            trips_of(u) * static_cast<double>(item_size(address.dtype()));
    } else if (u.op() == Op::Reduce) {
      out.flops += trips_of(u.src(0));
    } else if (is_alu(u.op()) && !is_weak(u.dtype()) && !is_bool(u.dtype())) {
      out.flops += trips_of(u) * (u.op() == Op::MulAcc ? 2 : 1);
    }
  }
  for (const auto& [key, bytes] : touched) {
    const UOp p(key.first);
    out.bytes += std::min(bytes, static_cast<double>(prod(p.shape()).vmax() * item_size(p.dtype())));
  }
  return out;
}

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

UOp prepare_kernel(const UOp& body, const Target& target) {
  const UOp shrunk = gate_factors(shrink_ranges(simplify_gates(simplify(body))));
  if (body.arg_as<KernelPtr>()->given) return shrunk;  // the schedule is for these loops
  const UOp blocked = block_reductions(shrunk, target);
  return knob(Knob::NOOPT) ? blocked : prefetch(keep_values(blocked, target), target);
}

LoweredKernel lower(const UOp& body, const Target& machine, const std::vector<Action>* actions) {
  const Target target = without_emulated(machine);
  TracedPass traced("lower", body);
  LoweredKernel out;
  ErrorContext context([&] { return fmt::format("lowering the kernel {}\n{}", out.name, print(body)); });
  // The heuristic sees the loops that are left, and they are the work.
  const UOp prepared = prepare_kernel(body, target);
  out.work = estimate(prepared);
  const UOp optimised = optimise(prepared, target, actions);
  out.actions = optimised.arg_as<KernelPtr>()->actions;
  name_kernel(optimised, out);
  out.n_cores = static_cast<int>(n_parts(optimised));
  checked<true>(body, target);
  const UOp lowered = run_passes(optimised, target, kPasses);
  out.linear = linearize(lowered);
  check_local_memory(out.linear, target);
  traced.finish(lowered);
  if (knob(Knob::SPEC)) verify(out.linear, "linearize");
  return out;
}

}  // namespace lathe
