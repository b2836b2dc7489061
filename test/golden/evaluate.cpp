#include "golden/golden.h"
#include "uop/eval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <unordered_map>

namespace lathe::test {
namespace {

constexpr int64_t kMaxPoints = 20000;
constexpr int kSamples = 8000;
constexpr double kTolerance = 1e-6;

// The box of a variable without bounds, and of floats: small numbers are where the rules differ.
constexpr int64_t kFreeBox = 1000;

struct Interval {
  int64_t lo, hi;
};

// Values that name `i` may take where the names before it have the values of `point`.
class Box {
 public:
  explicit Box(const Names& names) : names_(names) {
    for (const auto& [name, u] : names)
      ends_.emplace_back(u.op() == Op::Range ? u.src(0) : constant(0), names);
  }
  Interval interval(size_t i, std::span<const Scalar> point) const {
    const UOp& u = names_[i].second;
    if (u.op() == Op::Range) {
      const auto end = ends_[i](point);
      return {0, end ? end->as_i64() - 1 : -1};
    }
    if (const auto& b = u.param().bounds) return {b->first, b->second};
    if (is_float(u.dtype())) return {-kFreeBox, kFreeBox};
    const int128 lo = min_value(u.dtype()).as_int(), hi = max_value(u.dtype()).as_int();
    return {static_cast<int64_t>(std::max<int128>(lo, -kFreeBox)),
            static_cast<int64_t>(std::min<int128>(hi, kFreeBox))};
  }
  Scalar value(size_t i, int64_t v) const { return cast_scalar(Scalar(v), names_[i].second.dtype()); }
  bool has_values(size_t i) const {
    const UOp& u = names_[i].second;
    return u.op() == Op::Range || u.param().space == AddrSpace::Alu;
  }

 private:
  const Names& names_;
  std::vector<Evaluator> ends_;
};

// Visits all points of the box; false when there are more than `most` or `f` stops.
bool visit_all(const Box& box, std::vector<Scalar>& point, size_t i, int64_t& left,
               const std::function<bool(std::span<const Scalar>)>& f) {
  if (i == point.size()) return left-- > 0 && f(point);
  if (!box.has_values(i)) return visit_all(box, point, i + 1, left, f);
  const Interval range = box.interval(i, point);
  for (int64_t v = range.lo; v <= range.hi; v++) {
    point[i] = box.value(i, v);
    if (!visit_all(box, point, i + 1, left, f)) return false;
  }
  return true;
}

bool same_value(const Scalar& a, const Scalar& b) {
  if (a.equals(b)) return true;
  if (b.is_invalid() || (!a.is_float() && !b.is_float())) return false;
  const double x = a.as_double(), y = b.as_double();
  return std::abs(x - y) <= kTolerance * std::max(std::abs(x), std::abs(y));
}

std::string point_text(const Names& names, std::span<const Scalar> point) {
  std::string out;
  for (size_t i = 0; i < names.size(); i++)
    out += fmt::format("{}{}={}", i ? " " : "", names[i].first, point[i].to_string());
  return out;
}

// Names that the roots use, directly or by the end of a Range.
Names used_names(const Names& names, std::initializer_list<UOp> roots) {
  Names used;
  for (const auto& entry : names)
    if (std::any_of(roots.begin(), roots.end(), [&](const UOp& r) { return reaches(r, entry.second); }))
      used.push_back(entry);
  return used;
}

}  // namespace

Evaluator::Evaluator(const UOp& root, const Names& names) {
  std::unordered_map<const Node*, int> variables;
  for (size_t i = 0; i < names.size(); i++) variables.emplace(names[i].second.node(), static_cast<int>(i));
  std::unordered_map<const Node*, size_t> at;
  // A variable is a leaf: its shape and the end of a Range are no part of its value.
  for (const UOp& u : toposort(root, [&](const UOp&) { return true; })) {
    Step step{u, -1, {}};
    if (const auto it = variables.find(u.node()); it != variables.end()) step.variable = it->second;
    if (step.variable < 0)
      for (const UOp& s : u.srcs()) step.srcs.push_back(at.at(s.node()));
    at.emplace(u.node(), steps_.size());
    steps_.push_back(std::move(step));
  }
}

std::optional<Scalar> Evaluator::operator()(std::span<const Scalar> values) const {
  std::vector<std::optional<Scalar>> done(steps_.size());
  std::vector<Scalar> srcs;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const UOp& u = step.node;
    if (step.variable >= 0) {
      done[i] = values[static_cast<size_t>(step.variable)];
      continue;
    }
    if (u.is_const()) {
      done[i] = u.value();
      continue;
    }
    if (u.op() == Op::Stack) continue;  // the shape of a variable
    if (!is_alu(u.op()) && u.op() != Op::Cast && u.op() != Op::Bitcast)
      value_error("{} is no scalar arithmetic", op_name(u.op()));
    srcs.clear();
    for (const size_t s : step.srcs)
      if (done[s]) srcs.push_back(*done[s]);
    // Where needs only the branch it takes.
    if (u.op() == Op::Where && done[step.srcs[0]] && !done[step.srcs[0]]->is_invalid()) {
      const auto& taken = done[step.srcs[done[step.srcs[0]]->as_bool() ? 1 : 2]];
      if (taken) done[i] = cast_scalar(*taken, u.dtype());
      continue;
    }
    if (srcs.size() != step.srcs.size()) continue;
    if (u.op() == Op::Cast) {
      done[i] = cast_scalar(srcs[0], u.dtype());
    } else if (u.op() == Op::Bitcast) {
      done[i] = bitcast_scalar(srcs[0], u.src(0).dtype(), u.dtype());
      // The one NaN of constants has lost the bits.
      if (done[i]->is_float() && std::isnan(done[i]->as_double())) done[i] = std::nullopt;
    } else {
      // A weak side of a comparison is committed at the type of the other.
      if (has_flag(u.op(), kComparison))
        for (size_t k = 0; k < 2; k++)
          if (is_weak(u.src(k).dtype()) && !is_weak(u.src(1 - k).dtype()) && !u.src(1 - k).is_invalid())
            srcs[k] = cast_scalar(srcs[k], u.src(1 - k).dtype());
      done[i] = eval(u.op(), u.dtype(), srcs);
    }
  }
  return done.back();
}

void for_each_point(const Names& names, const std::function<bool(std::span<const Scalar>)>& f) {
  const Box box(names);
  std::vector<Scalar> point(names.size());
  int64_t left = kMaxPoints;
  if (visit_all(box, point, 0, left, [](auto) { return true; })) {
    left = kMaxPoints;
    visit_all(box, point, 0, left, f);
    return;
  }
  std::mt19937_64 random(1);
  for (int n = 0; n < kSamples; n++) {
    bool empty = false;
    for (size_t i = 0; i < names.size() && !empty; i++) {
      if (!box.has_values(i)) continue;
      const Interval range = box.interval(i, point);
      empty = range.lo > range.hi;
      if (empty) break;
      const uint64_t r = random();
      const auto width = static_cast<uint64_t>(range.hi - range.lo);
      const uint64_t inside =
          width == std::numeric_limits<uint64_t>::max() ? random() : random() % (width + 1);
      const uint64_t step = r % 8 == 0 ? 0 : r % 8 == 1 ? width : inside;
      point[i] = box.value(i, static_cast<int64_t>(static_cast<uint64_t>(range.lo) + step));
    }
    if (!empty && !f(point)) return;
  }
}

std::string find_difference(const UOp& a, const UOp& b, const Names& names) {
  if (a == b) return "";
  const Names used = used_names(names, {a, b});
  const Evaluator value_a(a, used), value_b(b, used);
  std::string difference;
  for_each_point(used, [&](std::span<const Scalar> point) {
    const auto x = value_a(point);
    if (!x || x->is_invalid()) return true;
    const auto y = value_b(point);
    if (y && same_value(*x, *y)) return true;
    difference = fmt::format("{} instead of {} at {}", y ? y->to_string() : "no value", x->to_string(),
                             point_text(used, point));
    return false;
  });
  return difference;
}

}  // namespace lathe::test
