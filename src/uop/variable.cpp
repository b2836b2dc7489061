#include "uop/variable.h"

#include "uop/rebuild.h"

namespace lathe {
namespace {

UOp bound(const UOp& param, int64_t value) {
  return UOp::make(Op::After, {param, store(param, constant(Scalar(value)))});
}

UOp named(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of) {
  if (name.empty()) value_error("a Variable needs a name");
  return variable(name, lo, hi, DType::WeakInt, multiple_of);
}

bool is_variable(const UOp& u) { return u.op() == Op::Param && u.param().space == AddrSpace::Alu; }

// The bodies of Calls have them, too.
std::vector<UOp> all_nodes(const UOp& graph) {
  return toposort(graph, [](const UOp&) { return true; }, true);
}
UOp replaced(const std::vector<UOp>& order, const std::vector<std::pair<UOp, UOp>>& map) {
  Rebuilt done(map);
  return done.walk(order,
                   [&](const UOp& u) { return done.contains(u) ? UOp(done.of(u)) : done.over_sources(u); });
}

}  // namespace

Variable::Variable(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of)
    : Variable(named(name, lo, hi, multiple_of), std::nullopt) {}

// One that can have one value only is that number.
Variable::Variable(UOp param, std::optional<int64_t> value)
    : SInt(value && !param.bounds().is_single() ? bound(param, *value) : param),
      param_(std::move(param)),
      value_(value) {}

Variable Variable::bind(int64_t value) const {
  const ParamArg& p = param_.param();
  const auto [lo, hi] = *p.bounds;
  if (value < lo || value > hi)
    value_error("cannot bind {} to Variable {}: it is in {}..{}", value, p.name, lo, hi);
  if (value % p.multiple_of)
    value_error("cannot bind {} to Variable {}: it is a multiple of {}", value, p.name, p.multiple_of);
  return Variable(param_, value);
}

std::pair<Variable, int64_t> Variable::unbind() const {
  if (!value_) user_runtime_error("Variable {} has no value: use bind()", name());
  return {Variable(param_, std::nullopt), *value_};
}

bool is_bound_variable(const UOp& u) { return u.op() == Op::After && is_variable(u.src(0)); }

UOp take_values(const UOp& graph, VariableValues& values) {
  std::vector<std::pair<UOp, UOp>> bare;
  const std::vector<UOp> order = all_nodes(graph);
  for (const UOp& u : order) {
    if (!is_bound_variable(u)) continue;
    const UOp& param = u.src(0);
    const std::string& name = param.param().name;
    const int64_t value = u.src(1).src(1).value().as_i64();
    const auto [it, is_new] = values.emplace(name, value);
    if (it->second != value) user_runtime_error("bind mismatch on {}, {} != {}", name, it->second, value);
    for (const auto& [other, known] : bare)
      if (known.param().name == name)
        user_runtime_error("two Variables with other bounds are called {}", name);
    bare.emplace_back(u, param);
  }
  if (bare.empty()) return graph;
  const UOp out = replaced(order, bare);
  if (!(give_values(out, values) == graph))
    user_runtime_error("Variable {} is used with and without its value: use what bind() returns everywhere",
                       bare[0].second.param().name);
  return out;
}

UOp give_values(const UOp& graph, const VariableValues& values) {
  std::vector<std::pair<UOp, UOp>> map;
  if (values.empty()) return graph;
  const std::vector<UOp> order = all_nodes(graph);
  for (const UOp& u : order)
    if (is_variable(u))
      if (const auto it = values.find(u.param().name); it != values.end())
        map.emplace_back(u, bound(u, it->second));
  return map.empty() ? graph : replaced(order, map);
}

std::optional<int64_t> value_of(const SInt& size) {
  if (size.is_const()) return size.value();
  std::vector<std::pair<UOp, UOp>> numbers;
  const UOp u = size.uop();
  for (const UOp& part : toposort(u))
    if (is_bound_variable(part)) numbers.emplace_back(part, part.src(1).src(1));
  const SInt out(substitute(u, numbers));
  return out.is_const() ? std::optional(out.value()) : std::nullopt;
}

Shape max_shape(const Shape& s) {
  Shape out;
  for (const SInt& d : s) out.push_back(SInt(d.vmax()));
  return out;
}

}  // namespace lathe
