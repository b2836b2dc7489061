#include "schedule/chain_fusion.h"

#include "base/knobs.h"
#include "schedule/passes.h"
#include "uop/chained_reduces.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>

namespace lathe {
namespace {

// Scores of fewer bytes are not worth the work of choosing.
constexpr int64_t kMinBytes = 1 << 14;
// What several kernels read is computed by each of them again, and products without a softmax between them
// are one kernel, only where memory for it would take more bytes than this: computing them again
// takes about twice the time that reading them does.
constexpr int64_t kMaxKeptBytes = 1 << 29;
// Of values that are made of each other: scores, exponentials, sums of them, gradients.
constexpr int kMaxDepth = 4;
// Tiles of fewer rows or steps are not worth computing anything twice.
constexpr int64_t kMinExtent = 16;
// Longer inner reductions cost more than memory does, and a block of more elements a row leaves the caches.
constexpr int64_t kMaxInner = 512;

int64_t bytes_of(const UOp& buffer) { return prod(buffer.shape()).vmax() * item_size(buffer.dtype()); }

bool is_kept(const UOp& buffer) {
  const int64_t most = knob(Knob::MAX_BUFFER_SIZE);
  return bytes_of(buffer) <= (most ? std::min(most, kMaxKeptBytes) : kMaxKeptBytes);
}

// The buffer that a Load reads before any assignment, or null.
const Node* read_buffer(const UOp& u) {
  return u.op() == Op::Load && u.src(0).op() == Op::Index ? u.src(0).src(0).node() : nullptr;
}

int64_t inner_size(const UOp& reduce) {
  int64_t n = 1;
  for (const UOp& r : reduce.srcs().subspan(1)) n *= SInt(r.src(0)).vmax();
  return n;
}

bool is_within(const UOp& u, const RangeSet& ranges) {
  return std::ranges::all_of(u.ranges(),
                             [&](const Node* r) { return std::ranges::find(ranges, r) != ranges.end(); });
}

bool is_narrow(DType d) { return is_float(d) && !is_weak(d) && item_size(d) < item_size(DType::Float32); }

// A cast to a narrow float of what is not made of such floats.
bool rounds_on_purpose(const UOp& u) {
  return u.op() == Op::Cast && is_narrow(u.dtype()) &&
         std::ranges::none_of(toposort(u.src(0)),
                              [&](const UOp& below) { return below.dtype() == u.dtype(); });
}

// `value` with what is computed in narrow floats computed in float32, and rounded once, in the end: sums that
// are brought up to date as they go need the digits.
UOp widened(const UOp& value) {
  Rebuilt wide;
  const UOp out = wide.walk(toposort(value), [&](const UOp& u) {
    if (u.op() == Op::Index) return u;
    if (u.op() == Op::Bitcast) return is_narrow(u.dtype()) ? cast(u, DType::Float32) : u;
    if (rounds_on_purpose(u)) return cast(cast(wide.of(u.src(0)), u.dtype()), DType::Float32);
    if (u.op() == Op::Load) return is_narrow(u.dtype()) ? cast(u, DType::Float32) : u;
    if (u.is_const()) return is_narrow(u.dtype()) ? constant(DType::Float32, u.value()) : u;
    if (u.op() == Op::Cast) return cast(wide.of(u.src(0)), is_narrow(u.dtype()) ? DType::Float32 : u.dtype());
    return wide.over_sources(u);
  });
  return cast(out, value.dtype());
}

size_t n_buffers(const UOp& value) {
  std::unordered_set<const Node*> out;
  for (const UOp& u : toposort(value))
    if (const Node* b = read_buffer(u)) out.insert(b);
  return out.size();
}

bool is_worth_it(const ChainedReduces& chain, std::span<const UOp> loops) {
  const auto size_of = [](const UOp& r) { return SInt(r.src(0)).vmax(); };
  int64_t width = 1;
  for (const UOp& l : loops) {
    const auto depends = [&](const UOp& s) {
      return std::ranges::find(s.ranges(), l.node()) != s.ranges().end();
    };
    if (std::ranges::none_of(chain.scores, depends)) width *= size_of(l);
  }
  for (const UOp& s : chain.scores)
    for (const UOp& u : toposort(s))
      if (u.op() == Op::Reduce) width = std::max(width, inner_size(u));
  return size_of(chain.row) >= kMinExtent && size_of(chain.step) >= kMinExtent && width <= kMaxInner;
}

}  // namespace

void ChainFusion::remember(const UOp& buffer, const Coords& out, const UOp& value, size_t kernel) {
  int depth = 1;
  int64_t inner = 0;  // steps of its reductions
  bool depends = false;
  for (const UOp& u : toposort(value)) {
    if (u.op() == Op::Reduce) inner = std::max(inner, inner_size(u));
    const auto read = remembered_.find(read_buffer(u));
    if (read == remembered_.end()) continue;
    depends = true;
    if (read->second.depth && is_within(u, value.ranges())) depth = std::max(depth, read->second.depth + 1);
  }
  const bool is_product = bytes_of(buffer) >= kMinBytes && inner > 0 && inner <= kMaxInner;
  if (depth > kMaxDepth || (depth == 1 && !is_product)) depth = 0;
  if (depth || depends) remembered_.emplace(buffer.node(), Remembered{out, value, kernel, depth});
}

// `value` over `loops` with what is in remembered buffers in place of loads of the largest scores that it
// folds, and of what depends on scores where `all` is set, but for what inner reductions fold.
UOp ChainFusion::dissolve(const UOp& start, std::span<const UOp> loops, bool all,
                          std::vector<const Node*>& dissolved) const {
  RangeSet open;
  for (const UOp& l : loops) open.push_back(l.node());
  UOp value = start;
  int rounds = 0;
  for (int64_t most = 0;;) {
    // A long way down, what is read is the layers before, and no chain.
    constexpr int kMostRounds = 6;
    constexpr size_t kMostNodes = 4000;
    if (rounds++ == kMostRounds || toposort(value).size() > kMostNodes) {
      dissolved.clear();
      return start;
    }
    std::vector<UOp> reads;
    std::unordered_set<const Node*> outer;  // what is not in inner reductions only
    toposort(value, [&](const UOp& u) {
      const bool enters = u.op() != Op::Reduce || is_within(u, open);
      if (enters) outer.insert(u.node());
      return enters;
    });
    for (const UOp& u : toposort(value)) {
      const auto found = remembered_.find(read_buffer(u));
      if (found == remembered_.end() || !(found->second.depth || (all && outer.contains(u.node())))) continue;
      reads.push_back(u);
      if (dissolved.empty() && found->second.depth && !is_within(u, open))
        most = std::max(most, prod(u.src(0).src(0).shape()).vmax());
    }
    std::vector<std::pair<UOp, UOp>> map;
    for (const UOp& u : reads) {
      const UOp& address = u.src(0);
      const Remembered& r = remembered_.at(address.src(0).node());
      const int64_t size = prod(address.src(0).shape()).vmax();
      if (r.depth ? size != most : size >= most) continue;
      map.emplace_back(u,
                       at_coords(r.value, r.out, Coords(address.srcs().begin() + 1, address.srcs().end())));
      if (std::ranges::find(dissolved, address.src(0).node()) == dissolved.end())
        dissolved.push_back(address.src(0).node());
    }
    if (map.empty())
      return dissolved.empty() ? value : graph_rewrite(widened(value), reduce_rules(), {.name = "clean"});
    value = substitute(value, map);
  }
}

// The buffer of a reduction of scores: equal ones, whatever their loops are called, share it.
UOp ChainFusion::memory_of(const UOp& reduce, const std::string& device) {
  constexpr int kFirstId = 1 << 20;
  std::vector<UOp> own, loops;
  for (const UOp& u : toposort(reduce))
    if (u.op() == Op::Range && std::ranges::find(reduce.ranges(), u.node()) != reduce.ranges().end())
      own.push_back(u);
  std::vector<std::pair<UOp, UOp>> map;
  Shape shape;
  for (const UOp& r : own) {
    loops.push_back(range(r.src(0), kFirstId + static_cast<int>(loops.size()), AxisType::Loop));
    map.emplace_back(r, loops.back());
    shape.push_back(SInt(r.src(0)));
  }
  const UOp value = substitute(reduce, map);
  UOp& buffer = memory_[value];
  if (!buffer) {
    const std::optional<ChainedReduces> chain = chained_reduces(value, loops);
    if (!chain || !is_worth_it(*chain, loops)) return {};
    buffer = new_buffer(shape, value.dtype(), device);
    parts_.push_back({store(element(buffer, loops), value), loops, {buffer, 0}, {}, false});
  }
  return load(element(buffer, own));
}

// `value` with the reductions of scores that others depend on read from memory; null where one has to stay.
UOp ChainFusion::cut(const UOp& value, const std::string& device) {
  const NodeList order = toposort(value);
  std::unordered_set<const Node*> below;
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t k = order.size(); k-- > 0;) {
    const UOp& u = order[k];
    const bool chained = is_chained(u), inside = below.contains(u.node());
    if (chained && inside) {
      const UOp read = memory_of(u, device);
      if (!read) return {};
      map.emplace_back(u, read);
    }
    if (chained || inside)
      for (const UOp& s : u.srcs()) below.insert(s.node());
  }
  return substitute(value, map);
}

void ChainFusion::consider(const UOp& effect, const std::vector<UOp>& loops,
                           const DraftKernel::Access& written, size_t kernel) {
  if (remembered_.empty()) return;
  for (const bool all : {true, false}) {
    Form form{{}, loops, written, {}, false};
    UOp value = dissolve(effect.src(1), loops, all, form.dissolved);
    if (form.dissolved.empty()) return;
    if (!all) value = cut(value, written.buffer.device());
    const std::optional<ChainedReduces> chain = value ? chained_reduces(value, loops) : std::nullopt;
    if (!chain || !is_worth_it(*chain, loops)) continue;
    if (n_buffers(value) >= max_kernel_buffers(written.buffer.device())) continue;
    form.effect = store(effect.src(0), value);
    form.has_max = std::ranges::any_of(chain->members, &ChainedReduce::is_max);
    forms_[kernel].push_back(std::move(form));
  }
}

void ChainFusion::settle(std::vector<DraftKernel>& kernels) {
  if (forms_.empty()) return;
  struct Choice {
    size_t form;
    DraftKernel kernel;
  };
  std::unordered_map<size_t, Choice> fused;
  const auto choose = [&](size_t number, size_t form) {
    const std::vector<Form>& forms = forms_.at(number);
    fused.erase(number);
    if (form < forms.size())
      fused.emplace(number,
                    Choice{form, make_kernel(forms[form].effect, forms[form].loops, forms[form].written)});
  };
  for (const auto& [number, forms] : forms_) choose(number, 0);
  std::unordered_map<const Node*, size_t> filled_by;  // buffers that somebody has to read
  for (const auto& [buffer, r] : remembered_) filled_by.emplace(buffer, r.kernel);
  for (const Form& p : parts_) {
    filled_by.emplace(p.written.buffer.node(), kernels.size());
    kernels.push_back(make_kernel(p.effect, p.loops, p.written));
  }
  std::vector<bool> is_left;
  for (bool again = true; again;) {
    is_left.assign(kernels.size(), true);
    for (size_t left = 0, before = 1; left != before;) {
      std::unordered_set<const Node*> read;
      for (size_t i = 0; i < kernels.size(); i++) {
        const auto f = fused.find(i);
        if (is_left[i])
          for (const auto& a : f == fused.end() ? kernels[i].reads : f->second.kernel.reads)
            read.insert(a.buffer.node());
      }
      for (const auto& [buffer, kernel] : filled_by) is_left[kernel] = read.contains(buffer);
      before = std::exchange(left, static_cast<size_t>(std::ranges::count(is_left, true)));
    }
    std::unordered_map<const Node*, int> times;
    for (const auto& [number, choice] : fused)
      if (is_left[number])
        for (const Node* b : forms_.at(number)[choice.form].dissolved) times[b]++;
    // What is in memory anyway is read from there.
    std::vector<std::pair<size_t, size_t>> next;
    for (const auto& [number, choice] : fused) {
      const Form& form = forms_.at(number)[choice.form];
      const auto stays = [&](const Node* b) {
        return is_left[remembered_.at(b).kernel] || ((times[b] > 1 || !form.has_max) && is_kept(UOp(b)));
      };
      if (is_left[number] && std::ranges::any_of(form.dissolved, stays))
        next.emplace_back(number, choice.form + 1);
    }
    for (const auto& [number, form] : next) choose(number, form);
    again = !next.empty();
  }
  std::vector<DraftKernel> out;
  for (size_t i = 0; i < kernels.size(); i++) {
    const auto f = fused.find(i);
    if (is_left[i]) out.push_back(std::move(f == fused.end() ? kernels[i] : f->second.kernel));
  }
  kernels = std::move(out);
}

}  // namespace lathe
