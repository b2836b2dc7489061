#include "engine/schedule_cache.h"

#include "base/flat_map.h"
#include "base/knobs.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

// The nodes of a graph in an order that only depends on its structure, and its Buffers in order of
// appearance.
struct Structure {
  std::vector<UOp> order;
  std::vector<UOp> buffers;
  Hash128 hash;
  bool has_values = false;  // of variables
};

// What kernels do not depend on.
Arg without_gradient(const UOp& u) {
  const auto* call = std::get_if<CallPtr>(&u.arg());
  if (!call) return u.arg();
  CallArg arg = **call;
  arg.gradient_id = 0;
  arg.gradient = nullptr;
  return std::make_shared<const CallArg>(std::move(arg));
}

Structure structure_of(std::span<const UOp> roots) {
  Structure out;
  out.order = toposort(sink(roots));
  FlatMap<const Node*, uint32_t> position;
  std::vector<Hash128> hashes(out.order.size());
  std::vector<uint64_t> words;
  for (uint32_t i = 0; i < out.order.size(); i++) {
    const UOp& u = out.order[i];
    position.try_emplace(u.node(), i);
    out.has_values = out.has_values || is_bound_variable(u);
    words.assign({static_cast<uint64_t>(u.op()), static_cast<uint64_t>(u.dtype())});
    if (u.op() == Op::Buffer) {
      words.push_back(out.buffers.size());
      words.push_back(hash_text(u.device()).lo);
      out.buffers.push_back(u);
    } else {
      const Hash128 a = hash_arg(without_gradient(u), {});
      words.push_back(a.lo);
      words.push_back(a.hi);
    }
    for (const UOp& s : u.srcs()) {
      const uint32_t* at = position.find(s.node());
      const Hash128& h = at ? hashes[*at] : s.hash();  // the body of a Call has no position
      words.push_back(h.lo);
      words.push_back(h.hi);
    }
    hashes[i] = hash_bytes(words.data(), words.size() * sizeof(uint64_t));
  }
  out.hash = hashes.back();
  for (Knob k : {Knob::SPLIT_REDUCEOP, Knob::REDUCEOP_SPLIT_THRESHOLD, Knob::REDUCEOP_SPLIT_SIZE,
                 Knob::MAX_KERNEL_BUFFERS, Knob::MAX_BUFFER_SIZE, Knob::RING, Knob::ALL2ALL,
                 Knob::RING_ALLREDUCE_THRESHOLD, Knob::ALLREDUCE_CAST}) {
    const int v = knob(k);
    out.hash = hash_bytes(&v, sizeof v, out.hash);
  }
  return out;
}

// A schedule over Params, which stand for the buffers of the graph, and over buffers that it makes.
struct Template {
  Schedule schedule;
  std::vector<UOp> made;       // Buffers to copy: shape, dtype and device count
  std::vector<uint32_t> from;  // position in Structure::order of each node that becomes another
};

UOp param_for(size_t i, const UOp& buffer) {
  return param(static_cast<int>(i), buffer.shape(), buffer.dtype(), buffer.device());
}

Template make_template(const Structure& s, std::span<const UOp> roots) {
  std::vector<std::pair<UOp, UOp>> to_params;
  for (size_t i = 0; i < s.buffers.size(); i++)
    to_params.emplace_back(s.buffers[i], param_for(i, s.buffers[i]));
  const UOp graph = substitute(sink(roots), to_params);
  const NodeList order = toposort(graph);
  CHECK(order.size() == s.order.size(), "two buffers of one graph became one parameter");
  std::unordered_map<const Node*, uint32_t> position;
  for (uint32_t i = 0; i < order.size(); i++) position.emplace(order[i].node(), i);

  Template out{make_schedule(graph.srcs()), {}, {}};
  std::unordered_set<UOp> seen;
  for (const ScheduledKernel& k : out.schedule.kernels)
    for (const UOp& b : k.buffers)
      if (b.op() != Op::Param && seen.insert(b).second) out.made.push_back(b);
  for (auto& [from, to] : out.schedule.becomes) {
    out.from.push_back(position.at(from.node()));
    from = {};
  }
  return out;
}

Schedule instantiate(const Template& t, const Structure& s) {
  std::vector<std::pair<UOp, UOp>> map;
  for (size_t i = 0; i < s.buffers.size(); i++) map.emplace_back(param_for(i, s.buffers[i]), s.buffers[i]);
  for (const UOp& b : t.made) map.emplace_back(b, new_buffer(b.shape(), b.dtype(), b.device()));
  const std::unordered_map<UOp, UOp> buffers(map.begin(), map.end());
  Schedule out = t.schedule;
  for (ScheduledKernel& k : out.kernels)
    for (UOp& b : k.buffers) b = buffers.at(b);
  for (Arena& a : out.arenas)
    for (Arena::Place& p : a.places) p.buffer = buffers.at(p.buffer);
  for (size_t i = 0; i < t.from.size(); i++) {
    auto& [from, to] = out.becomes[i];
    from = s.order[t.from[i]];
    to = substitute(to, map);
  }
  return out;
}

// The schedule of a graph without values, for the graph with them.
Schedule with_values(Schedule s, const VariableValues& values) {
  for (auto& [from, to] : s.becomes) {
    from = give_values(from, values);
    to = give_values(to, values);
  }
  return s;
}

bool last_was_hit = false;

}  // namespace

bool schedule_cache_hit() { return last_was_hit; }

Schedule cached_schedule(std::span<const UOp> roots, VariableValues& values) {
  last_was_hit = false;
  if (!knob(Knob::SCACHE)) return with_values(make_schedule(take_values(sink(roots), values).srcs()), values);
  static auto* const cache = new std::unordered_map<Hash128, Template>;  // leaked: nodes outlive statics
  const Structure s = structure_of(roots);
  if (s.has_values)
    return with_values(cached_schedule(take_values(sink(roots), values).srcs(), values), values);
  const auto it = cache->find(s.hash);
  last_was_hit = it != cache->end();
  return instantiate(
      last_was_hit ? it->second : cache->emplace(s.hash, make_template(s, roots)).first->second, s);
}

}  // namespace lathe
