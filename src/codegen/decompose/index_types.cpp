#include "codegen/passes.h"
#include "renderer/program.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"

#include <unordered_map>

namespace lathe {
namespace {

DType index_dtype(const Bounds& b) { return fits(b, DType::Int32) ? DType::Int32 : DType::Int64; }
bool is_weak_const(const UOp& u) { return u.is_const() && is_weak(u.dtype()); }

// Sources of `u` that take part in the choice of its type, and are converted to it.
std::span<const UOp> operands(const UOp& u) { return u.op() == Op::Where ? u.srcs().subspan(1) : u.srcs(); }

// Which nodes are computed in which float type: the default float or wider.
class FloatTypes {
 public:
  explicit FloatTypes(const std::vector<UOp>& order) {
    for (auto u = order.rbegin(); u != order.rend(); ++u) visit(*u);
  }
  DType of(const UOp& u) const {
    const auto it = wanted_.find(u.node());
    return it == wanted_.end() ? default_float() : it->second;
  }

 private:
  void visit(const UOp& u) {
    const DType d = wanted_by(u);
    if (!is_float(d)) return;
    for (const UOp& s : u.srcs()) {
      if (s.dtype() != DType::WeakFloat || s.is_const()) continue;
      const auto [it, fresh] = wanted_.emplace(s.node(), join(default_float(), d));
      if (!fresh) it->second = join(it->second, d);
    }
  }
  // The type that `u` takes its weak float sources in; void where it does not say.
  DType wanted_by(const UOp& u) const {
    if (u.op() == Op::Cast) return is_weak(u.dtype()) ? DType::Void : u.dtype();
    if (u.op() == Op::Store) return u.src(0).dtype();
    if (has_flag(u.op(), kComparison)) {
      const DType d = join(u.src(0).dtype(), u.src(1).dtype());
      return is_weak(d) ? DType::Void : d;
    }
    if (!is_alu(u.op()) && u.op() != Op::Stack) return DType::Void;
    return u.dtype() == DType::WeakFloat ? of(u) : u.dtype();
  }
  std::unordered_map<const Node*, DType> wanted_;
};

class WeakCommit {
 public:
  explicit WeakCommit(std::vector<UOp> order) : order_(std::move(order)), floats_(order_) {}

  UOp run() {
    return done_.walk(order_, [&](const UOp& u) { return visit(u); });
  }

 private:
  const UOp& of(const UOp& u) const { return done_.of(u); }
  // The committed form of source `u` in type `d`.
  UOp as(const UOp& u, DType d) const {
    if (u.is_invalid()) return u;
    if (is_weak_const(u)) return constant(d, u.value());
    return cast(of(u), d);
  }

  UOp rebuild(const UOp& u, DType operand_dtype) const {
    SmallVec<UOp, 8> srcs;
    const size_t first = u.n_srcs() - operands(u).size();
    for (size_t i = 0; i < u.n_srcs(); i++)
      srcs.push_back(i < first ? of(u.src(i)) : as(u.src(i), operand_dtype));
    return UOp::make(u.op(), DType::Void, {srcs.data(), srcs.size()}, u.arg());
  }

  // The type of a weak integer node: wide when it or a source needs it.
  DType int_type(const UOp& u) const {
    DType d = index_dtype(u.bounds());
    for (const UOp& s : operands(u))
      if (!s.is_invalid() && is_int(of(s).dtype())) d = join(d, of(s).dtype());
    return d;
  }
  DType type_of(const UOp& u) const {
    if (u.dtype() == DType::WeakInt) return int_type(u);
    return u.dtype() == DType::WeakFloat ? floats_.of(u) : u.dtype();
  }

  // A type that holds the values of both sides, so that a comparison means what it says.
  DType comparison_type(const UOp& a, const UOp& b) const {
    if (a.is_invalid() || b.is_invalid()) return of(a.is_invalid() ? b : a).dtype();
    const DType d = join(a.dtype(), b.dtype());
    if (d == DType::WeakFloat) return join(default_float(), join(float_part(a), float_part(b)));
    if (d == DType::WeakInt) {
      DType t = DType::Int32;
      for (const UOp* s : {&a, &b})
        if (is_int(s->dtype())) t = join(t, of(*s).dtype());
      return t;
    }
    if (!is_int(d)) return d;
    DType t = d;
    for (const UOp* s : {&a, &b})
      if (is_weak(s->dtype()) && !fits(s->bounds(), d) && d != DType::UInt64)
        t = bit_width(t) < 32 && fits(s->bounds(), DType::Int32) ? DType::Int32 : DType::Int64;
    return t;
  }
  DType float_part(const UOp& u) const {
    return u.dtype() == DType::WeakFloat && !u.is_const() ? of(u).dtype() : default_float();
  }

  UOp visit(const UOp& u) {
    switch (u.op()) {
      case Op::Const: return commit_literal(u);
      case Op::Param:
      case Op::Buffer: return commit_param(u);
      case Op::Cast: return commit_cast(u);
      case Op::Index:
      case Op::Shrink: return is_memory(u.src(0)) ? commit_address(u) : done_.over_sources(u);
      case Op::Load: return commit_load(u);
      case Op::Store: return commit_store(u);
      case Op::Stack:
        if (u.n_srcs() == 0) return u;  // the shape of a variable
        return rebuild(u, type_of(u));
      case Op::Shl:
      case Op::Shr: {
        DType d = type_of(u);
        if (is_weak_const(u.src(0)) && !is_weak(u.src(1).dtype())) d = join(u.dtype(), u.src(1).dtype());
        const DType count = is_weak(u.src(1).dtype()) ? d : u.src(1).dtype();
        return UOp::make(u.op(), DType::Void, {as(u.src(0), d), as(u.src(1), count)});
      }
      default: break;
    }
    if (has_flag(u.op(), kComparison)) return rebuild(u, comparison_type(u.src(0), u.src(1)));
    return is_alu(u.op()) ? rebuild(u, type_of(u)) : done_.over_sources(u);
  }

  static UOp commit_literal(const UOp& u) {
    if (!is_weak(u.dtype()) || u.is_invalid()) return u;
    if (u.dtype() == DType::WeakFloat) return constant(default_float(), u.value());
    return constant(index_dtype(u.bounds()), u.value());
  }

  UOp commit_param(const UOp& u) const {
    if (!is_weak(u.dtype())) return done_.over_sources(u);
    auto arg = std::make_shared<ParamArg>(u.param());
    arg->dtype = u.dtype() == DType::WeakInt ? index_dtype(u.bounds()) : default_float();
    return UOp::make(u.op(), arg->dtype, {of(u.src(0))}, ParamPtr(arg));
  }

  UOp commit_cast(const UOp& u) const {
    const UOp& x = u.src(0);
    if (!is_weak(u.dtype())) return as(x, u.dtype());
    if (u.dtype() == DType::WeakFloat) return as(x, floats_.of(u));
    const DType d = index_dtype(u.bounds());
    return as(x, is_int(of(x).dtype()) && !is_unsigned(of(x).dtype()) ? join(d, of(x).dtype()) : d);
  }

  UOp commit_load(const UOp& u) const {
    if (u.n_srcs() == 1) return done_.over_sources(u);
    return UOp::make(Op::Load, DType::Void, {of(u.src(0)), as(u.src(1), u.dtype()), of(u.src(2))});
  }

  UOp commit_store(const UOp& u) const {
    SmallVec<UOp, 3> srcs{of(u.src(0)),
                          is_weak(u.src(1).dtype()) ? as(u.src(1), u.src(0).dtype()) : of(u.src(1))};
    if (u.n_srcs() > 2) srcs.push_back(of(u.src(2)));
    return UOp::make(Op::Store, DType::Void, {srcs.data(), srcs.size()});
  }

  UOp commit_address(const UOp& u) {
    if (!is_small(u.src(0).shape())) return done_.over_sources(u);
    SmallVec<UOp, 3> srcs{of(u.src(0)), low_word(of(u.src(1)))};
    if (u.n_srcs() > 2) srcs.push_back(of(u.src(2)));
    return u.with_srcs({srcs.data(), srcs.size()});
  }

  // Every element has an index below 2^31.
  static bool is_small(const Shape& s) {
    if (s.size() != 1) return false;
    const Scalar largest = s[0].is_const() ? Scalar(s[0].value()) : s[0].uop().bounds().hi;
    return !Scalar(int64_t{1} << 31).less(largest);
  }

  // Ops whose low 32 result bits depend only on the low 32 bits of their operands.
  static bool is_modular(const UOp& u) {
    constexpr OpSet kModular{Op::Add, Op::Sub, Op::Mul,   Op::Neg,  Op::And,
                             Op::Or,  Op::Xor, Op::Where, Op::Stack};
    return is_wide(u) && (kModular.contains(u.op()) ||
                          (u.op() == Op::Shl && u.src(1).is_const() && u.src(1).value().less(Scalar(32))));
  }
  static bool is_wide(const UOp& u) { return is_int(u.dtype()) && bit_width(u.dtype()) == 64; }

  // `u` modulo 2^32 as int32, with the arithmetic down to the first other op done in int32.
  UOp low_word(const UOp& u) {
    if (!is_wide(u)) return u;
    const auto is_new = [&](const UOp& n) { return is_modular(n) && !low_.contains(n.node()); };
    for (const UOp& n : toposort(u, is_new)) {
      SmallVec<UOp, 8> srcs;
      const size_t first = n.n_srcs() - operands(n).size();
      for (size_t i = 0; i < n.n_srcs(); i++) srcs.push_back(i < first ? n.src(i) : low_of(n.src(i)));
      low_.emplace(n.node(), UOp::make(n.op(), DType::Void, srcs));
    }
    return low_of(u);
  }
  UOp low_of(const UOp& n) const {
    if (const auto it = low_.find(n.node()); it != low_.end()) return it->second;
    if (n.is_invalid()) return n;
    if (n.is_const()) return constant(DType::Int32, n.value());
    const bool widened = n.op() == Op::Cast && (is_int(n.src(0).dtype()) || is_bool(n.src(0).dtype()));
    return cast(widened ? n.src(0) : n, DType::Int32);
  }

  std::vector<UOp> order_;
  FloatTypes floats_;
  Rebuilt done_;
  std::unordered_map<const Node*, UOp> low_;
};

}  // namespace

UOp commit_weak_types(const UOp& sink, const Target&) { return WeakCommit(toposort(sink)).run(); }

}  // namespace lathe
