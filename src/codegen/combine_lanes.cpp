#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "renderer/program.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_set>

namespace lathe {
namespace {

// In units of a shuffle or a contiguous access of one register.
constexpr double kGatheredLane = 2;
constexpr double kGatedRun = 4;  // a branch

// The elements of `rows`, a power of two of them, column by column, in vectors of at most `most` lanes: each
// step is a perfect shuffle of the two halves of all elements.
std::vector<UOp> transposed(std::vector<UOp> rows, int64_t most) {
  for (size_t steps = rows.size(); steps > 1; steps /= 2) {
    const size_t half = rows.size() / 2;
    std::vector<UOp> next;
    for (size_t k = 0; k < half; k++) {
      std::vector<Lane> both;
      for (int64_t i = 0; i < lanes_of(rows[k]); i++) {
        both.push_back({rows[k], i});
        both.push_back({rows[half + k], i});
      }
      const size_t n = std::min(both.size(), static_cast<size_t>(most));
      for (size_t at = 0; at < both.size(); at += n)
        next.push_back(to_vector(std::span(both).subspan(at, n)));
    }
    rows = std::move(next);
  }
  return rows;
}
// How many vectors that computes.
double cost_of_transposing(int64_t rows, int64_t lanes, int64_t most) {
  int64_t n = rows, out = 0;
  for (int64_t steps = rows; steps > 1; steps /= 2) {
    if (2 * lanes <= most) n /= 2, lanes *= 2;
    out += n;
  }
  return static_cast<double>(out);
}

// Accesses to one memory under one gate whose addresses differ by constants only.
struct Family {
  UOp memory, alternative;
  std::vector<UOp> gate;  // factors
  DType index_type;
  std::vector<UOp> base;                      // terms of what all addresses have in common
  std::vector<UOp> members;                   // Loads or Stores
  std::vector<std::vector<int64_t>> offsets;  // of each lane of each member, from the base
  std::vector<std::vector<bool>> open;        // lanes that access memory at all

  int64_t n_lanes() const { return std::ssize(offsets[0]); }
  bool is_open() const {
    return std::ranges::all_of(open, [](const auto& m) { return std::ranges::find(m, false) == m.end(); });
  }
};

// The value of all lanes; null where they differ.
UOp in_all_lanes(const UOp& u) {
  if (!u.ndim()) return u;
  const bool is_one =
      u.op() == Op::Stack && std::ranges::all_of(u.srcs(), [&](const UOp& s) { return s == u.src(0); });
  return is_one ? u.src(0) : UOp();
}

// Splits a gate into what all lanes have and lanes that never open; false where it is no such product.
bool split_gate(const UOp& gate, std::vector<UOp>& common, std::vector<bool>& open) {
  for (const UOp& term : split_operands(gate, Op::And)) {
    if (const UOp one = in_all_lanes(term)) {
      common.push_back(one);
      continue;
    }
    if (term.op() != Op::Stack ||
        !std::ranges::all_of(term.srcs(), [](const UOp& s) { return s.is_const(); }))
      return false;
    for (size_t i = 0; i < open.size(); i++) open[i] = open[i] && term.src(i).value().as_bool();
  }
  return true;
}

// Splits the index of lanes into terms that all of them have and a constant for each; false where it is no
// such sum.
bool split_index(const UOp& index, std::vector<UOp>& base, std::vector<int64_t>& offsets) {
  offsets.assign(static_cast<size_t>(lanes_of(index)), 0);
  for (const UOp& term : split_operands(index, Op::Add)) {
    if (term.ndim() && term.op() != Op::Stack) return false;
    std::vector<UOp> common;
    for (size_t i = 0; i < offsets.size(); i++) {
      std::vector<UOp> rest;
      for (const UOp& t : split_operands(term.ndim() ? term.src(i) : term, Op::Add))
        if (t.is_const())
          offsets[i] += t.value().as_i64();
        else
          rest.push_back(t);
      if (i == 0) common = rest;
      if (rest != common) return false;
    }
    base.insert(base.end(), common.begin(), common.end());
  }
  return true;
}

std::vector<Family> families_of(std::span<const UOp> accesses) {
  std::map<std::vector<const Node*>, size_t> places;
  std::vector<Family> out;
  for (const UOp& u : accesses) {
    const UOp& address = u.src(0);
    if (address.op() != Op::Index || !address.ndim()) continue;
    Family f{address.src(0), {}, {}, address.src(1).dtype(), {}, {u}, {{}}, {}};
    f.open.emplace_back(static_cast<size_t>(lanes_of(address)), true);
    if (u.n_srcs() == 3) {
      if (!split_gate(u.src(2), f.gate, f.open[0])) continue;
      if (u.op() == Op::Load && !(f.alternative = in_all_lanes(u.src(1)))) continue;
    }
    if (!address.src(1).ndim() || !split_index(address.src(1), f.base, f.offsets[0])) continue;
    std::vector<const Node*> key{f.memory.node(), f.gate.empty() ? nullptr : f.alternative.node()};
    for (const UOp& t : f.base) key.push_back(t.node());
    key.push_back(nullptr);
    for (const UOp& t : f.gate) key.push_back(t.node());
    const auto [at, is_new] = places.try_emplace(key, out.size());
    if (is_new) {
      out.push_back(std::move(f));
    } else if (Family& known = out[at->second]; known.n_lanes() == f.n_lanes()) {
      known.members.push_back(u);
      known.offsets.push_back(std::move(f.offsets[0]));
      known.open.push_back(std::move(f.open[0]));
    }
  }
  return out;
}

// Members that are steps of one element of each other: lane i of member j is at offsets[i] + j.
struct Block {
  std::vector<size_t> members;  // a power of two
  int64_t lanes;                // of a member that are transposed together, a power of two
};
std::vector<Block> blocks_of(const Family& f, int64_t width) {
  std::vector<size_t> order(f.members.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return f.offsets[i]; });
  const auto is_next = [&](size_t a, size_t b) {
    for (size_t i = 0; i < f.offsets[a].size(); i++)
      if (f.offsets[b][i] != f.offsets[a][i] + 1) return false;
    return true;
  };
  const int64_t lanes = std::min(width, f.n_lanes() & -f.n_lanes());
  std::vector<Block> out;
  for (size_t from = 0, to = 0; from < order.size(); from = to) {
    for (to = from + 1; to < order.size() && is_next(order[to - 1], order[to]);) to++;
    for (size_t n = 0; from < to; from += n) {
      n = std::bit_floor(std::min(to - from, static_cast<size_t>(width)));
      if (n > 1 && lanes > 1)
        out.push_back(
            {{order.begin() + static_cast<ptrdiff_t>(from), order.begin() + static_cast<ptrdiff_t>(from + n)},
             lanes});
    }
  }
  return out;
}

class LaneCombiner {
 public:
  explicit LaneCombiner(const Target& target) : target_(target) {}

  UOp run(const UOp& body) {
    const NodeList order = toposort(body);
    std::vector<UOp> loads;
    for (const UOp& u : order) {
      if (u.op() == Op::Load) loads.push_back(u);
      for (const UOp& s : u.srcs())
        if (s.op() == Op::Store) n_users_[s.node()] += u.op() == Op::Group ? 1 : kNotInGroup;
    }
    const std::vector<Family> families = families_of(loads);
    for (const Family& f : families)
      for (const UOp& m : f.members) family_of_[m.node()] = &f;
    return done_.walk(order, [&](const UOp& u) { return visit(u); });
  }

 private:
  UOp visit(const UOp& u) {
    if (u.op() == Op::Group || (u.op() == Op::Store && n_users_.at(u.node()) >= kNotInGroup))
      return visit_effects(u);
    const auto f = family_of_.find(u.node());
    if (f == family_of_.end()) return done_.over_sources(u);
    if (!loaded_.contains(u.node())) combine_loads(*f->second);
    return loaded_.at(u.node());
  }

  // Lanes of a register; no access is wider.
  int64_t width(const Family& f) const { return std::max<int64_t>(2, target_.lanes(f.memory.dtype())); }

  UOp address(const Family& f, int64_t offset, int64_t lanes) const {
    std::vector<UOp> terms;
    for (const UOp& t : f.base) terms.push_back(done_.of(t));
    if (offset || terms.empty()) terms.push_back(constant(f.index_type, Scalar(offset)));
    return elements_from(done_.of(f.memory), lanes > 1 ? lanes : 0, join_operands(terms, Op::Add, {}));
  }
  UOp read(const Family& f, int64_t offset, int64_t lanes) const {
    const UOp at = address(f, offset, lanes);
    if (f.gate.empty()) return load(at);
    std::vector<UOp> gate;
    for (const UOp& t : f.gate) gate.push_back(done_.of(t));
    return UOp::make(Op::Load, {at, done_.of(f.alternative), join_operands(gate, Op::And, {})});
  }

  // ---- loads

  struct Run {
    int64_t first, lanes;
  };
  using Place = std::pair<size_t, int64_t>;  // a run and an element of it

  // Few runs that cover all elements that `f` reads. What lies between two elements of a buffer is in it,
  // too.
  std::map<int64_t, Place> cover(const Family& f, std::vector<Run>& runs) const {
    std::map<int64_t, Place> out;
    for (size_t m = 0; m < f.offsets.size(); m++)
      for (size_t i = 0; i < f.offsets[m].size(); i++)
        if (f.open[m][i]) out.emplace(f.offsets[m][i], Place());
    if (out.empty()) return out;
    const int64_t least = out.begin()->first, most = out.rbegin()->first;
    for (auto from = out.begin(); from != out.end();) {
      const auto to = out.lower_bound(from->first + width(f));
      Run run{from->first, std::prev(to)->first - from->first + 1};
      const auto n = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(run.lanes)));
      if (most - least + 1 >= n) run = {std::min(run.first, most - n + 1), n};
      for (; from != to; ++from) from->second = {runs.size(), from->first - run.first};
      runs.push_back(run);
    }
    return out;
  }

  void combine_loads(const Family& f) {
    for (const UOp& m : f.members) loaded_[m.node()] = done_.over_sources(m);
    std::vector<Run> runs;
    const std::map<int64_t, Place> places = cover(f, runs);
    if (places.empty()) return;
    double by_runs = static_cast<double>(runs.size()) * (f.gate.empty() ? 1 : kGatedRun);
    for (size_t m = 0; m < f.members.size(); m++) {
      std::set<size_t> used;
      for (size_t i = 0; i < f.offsets[m].size(); i++)
        if (f.open[m][i]) used.insert(places.at(f.offsets[m][i]).first);
      by_runs += static_cast<double>(used.size());
    }
    const double lanes = static_cast<double>(f.n_lanes()), gathers = kGatheredLane * lanes;
    double by_blocks = gathers * static_cast<double>(f.members.size());
    std::vector<Block> blocks;
    if (f.gate.empty() && f.is_open()) blocks = blocks_of(f, width(f));
    for (const Block& b : blocks)
      by_blocks += lanes + transposing(f, b.lanes, std::ssize(b.members), b.lanes) -
                   gathers * static_cast<double>(b.members.size());
    if (by_blocks < by_runs) {
      for (const Block& b : blocks) load_block(f, b);
    } else if (by_runs < gathers * static_cast<double>(f.members.size())) {
      std::vector<UOp> values;
      for (const Run& r : runs) values.push_back(read(f, r.first, r.lanes));
      for (size_t m = 0; m < f.members.size(); m++) {
        std::vector<Lane> from;
        for (size_t i = 0; i < f.offsets[m].size(); i++)
          from.push_back(
              f.open[m][i] ? Lane{values[places.at(f.offsets[m][i]).first], places.at(f.offsets[m][i]).second}
                           : Lane{values[0], 0});
        loaded_[f.members[m].node()] = over_closed(to_vector(from), f.members[m], f.open[m]);
      }
    }
  }

  // With the alternative of a Load in lanes that are not open.
  UOp over_closed(const UOp& values, const UOp& member, const std::vector<bool>& open) const {
    if (std::ranges::find(open, false) == open.end()) return values;
    std::vector<UOp> gates, others(open.size(), done_.of(in_all_lanes(member.src(1))));
    for (const bool o : open) gates.push_back(constant(Scalar(o)));
    return where(stack(gates), values, stack(others));
  }

  // Of all parts of the lanes of a block.
  double transposing(const Family& f, int64_t rows, int64_t lanes, int64_t part) const {
    return static_cast<double>(f.n_lanes() / part) * cost_of_transposing(rows, lanes, width(f));
  }

  void load_block(const Family& f, const Block& b) {
    std::vector<std::vector<Lane>> values(b.members.size());
    for (int64_t from = 0; from < f.n_lanes(); from += b.lanes) {
      std::vector<UOp> rows;
      for (int64_t i = from; i < from + b.lanes; i++)
        rows.push_back(read(f, f.offsets[b.members[0]][static_cast<size_t>(i)], std::ssize(b.members)));
      rows = transposed(std::move(rows), width(f));
      for (int64_t k = 0; k < std::ssize(b.members) * b.lanes; k++) {
        const int64_t n = lanes_of(rows[0]);
        values[static_cast<size_t>(k / b.lanes)].push_back({rows[static_cast<size_t>(k / n)], k % n});
      }
    }
    for (size_t j = 0; j < values.size(); j++) loaded_[f.members[b.members[j]].node()] = to_vector(values[j]);
  }

  // ---- stores

  // Stores of one Group that nothing else waits for become others together; a Store on its own by itself.
  UOp visit_effects(const UOp& u) {
    const UOp done = done_.over_sources(u);
    std::vector<UOp> stores, effects;
    for (size_t i = 0; u.op() == Op::Group && i < u.n_srcs(); i++) {
      const bool is_free = u.src(i).op() == Op::Store && n_users_.at(u.src(i).node()) == 1;
      (is_free ? stores : effects).push_back(done.src(i));
    }
    if (u.op() == Op::Store) stores.push_back(done);
    std::unordered_set<const Node*> replaced;
    for (const Family& f : families_of(stores))
      if (combine_stores(f, effects))
        for (const UOp& m : f.members) replaced.insert(m.node());
    if (replaced.empty()) return done;
    for (const UOp& s : stores)
      if (!replaced.contains(s.node())) effects.push_back(s);
    return UOp::make(Op::Group, DType::Void, effects);
  }

  bool combine_stores(const Family& f, std::vector<UOp>& effects) const {
    if (!f.gate.empty() || !f.is_open()) return false;
    std::map<int64_t, Lane> elements;
    for (size_t m = 0; m < f.members.size(); m++)
      for (size_t i = 0; i < f.offsets[m].size(); i++)
        if (!elements.emplace(f.offsets[m][i], Lane{f.members[m].src(1), static_cast<int64_t>(i)}).second)
          return false;
    std::vector<std::pair<int64_t, std::vector<Lane>>> runs;
    for (const auto& [offset, lane] : elements) {
      const bool continues = !runs.empty() && offset == runs.back().first + std::ssize(runs.back().second) &&
                             std::ssize(runs.back().second) < width(f);
      if (!continues) runs.push_back({offset, {}});
      runs.back().second.push_back(lane);
    }
    double by_runs = static_cast<double>(runs.size());
    for (const auto& run : runs) {
      std::set<const Node*> used;
      for (const Lane& l : run.second) used.insert(l.value.node());
      by_runs += static_cast<double>(used.size());
    }
    const double scatters = kGatheredLane * static_cast<double>(elements.size());
    const std::vector<Block> blocks = blocks_of(f, width(f));
    size_t n_in_blocks = 0;
    double by_blocks = static_cast<double>(f.n_lanes()) * static_cast<double>(blocks.size());
    for (const Block& b : blocks) {
      n_in_blocks += b.members.size();
      by_blocks += transposing(f, std::ssize(b.members), b.lanes, b.lanes);
    }
    if (n_in_blocks < f.members.size()) by_blocks = scatters;
    if (std::min(by_runs, by_blocks) >= scatters) return false;
    if (by_blocks < by_runs) {
      for (const Block& b : blocks) store_block(f, b, effects);
    } else {
      for (const auto& [offset, lanes] : runs)
        effects.push_back(store(address(f, offset, std::ssize(lanes)), to_vector(lanes)));
    }
    return true;
  }

  void store_block(const Family& f, const Block& b, std::vector<UOp>& effects) const {
    const int64_t n_members = std::ssize(b.members);
    for (int64_t from = 0; from < f.n_lanes(); from += b.lanes) {
      std::vector<UOp> rows;
      for (const size_t m : b.members) {
        std::vector<Lane> part;
        for (int64_t i = from; i < from + b.lanes; i++) part.push_back({f.members[m].src(1), i});
        rows.push_back(to_vector(part));
      }
      rows = transposed(std::move(rows), width(f));
      const int64_t n = lanes_of(rows[0]);
      for (int64_t i = 0; i < b.lanes; i++) {
        std::vector<Lane> chunk;
        for (int64_t k = i * n_members; k < (i + 1) * n_members; k++)
          chunk.push_back({rows[static_cast<size_t>(k / n)], k % n});
        const int64_t offset = f.offsets[b.members[0]][static_cast<size_t>(from + i)];
        effects.push_back(store(address(f, offset, n_members), to_vector(chunk)));
      }
    }
  }

  const Target& target_;
  Rebuilt done_;
  static constexpr int kNotInGroup = 1 << 16;
  std::unordered_map<const Node*, int> n_users_;  // of Stores; others than Groups count kNotInGroup
  std::unordered_map<const Node*, const Family*> family_of_;
  std::unordered_map<const Node*, UOp> loaded_;  // what a Load of a family becomes
};

}  // namespace

UOp combine_lanes(const UOp& body, const Target& target) {
  return target.work_groups ? body : LaneCombiner(target).run(body);
}

}  // namespace lathe
