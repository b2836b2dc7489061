#include "schedule/chain_fusion.h"

#include "schedule/kernel_body.h"
#include "uop/chained_reduces.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>

namespace lathe {
namespace {

// Inner reductions of fewer bytes stay in the caches between two kernels.
constexpr int64_t kMinBytes = 1 << 18;
// Tiles of fewer rows or steps are not worth computing anything twice.
constexpr int64_t kMinExtent = 16;

// The buffer that a Load reads before any assignment, or null.
const Node* read_buffer(const UOp& u) {
  return u.op() == Op::Load && u.src(0).op() == Op::Index ? u.src(0).src(0).node() : nullptr;
}

bool is_narrow(DType d) { return is_float(d) && !is_weak(d) && item_size(d) < item_size(DType::Float32); }

// `value` with what is computed in narrow floats computed in float32, and rounded once, in the end: sums that
// are brought up to date as they go need the digits.
UOp widened(const UOp& value) {
  Rebuilt wide;
  const UOp out = wide.walk(toposort(value), [&](const UOp& u) {
    if (u.op() == Op::Bitcast || u.op() == Op::Index) return u;
    if (u.op() == Op::Load) return is_narrow(u.dtype()) ? cast(u, DType::Float32) : u;
    if (u.is_const()) return is_narrow(u.dtype()) ? constant(DType::Float32, u.value()) : u;
    if (u.op() == Op::Cast) return cast(wide.of(u.src(0)), is_narrow(u.dtype()) ? DType::Float32 : u.dtype());
    return wide.over_sources(u);
  });
  return cast(out, value.dtype());
}

bool is_worth_it(const ChainedReduces& chain) {
  return SInt(chain.row.src(0)).vmax() >= kMinExtent && SInt(chain.step.src(0)).vmax() >= kMinExtent;
}

}  // namespace

void ChainFusion::remember(const UOp& buffer, const Coords& out, const UOp& value, size_t kernel) {
  bool reduces = false, depends = false;
  for (const UOp& u : toposort(value)) {
    reduces = reduces || u.op() == Op::Reduce;
    depends = depends || remembered_.contains(read_buffer(u));
  }
  const SInt size = prod(buffer.shape());
  const bool is_large = size.is_const() && size.value() * item_size(buffer.dtype()) >= kMinBytes;
  if ((reduces && is_large) || depends)
    remembered_.emplace(buffer.node(), Remembered{out, value, kernel, is_large});
}

// `value` with loads of remembered buffers replaced by what is in them: all, or the large ones.
UOp ChainFusion::dissolve(const UOp& start, bool all, std::vector<const Node*>& dissolved) const {
  UOp value = start;
  for (;;) {
    std::vector<std::pair<UOp, UOp>> map;
    for (const UOp& u : toposort(value)) {
      const auto found = remembered_.find(read_buffer(u));
      if (found == remembered_.end() || !(all || found->second.is_large)) continue;
      const Remembered& r = found->second;
      std::vector<std::pair<UOp, UOp>> at;
      for (size_t i = 0; i < r.out.size(); i++)
        if (r.out[i].op() == Op::Range && !(r.out[i] == u.src(0).src(i + 1)))
          at.emplace_back(r.out[i], u.src(0).src(i + 1));
      map.emplace_back(u, at.empty() ? r.value : substitute(r.value, at));
      if (std::ranges::find(dissolved, found->first) == dissolved.end()) dissolved.push_back(found->first);
    }
    if (map.empty()) return graph_rewrite(widened(value), reduce_rules(), {.name = "clean"});
    value = substitute(value, map);
  }
}

void ChainFusion::consider(const UOp& effect, const std::vector<UOp>& loops,
                           const DraftKernel::Access& written, size_t kernel) {
  if (remembered_.empty()) return;
  for (const bool all : {true, false}) {
    Form form{{}, loops, written, {}};
    const UOp value = dissolve(effect.src(1), all, form.dissolved);
    if (form.dissolved.empty()) return;
    const std::optional<ChainedReduces> chain = chained_reduces(value, loops);
    if (!chain || !is_worth_it(*chain)) continue;
    form.effect = store(effect.src(0), value);
    forms_.emplace(kernel, std::move(form));
    return;
  }
}

void ChainFusion::settle(std::vector<DraftKernel>& kernels) {
  if (forms_.empty()) return;
  std::unordered_map<size_t, DraftKernel> fused;
  for (const auto& [number, form] : forms_)
    fused.emplace(number, make_kernel(form.effect, form.loops, form.written));
  std::vector<bool> is_left;
  for (bool again = true; again;) {
    is_left.assign(kernels.size(), true);
    for (size_t left = 0, before = 1; left != before;) {
      std::unordered_set<const Node*> read;
      for (size_t i = 0; i < kernels.size(); i++) {
        const auto f = fused.find(i);
        if (is_left[i])
          for (const auto& a : f == fused.end() ? kernels[i].reads : f->second.reads)
            read.insert(a.buffer.node());
      }
      for (const auto& [buffer, r] : remembered_) is_left[r.kernel] = read.contains(buffer);
      before = std::exchange(left, static_cast<size_t>(std::ranges::count(is_left, true)));
    }
    // What is in memory anyway is read from there.
    again = std::erase_if(fused, [&](const auto& f) {
              return std::ranges::any_of(forms_.at(f.first).dissolved,
                                         [&](const Node* b) { return is_left[remembered_.at(b).kernel]; });
            }) > 0;
  }
  std::vector<DraftKernel> out;
  for (size_t i = 0; i < kernels.size(); i++) {
    const auto f = fused.find(i);
    if (is_left[i]) out.push_back(std::move(f == fused.end() ? kernels[i] : f->second));
  }
  kernels = std::move(out);
}

}  // namespace lathe
