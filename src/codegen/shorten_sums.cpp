#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "uop/comparison.h"
#include "uop/gates.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"

#include <algorithm>

namespace lathe {
namespace {

// The steps of a loop that may add something: from `begin` on, below `end`.
struct Steps {
  UOp loop, begin, end;
  std::vector<UOp> clauses;  // that say so
  UOp number() const { return simplify(maximum(end - begin, constant(0))); }
};

// Whether it is the same for all that runs side by side, and known without memory.
bool is_place(const UOp& x) {
  return std::ranges::none_of(x.ranges(),
                              [](const Node* r) {
                                const AxisType type = UOp(r).range().type;
                                return type != AxisType::Loop && type != AxisType::Thread;
                              }) &&
         std::ranges::none_of(toposort(x), [](const UOp& u) { return u.op() == Op::Load; });
}

// The steps that a clause leaves of the one of the loops that it is about; nothing where that is not a plain
// loop, or what it is compared with is not the same for all that runs side by side.
std::optional<Steps> steps_under(const UOp& clause, std::span<const UOp> loops) {
  const std::optional<BoundClause> bound = bound_clause(clause);
  std::optional<LinearSum> rest = bound ? LinearSum::of(bound->x) : std::nullopt;
  if (!rest) return {};
  const Term* of_loop = nullptr;
  for (const Term& t : rest->terms) {
    if (std::ranges::find(loops, t.base) != loops.end() && t.base.range().type == AxisType::Reduce) {
      if (of_loop || magnitude(t.factor) != 1) return {};
      of_loop = &t;
    } else if (!is_place(t.base)) {
      return {};
    }
  }
  if (!of_loop || !of_loop->base.src(0).is_const()) return {};
  const UOp loop = of_loop->base;
  const bool grows = of_loop->factor == 1;
  rest->add(loop, -of_loop->factor);
  rest->constant -= bound->limit;
  const UOp least = rest->normalize().to_uop();  // factor * loop + least is at most, or at least, 0
  const UOp last = grows ? least * -1 : least;
  Steps out{loop, constant(0), loop.src(0), {clause}};
  if (bound->is_upper == grows)
    out.end = minimum(last + 1, out.end);
  else
    out.begin = maximum(last, out.begin);
  return out;
}

// Whether so many steps go that it makes up for a loop whose length is not known before.
bool pays(const UOp& left, int64_t size) {
  constexpr double kMostPlaces = 256, kMostLeft = 0.88;
  std::vector<UOp> places;
  double n = 1, sum = 0;
  for (const Node* r : left.ranges()) {
    places.emplace_back(r);
    if (!places.back().src(0).is_const()) return false;
    n *= places.back().bounds().hi.as_double() + 1;
  }
  if (n > kMostPlaces) return false;
  for_each_combination(places, [&](std::span<const int64_t> at) {
    const UOp steps = simplify(at_values(left, places, at));
    sum += steps.is_const() ? steps.value().as_double() : static_cast<double>(size);
  });
  return sum <= kMostLeft * n * static_cast<double>(size);
}

// Without these the value is 0, as far as gates and selections say so.
std::vector<UOp> clauses_of_zero(const UOp& value) {
  std::vector<UOp> out, work{value};
  while (!work.empty()) {
    const UOp u = work.back();
    work.pop_back();
    const bool is_selected = u.op() == Op::Where && u.src(2).is_const(Scalar(0));
    if (u.op() == Op::Mul) work.insert(work.end(), u.srcs().begin(), u.srcs().end());
    if (u.op() == Op::Cast) work.push_back(u.src(0));
    if (is_selected) work.push_back(u.src(1));
    if (is_selected || is_gated_load(u))
      for (const UOp& c : split_operands(is_selected ? u.src(0) : u.src(0).src(1).src(0), Op::And))
        out.push_back(c);
  }
  return out;
}

// The loops that the value is 0 in enough steps of.
std::vector<Steps> shorter(const UOp& value, std::span<const UOp> loops) {
  std::vector<Steps> out;
  for (const UOp& clause : clauses_of_zero(value)) {
    const std::optional<Steps> s = steps_under(clause, loops);
    if (!s) continue;
    const auto known = std::ranges::find(out, s->loop, &Steps::loop);
    if (known == out.end()) {
      out.push_back(*s);
      continue;
    }
    known->begin = maximum(known->begin, s->begin);
    known->end = minimum(known->end, s->end);
    known->clauses.push_back(clause);
  }
  std::erase_if(out, [](const Steps& s) { return !pays(s.number(), size_of(s.loop)); });
  return out;
}

}  // namespace

std::vector<UOp> shortening_clauses(const UOp& value, std::span<const UOp> loops) {
  std::vector<UOp> out;
  for (const Steps& s : shorter(value, loops)) out.insert(out.end(), s.clauses.begin(), s.clauses.end());
  return out;
}

UOp shorten_sums(const UOp& body) {
  const std::vector<UOp> order = toposort(body);
  int id = next_range_id(body);
  std::vector<UOp> kept;  // clauses that hold in all steps that are left
  std::vector<RangeChange> changes;
  for (const UOp& sum : order) {
    if (sum.op() != Op::Reduce || sum.arg_as<ReduceArg>().op != Op::Add) continue;
    for (const Steps& s : shorter(sum.src(0), sum.srcs().subspan(1))) {
      if (std::ranges::count_if(order, [&](const UOp& u) { return closes(u, s.loop); }) != 1) continue;
      kept.insert(kept.end(), s.clauses.begin(), s.clauses.end());
      const UOp loop = range(s.number(), id++, AxisType::Reduce);
      changes.push_back({s.loop, s.begin + loop, {loop}});
    }
  }
  if (changes.empty()) return body;
  Rebuilt done;
  const UOp ungated = done.walk(order, [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (!is_gated_load(v) || !is_inside(v.src(0).src(0), v.src(0).src(1).src(1))) return v;
    const UOp &memory = v.src(0).src(0), &gated = v.src(0).src(1);  // which the gate need not guard
    UOp rest;
    for (const UOp& c : split_operands(gated.src(0), Op::And))
      if (std::ranges::find(kept, c) == kept.end()) rest = and_gates(rest, c);
    return load(index(memory, rest ? where(rest, gated.src(1), invalid()) : gated.src(1)));
  });
  return simplify(change_ranges(ungated, changes));
}

}  // namespace lathe
