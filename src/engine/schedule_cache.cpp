#include "engine/schedule_cache.h"

#include "base/flat_map.h"
#include "base/knobs.h"

#include <unordered_map>

namespace lathe {
namespace {

// The nodes of a graph in an order that only depends on its structure, and its Buffers in order of
// appearance.
struct Structure {
  std::vector<UOp> order;
  std::vector<UOp> buffers;
  Hash128 hash;
};

Structure structure_of(std::span<const UOp> roots) {
  Structure out;
  out.order = toposort(sink(roots));
  FlatMap<const Node*, uint32_t> position;
  std::vector<Hash128> hashes(out.order.size());
  std::vector<uint64_t> words;
  for (uint32_t i = 0; i < out.order.size(); i++) {
    const UOp& u = out.order[i];
    position.try_emplace(u.node(), i);
    words.assign({static_cast<uint64_t>(u.op()), static_cast<uint64_t>(u.dtype())});
    if (u.op() == Op::Buffer) {
      words.push_back(out.buffers.size());
      words.push_back(hash_text(u.device()).lo);
      out.buffers.push_back(u);
    } else {
      const Hash128 a = hash_arg(u.arg(), {});
      words.push_back(a.lo);
      words.push_back(a.hi);
    }
    for (const UOp& s : u.srcs()) {
      const Hash128& h = hashes[*position.find(s.node())];
      words.push_back(h.lo);
      words.push_back(h.hi);
    }
    hashes[i] = hash_bytes(words.data(), words.size() * sizeof(uint64_t));
  }
  out.hash = hashes.back();
  for (Knob k : {Knob::SPLIT_REDUCEOP, Knob::REDUCEOP_SPLIT_THRESHOLD, Knob::REDUCEOP_SPLIT_SIZE,
                 Knob::MAX_KERNEL_BUFFERS}) {
    const int v = knob(k);
    out.hash = hash_bytes(&v, sizeof v, out.hash);
  }
  return out;
}

// A schedule over numbered buffers: first those of the graph, then those it makes.
struct Template {
  struct Kernel {
    UOp body;
    std::vector<uint32_t> buffers;
    std::string device;
  };
  std::vector<Kernel> kernels;
  size_t n_outer = 0;
  std::vector<UOp> made;  // Buffers to copy: shape, dtype and device count
  struct Change {
    uint32_t from;  // position in Structure::order
    UOp to;         // over Params (outer buffers) and `made`
  };
  std::vector<Change> becomes;
};

Template make_template(const Structure& s, std::span<const UOp> roots) {
  std::vector<std::pair<UOp, UOp>> to_params;
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const UOp& b = s.buffers[i];
    to_params.emplace_back(b, param(static_cast<int>(i), b.shape(), b.dtype(), b.device()));
  }
  const UOp graph = substitute(sink(roots), to_params);
  const std::vector<UOp> order = toposort(graph);
  CHECK(order.size() == s.order.size(), "two buffers of one graph became one parameter");
  std::unordered_map<const Node*, uint32_t> position;
  for (uint32_t i = 0; i < order.size(); i++) position.emplace(order[i].node(), i);
  Schedule schedule = make_schedule(graph.srcs());

  Template out;
  out.n_outer = s.buffers.size();
  std::unordered_map<const Node*, uint32_t> numbers;
  auto number = [&](const UOp& b) {
    if (b.op() == Op::Param) return static_cast<uint32_t>(b.param().slot);
    const auto [it, added] = numbers.emplace(b.node(), static_cast<uint32_t>(out.n_outer + out.made.size()));
    if (added) out.made.push_back(b);
    return it->second;
  };
  for (ScheduledKernel& k : schedule.kernels) {
    Template::Kernel t{std::move(k.body), {}, std::move(k.device)};
    for (const UOp& b : k.buffers) t.buffers.push_back(number(b));
    out.kernels.push_back(std::move(t));
  }
  for (const auto& [from, to] : schedule.becomes) out.becomes.push_back({position.at(from.node()), to});
  return out;
}

Schedule instantiate(const Template& t, const Structure& s) {
  std::vector<UOp> buffers = s.buffers;
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const UOp& b = s.buffers[i];
    map.emplace_back(param(static_cast<int>(i), b.shape(), b.dtype(), b.device()), b);
  }
  for (const UOp& b : t.made) {
    buffers.push_back(new_buffer(b.shape(), b.dtype(), b.device()));
    map.emplace_back(b, buffers.back());
  }
  Schedule out;
  for (const Template::Kernel& k : t.kernels) {
    ScheduledKernel made{k.body, {}, k.device};
    for (uint32_t b : k.buffers) made.buffers.push_back(buffers[b]);
    out.kernels.push_back(std::move(made));
  }
  for (const Template::Change& c : t.becomes)
    out.becomes.emplace_back(s.order[c.from], substitute(c.to, map));
  return out;
}

bool last_was_hit = false;

}  // namespace

bool schedule_cache_hit() { return last_was_hit; }

Schedule cached_schedule(std::span<const UOp> roots) {
  last_was_hit = false;
  if (!knob(Knob::SCACHE)) return make_schedule(roots);
  static auto* const cache = new std::unordered_map<Hash128, Template>;  // leaked: nodes outlive statics
  const Structure s = structure_of(roots);
  const auto it = cache->find(s.hash);
  last_was_hit = it != cache->end();
  return instantiate(
      last_was_hit ? it->second : cache->emplace(s.hash, make_template(s, roots)).first->second, s);
}

}  // namespace lathe
