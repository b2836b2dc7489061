#include "property/values.h"

#include "uop/eval.h"

#include <algorithm>
#include <cmath>

namespace lathe::test {
namespace {

bool is_variable(const UOp& u) {
  return u.op() == Op::Range || u.op() == Op::Special ||
         (u.op() == Op::Param && u.param().space == AddrSpace::Alu);
}

struct Box {
  int64_t lo, hi;
};

size_t lanes_of(const UOp& u) {
  if (!u.has_shape() || u.ndim() == 0) return 1;
  return static_cast<size_t>(u.shape()[0].value());
}

// Where nothing bounds a variable: the numbers near which rules differ.
constexpr int64_t kFreeBox = 1000;

Box box_of(const UOp& leaf) {
  if (leaf.op() == Op::Param) {
    if (const auto& b = leaf.param().bounds) return {b->first, b->second};
    if (is_float(leaf.dtype())) return {-kFreeBox, kFreeBox};
    return {static_cast<int64_t>(std::max<int128>(min_value(leaf.dtype()).as_int(), -kFreeBox)),
            static_cast<int64_t>(std::min<int128>(max_value(leaf.dtype()).as_int(), kFreeBox))};
  }
  return {0, leaf.src(0).is_const() ? leaf.src(0).value().as_i64() - 1 : -1};
}

uint64_t step_of(const UOp& leaf) {
  return leaf.op() == Op::Param ? static_cast<uint64_t>(leaf.param().multiple_of) : 1;
}
// Number of the last value in the box, counted from 0 in steps; a low end that is no multiple is not legal.
uint64_t width_of(const UOp& leaf, const Box& b) {
  return b.lo > b.hi ? 0 : (static_cast<uint64_t>(b.hi) - static_cast<uint64_t>(b.lo)) / step_of(leaf);
}
Scalar value_in(const UOp& leaf, const Box& b, uint64_t i) {
  return cast_scalar(Scalar(static_cast<int64_t>(static_cast<uint64_t>(b.lo) + i * step_of(leaf))),
                     leaf.dtype());
}

// A number that a buffer holds.
Value element(const ParamArg& buffer, const Scalar& i, DType d) {
  if (i.is_invalid()) return cast_scalar(Scalar(0), d);
  Random random(static_cast<uint64_t>(buffer.slot), static_cast<uint64_t>(i.as_int()));
  return cast_scalar(Scalar(random.between(is_float(d) || is_signed_int(d) ? -9 : 0, 9)), d);
}

}  // namespace

Points::Points(const std::vector<UOp>& roots, Random random, size_t most) {
  for (const UOp& root : roots)
    for (const UOp& u : toposort(root))
      if (is_variable(u) && position_.emplace(u.node(), leaves_.size()).second) leaves_.push_back(u);
  values_.resize(leaves_.size());
  if (!enumerate(most)) sample(random, most);
}

const std::vector<Scalar>* Points::values(const UOp& leaf) const {
  const auto it = position_.find(leaf.node());
  if (it != position_.end()) return &values_[it->second];
  // A Range stays itself when its end is written in another way.
  if (leaf.op() == Op::Range)
    for (size_t i = 0; i < leaves_.size(); i++)
      if (leaves_[i].op() == Op::Range && leaves_[i].range() == leaf.range()) return &values_[i];
  return nullptr;
}

std::string Points::text(size_t point) const {
  std::string out;
  for (size_t i = 0; i < leaves_.size(); i++)
    out += fmt::format("{}{}={}", i ? " " : "", lathe::expression(leaves_[i]), values_[i][point].to_string());
  return out;
}

UOp Points::substituted(const UOp& u, size_t point) const {
  std::vector<std::pair<UOp, UOp>> numbers;
  for (const UOp& leaf : toposort(u))
    if (const std::vector<Scalar>* v = values(leaf))
      numbers.emplace_back(leaf, constant(leaf.dtype(), (*v)[point]));
  return substitute(u, numbers);
}

// Boxes whose sides are numbers only.
bool Points::enumerate(size_t most) {
  size_t n = 1;
  for (const UOp& leaf : leaves_) {
    if (leaf.op() != Op::Param && !leaf.src(0).is_const()) return false;
    const Box b = box_of(leaf);
    const uint64_t width = width_of(leaf, b);
    if (b.lo > b.hi) return true;  // an empty loop: no point at all
    if (width >= most || n * (width + 1) > most) return false;
    n *= width + 1;
  }
  n_ = n;
  size_t repeat = n;
  for (size_t i = 0; i < leaves_.size(); i++) {
    const Box b = box_of(leaves_[i]);
    const size_t count = width_of(leaves_[i], b) + 1;
    repeat /= count;
    values_[i].reserve(n);
    for (size_t p = 0; p < n; p++) values_[i].push_back(value_in(leaves_[i], b, p / repeat % count));
  }
  return true;
}

void Points::sample(Random& random, size_t most) {
  std::vector<Scalar> point(leaves_.size());
  for (size_t p = 0; p < most; p++) {
    bool empty = false;
    for (size_t i = 0; i < leaves_.size() && !empty; i++) {
      const UOp& leaf = leaves_[i];
      Box b = box_of(leaf);
      if (leaf.op() != Op::Param && !leaf.src(0).is_const()) {
        std::vector<std::pair<UOp, UOp>> known;
        for (size_t k = 0; k < i; k++) known.emplace_back(leaves_[k], constant(leaves_[k].dtype(), point[k]));
        const UOp end = substitute(leaf.src(0), known);
        const Value v = ValueTable(end, Points({}, random, 1)).result()[0];
        b.hi = v && !v->is_invalid() ? v->as_i64() - 1 : -1;
      }
      empty = b.lo > b.hi;
      if (empty) break;
      const uint64_t width = width_of(leaf, b), near = std::min<uint64_t>(width, random.below(4));
      const uint64_t zero = (0 - static_cast<uint64_t>(b.lo)) / step_of(leaf);
      const uint64_t anywhere = width == ~uint64_t{0} ? random.next() : random.below(width + 1);
      const uint64_t choices[] = {near, width - near, b.lo < 0 && b.hi > 0 ? zero : near, anywhere};
      point[i] = value_in(leaf, b, choices[std::min<uint64_t>(3, random.below(12))]);
    }
    if (empty) continue;
    for (size_t i = 0; i < leaves_.size(); i++) values_[i].push_back(point[i]);
    n_++;
  }
}

ValueTable::ValueTable(const UOp& root, const Points& points)
    : nodes_(toposort(root)), n_points_(points.size()), overflows_(points.size()) {
  values_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); i++) {
    position_.emplace(nodes_[i].node(), i);
    compute(i, points);
  }
}

bool ValueTable::defined(size_t point) const {
  for (const std::vector<Value>& v : values_)
    for (size_t i = point; i < v.size(); i += n_points_)
      if (!v[i]) return false;
  return true;
}

namespace {

// The value of an elementwise op of one lane at one point.
Value value_of(const UOp& u, const Value* const* srcs) {
  if (u.op() == Op::Where) {
    const Value& c = *srcs[0];
    if (!c || c->is_invalid()) return c;
    const Value& taken = *srcs[c->as_bool() ? 1 : 2];
    return taken ? Value(cast_scalar(*taken, u.dtype())) : taken;
  }
  const size_t n = u.n_srcs();
  if (is_bool(u.dtype()) && (u.op() == Op::And || u.op() == Op::Or)) {
    const Scalar decides(u.op() == Op::Or);
    for (size_t i = 0; i < 2; i++)
      if (!*srcs[i] && *srcs[1 - i] && (*srcs[1 - i])->equals(decides)) return decides;
  }
  for (size_t i = 0; i < n; i++)
    if (*srcs[i] && (*srcs[i])->is_invalid()) return *srcs[i];
  Scalar values[3];
  for (size_t i = 0; i < n; i++) {
    if (!*srcs[i]) return {};
    values[i] = **srcs[i];
  }
  if (u.op() == Op::Cast) return cast_scalar(values[0], u.dtype());
  if (u.op() == Op::Bitcast) return bitcast_scalar(values[0], u.src(0).dtype(), u.dtype());
  // A weak side of a comparison is committed at the type of the other.
  if (has_flag(u.op(), kComparison) && u.src(0).dtype() != u.src(1).dtype() && !values[0].is_invalid() &&
      !values[1].is_invalid()) {
    const DType common = join(u.src(0).dtype(), u.src(1).dtype());
    for (size_t i = 0; i < 2; i++) values[i] = cast_scalar(values[i], common);
  }
  return eval(u.op(), u.dtype(), {values, n});
}

}  // namespace

void ValueTable::compute(size_t node, const Points& points) {
  const UOp& u = nodes_[node];
  std::vector<Value>& out = values_[node];
  const size_t n = n_points_;
  if (const std::vector<Scalar>* given = points.values(u)) {
    out.assign(given->begin(), given->end());
    return;
  }
  auto source = [&](size_t i) -> const std::vector<Value>& { return values_[position_.at(u.src(i).node())]; };
  const size_t lanes = lanes_of(u);
  switch (u.op()) {
    case Op::Const: out.assign(n, u.value()); return;
    case Op::Param: return;  // a buffer
    case Op::Stack:
      for (size_t l = 0; l < u.n_srcs(); l++) out.insert(out.end(), source(l).begin(), source(l).end());
      return;
    case Op::Expand:  // of a scalar
      for (size_t l = 0; l < lanes; l++) out.insert(out.end(), source(0).begin(), source(0).end());
      return;
    case Op::Index:
      out.resize(lanes * n);
      if (u.src(0).op() == Op::Param) {  // an address is its index
        out = source(1);
        return;
      }
      for (size_t p = 0; p < n; p++) {
        const Value& i = source(1)[p];
        if (!i || i->is_invalid()) {
          out[p] = i;
        } else if (const size_t lane = static_cast<size_t>(i->as_i64()); lane < source(0).size() / n) {
          out[p] = source(0)[lane * n + p];
        }
      }
      return;
    case Op::Load:
      out.resize(lanes * n);
      for (size_t p = 0; p < n; p++)
        if (const Value& i = source(0)[p]) out[p] = element(u.src(0).src(0).param(), *i, u.dtype());
      return;
    default: break;
  }
  CHECK(is_alu(u.op()) || u.op() == Op::Cast || u.op() == Op::Bitcast, "no value for a {}", op_name(u.op()));
  out.resize(lanes * n);
  const bool divides = u.op() == Op::FloorDiv || u.op() == Op::FloorMod;
  const Value* srcs[3];
  for (size_t l = 0; l < lanes; l++)
    for (size_t p = 0; p < n; p++) {
      for (size_t i = 0; i < u.n_srcs(); i++) {
        const std::vector<Value>& v = source(i);
        srcs[i] = &v[v.size() == n ? p : l * n + p];
      }
      Value v = value_of(u, srcs);
      if (v && v->is_float() && !std::isfinite(v->as_double())) v = std::nullopt;
      divides_by_zero_ |= divides && *srcs[1] && !(*srcs[1])->is_invalid() && (*srcs[1])->equals(0);
      const bool grows = u.op() == Op::Add || u.op() == Op::Mul || u.op() == Op::Shl;
      if (!v && grows && u.dtype() == DType::WeakInt && *srcs[0] && *srcs[1]) overflows_[p] = true;
      out[l * n + p] = v;
    }
}

namespace {

Scalar identity_of(Op op, DType d) {
  return op == Op::Max ? min_value(d) : cast_scalar(Scalar(op == Op::Mul), d);
}

// The fold of `value` over one more range; the values of a Range that is empty for some variables count where
// it reaches them.
UOp fold_over(const UOp& value, const UOp& range, Op op, int64_t most) {
  UOp out;
  for (int64_t i = 0; i < most; i++) {
    UOp v = substitute(value, {{range, constant(Scalar(i))}});
    if (!range.src(0).is_const())
      v = where(lt(constant(Scalar(i)), range.src(0)), v, constant(v.dtype(), identity_of(op, v.dtype())));
    out = out ? alu(op, {out, v}) : v;
  }
  return out ? out : constant(value.dtype(), identity_of(op, value.dtype()));
}

}  // namespace

UOp unrolled(const UOp& root) {
  constexpr int64_t kMostValues = 100;
  std::unordered_map<const Node*, UOp> done;
  for (const UOp& u : toposort(root)) {
    std::vector<UOp> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(done.at(s.node()));
    if (u.op() != Op::Reduce) {
      done.emplace(u.node(), srcs.empty() ? u : u.with_srcs(srcs));
      continue;
    }
    UOp value = srcs[0];
    int64_t total = 1;
    for (size_t i = 1; i < srcs.size(); i++) {
      if (srcs[i].is_const()) continue;  // was a Range over one value
      const Scalar end = srcs[i].src(0).bounds().hi;
      if (!end.less(Scalar(kMostValues)) || (total *= std::max<int64_t>(end.as_i64(), 1)) > kMostValues)
        return {};
      value = fold_over(value, srcs[i], u.arg_as<ReduceArg>().op, end.as_i64());
    }
    done.emplace(u.node(), value);
  }
  return done.at(root.node());
}

bool same(const Value& a, const Value& b) {
  if (!a || !b) return !a && !b;
  return a->equals(*b);
}

std::string value_text(const Value& v) { return v ? v->to_string() : "no value"; }

}  // namespace lathe::test
