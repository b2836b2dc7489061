#include "formats/onnx/session.h"

#include "engine/recording.h"
#include "formats/onnx/call.h"
#include "tensor/layout.h"
#include "tensor/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::onnx {
namespace {

// A tensor with fewer elements than this, made from known values, is computed at once and on the host.
constexpr int64_t kSmall = 2048;

// Functions that call functions are a few levels; more than this is one that calls itself.
constexpr int kMaxCalls = 100;

// Inputs that come in more kinds than this are hardly ever met again.
constexpr size_t kMaxPlans = 32;

int64_t opset_of(const Opsets& opsets, const std::string& domain) {
  const auto it = opsets.find(domain);
  return it == opsets.end() ? 1 : it->second;
}

// Calls f for all nodes, those of graphs in attributes included.
template <class F>
void for_each_node(const std::vector<Node>& nodes, F f) {
  std::vector<const std::vector<Node>*> todo{&nodes};
  while (!todo.empty()) {
    const std::vector<Node>& list = *todo.back();
    todo.pop_back();
    for (const Node& node : list) {
      f(node);
      for (const Attribute& a : node.attributes)
        for (const auto& g : a.graphs) todo.push_back(&g->nodes);
    }
  }
}

// The ops that are no functions of the model and whose row is of a certain kind.
template <class F>
std::vector<OpUse> ops_of(const Model& model, F is_wanted) {
  std::map<std::string, OpUse> out;
  const auto look = [&](const Node& node) {
    const auto is_it = [&](const Function& f) { return f.name == node.op && f.domain == node.domain; };
    if (std::ranges::any_of(model.functions, is_it) || !is_wanted(find_op(node.domain, node.op))) return;
    const std::string op = node.domain.empty() ? node.op : node.domain + "." + node.op;
    OpUse& use = out[op];
    use.op = op;
    use.nodes.push_back(node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
  };
  for_each_node(model.graph.nodes, look);
  for (const Function& f : model.functions) for_each_node(f.nodes, look);
  std::vector<OpUse> list;
  for (auto& [op, use] : out) list.push_back(std::move(use));
  return list;
}

bool has_graph(const Node& node) {
  return std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.graphs.empty(); });
}
bool has_reference(const Node& node) {
  return std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.reference.empty(); });
}

// A known value as small as it gets: numbers instead of the graph that gives them.
Value settled(const Value& v) {
  if (!v.is_tensor() || !v.tensor().numel().is_const() || v.tensor().numel().value() > kSmall)
    return v.known();
  const Tensor& t = v.tensor();
  if (t.is_realized()) return v.known();
  const auto numbers = small_elements(t);
  if (!numbers) return v.known();
  return Value(from_elements(*numbers, t.shape(), strong(t.dtype()), t.device()), v.type()).known();
}

// Sizes that the model names or leaves open fit any.
bool fits(const Value& v, const TypeInfo& type) {
  if (!(v.is_tensor() || v.is_strings()) || type.kind != TypeInfo::Kind::Tensor) return true;
  if (v.type() != type.element) return false;
  if (!type.has_shape) return true;
  const std::vector<int64_t> sizes = v.shape();
  bool same = sizes.size() == type.dims.size();
  for (size_t i = 0; same && i < sizes.size(); i++) {
    const bool is_number = type.dims[i].find_first_not_of("0123456789") == std::string::npos;
    same = !is_number || type.dims[i].empty() || type.dims[i] == std::to_string(sizes[i]);
  }
  return same;
}

std::string describe(const Node& node, const Values& inputs) {
  std::string out = fmt::format("running {}", node.op);
  if (!node.name.empty()) out += fmt::format(" `{}`", node.name);
  if (!node.outputs.empty()) out += fmt::format(" for `{}`", node.outputs[0]);
  out += " with";
  for (const Value& v : inputs) out += " " + v.to_string();
  return out;
}

// `lent` has memory of the caller, which is not that of an output.
void realize(const Values& values, const std::vector<UOp>& lent) {
  std::vector<Tensor> tensors;
  std::vector<const Value*> todo;
  for (const Value& v : values) todo.push_back(&v);
  while (!todo.empty()) {
    const Value& v = *todo.back();
    todo.pop_back();
    if (v.is_tensor()) {
      tensors.push_back(v.tensor());
      if (std::find(lent.begin(), lent.end(), view_base(v.tensor().uop())) != lent.end())
        tensors.back().replace(v.tensor().clone());
    }
    if (v.is_sequence())
      for (const Value& item : v.items()) todo.push_back(&item);
  }
  Tensor::realize(tensors);
}

}  // namespace

std::string OpUse::to_string() const {
  constexpr size_t kShown = 3;
  const std::span<const std::string> shown(nodes.data(), std::min(kShown, nodes.size()));
  return fmt::format("{} ({} node{}: `{}`{})", op, nodes.size(), nodes.size() == 1 ? "" : "s",
                     fmt::join(shown, "`, `"), nodes.size() > kShown ? ", …" : "");
}

std::vector<OpUse> unsupported_ops(const Model& model) {
  return ops_of(model, [](const OpRow* row) { return !row; });
}
std::vector<OpUse> value_dependent_ops(const Model& model) {
  return ops_of(model, [](const OpRow* row) { return row && (row->reads_values || row->is_random); });
}

std::vector<ValueInfo> required_inputs(const Model& model) {
  std::vector<ValueInfo> out;
  const auto& stored = model.graph.initializers;
  for (const ValueInfo& i : model.graph.inputs)
    if (std::ranges::none_of(stored, [&](const TensorData& t) { return t.name == i.name; })) out.push_back(i);
  return out;
}

Session::Session(Model model, std::string device) : model_(std::move(model)), device_(std::move(device)) {
  for (const Function& f : model_.functions) functions_[{f.domain, f.name}] = &f;
  if (const auto missing = unsupported_ops(model_); !missing.empty()) {
    std::vector<std::string> texts;
    for (const OpUse& use : missing) texts.push_back(use.to_string());
    value_error("{} of the model's ops {} not supported: {}", texts.size(), texts.size() == 1 ? "is" : "are",
                fmt::join(texts, ", "));
  }
  DataFiles files(model_.folder, model_.file);
  read_constants(model_.graph, files);
  const auto inner = [&](const Node& node) {
    for (const Attribute& a : node.attributes)
      for (const auto& g : a.graphs) read_constants(*g, files);
  };
  for_each_node(model_.graph.nodes, inner);
  for (const Function& f : model_.functions) for_each_node(f.nodes, inner);
  fold_constants();
}

void Session::read_constants(const Graph& graph, DataFiles& files) {
  Names& names = constants_[&graph];
  for (const TensorData& t : graph.initializers) names[t.name] = to_value(t, files, device_).known();
  for (const SparseData& t : graph.sparse_initializers)
    names[t.values.name] = to_value(t, files, device_).known();
}

void Session::fold_constants() {
  Names& names = constants_[&model_.graph];
  Scope scope(*this);
  scope.names_ = names;
  for (const Node& node : model_.graph.nodes) {
    const auto is_known = [&](const std::string& name) { return name.empty() || scope.names_.count(name); };
    if (has_graph(node) || !std::ranges::all_of(node.inputs, is_known)) continue;
    scope.run_node(node);
    int64_t taken = 0;
    for (const std::string& name : node.inputs)
      if (!name.empty() && scope.names_[name].is_tensor())
        taken += scope.names_[name].tensor().nbytes().value();
    for (const std::string& name : node.outputs) {
      const auto it = scope.names_.find(name);
      if (it == scope.names_.end()) continue;
      if (!it->second.is_known()) {
        scope.names_.erase(it);
        continue;
      }
      // Weights that unpacking makes larger stay packed, and are unpacked where they are used.
      const Value& v = it->second;
      if (v.is_tensor() && !is_weak(v.tensor().dtype()) && v.tensor().nbytes().value() <= taken)
        v.tensor().realize();
      names[name] = v;
    }
  }
  for (const Node& node : model_.graph.nodes) {
    const bool has_groups = std::ranges::any_of(
        node.attributes, [](const Attribute& a) { return a.name == "group" && a.integer != 1; });
    if (node.op != "Conv" || node.inputs.size() < 2 || has_groups) continue;
    const auto it = names.find(node.inputs[1]);
    if (it != names.end() && it->second.is_tensor())
      it->second = Value(pack_outputs(it->second.tensor()), it->second.type()).known();
  }
}

void Session::check(const Inputs& inputs) const {
  for (const auto& [name, value] : inputs) {
    const auto& all = model_.graph.inputs;
    const auto it = std::ranges::find_if(all, [&](const ValueInfo& i) { return i.name == name; });
    if (it == all.end()) {
      std::vector<std::string> names;
      for (const ValueInfo& i : all) names.push_back(i.name);
      value_error("the model has no input `{}`, only {}", name, fmt::join(names, ", "));
    }
    if (!fits(value, it->type))
      type_error("input `{}` has to be {}, not {}", name, lathe::onnx::to_string(it->type),
                 value.to_string());
  }
  for (const ValueInfo& i : this->inputs())
    if (!inputs.count(i.name) && i.type.kind != TypeInfo::Kind::Optional)
      value_error("input `{}` ({}) is missing", i.name, lathe::onnx::to_string(i.type));
}

std::shared_ptr<Plan> Session::plan_for(const Inputs& inputs) const {
  std::lock_guard lock(mutex_);
  const auto it = std::ranges::find_if(plans_, [&](const auto& plan) { return plan->fits(inputs); });
  if (it == plans_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, it);
  return plans_.front();
}

size_t Session::plans() const {
  std::lock_guard lock(mutex_);
  return plans_.size();
}

Values Session::run(const Inputs& inputs) const {
  if (const auto plan = plan_for(inputs)) return plan->run(inputs);
  check(inputs);
  if (Recording::open()) return run_anew(inputs);
  const auto plan = std::make_shared<Plan>(inputs, device_);
  Values out;
  {
    const ReadLog log(plan->placeholders());
    Scope scope(*this);
    scope.names_.insert(plan->stand_ins().begin(), plan->stand_ins().end());
    out = scope.run_nodes(model_.graph);
    scope.names_.clear();  // values that live on would be kept up to date with what has run
    if (!plan->keep(out, log)) {
      realize(out, plan->placeholders());
      return out;
    }
  }
  {
    std::lock_guard lock(mutex_);
    plans_.push_front(plan);
    if (plans_.size() > kMaxPlans) plans_.pop_back();
  }
  return plan->run(inputs);
}

// While a recording is open: it would keep the memory that a new plan names.
Values Session::run_anew(const Inputs& inputs) const {
  Values out;
  {
    Scope scope(*this);
    scope.names_.insert(inputs.begin(), inputs.end());
    out = scope.run_nodes(model_.graph);
  }
  realize(out, {});
  return out;
}

const Value* Scope::find(const std::string& name) const {
  for (const Scope* s = this; s; s = s->outer_) {
    if (const auto it = s->names_.find(name); it != s->names_.end()) return &it->second;
    if (!s->constants_) continue;
    if (const auto it = s->constants_->find(name); it != s->constants_->end()) return &it->second;
  }
  return nullptr;
}

Values Scope::run(const Graph& graph, const Values& inputs) {
  if (inputs.size() != graph.inputs.size())
    value_error("graph `{}` has {} inputs, but {} are given", graph.name, graph.inputs.size(), inputs.size());
  Scope inner(session_, opsets_, this);
  inner.attributes_ = attributes_;
  inner.calls_ = calls_;
  for (size_t i = 0; i < inputs.size(); i++) inner.names_[graph.inputs[i].name] = inputs[i];
  return inner.run_nodes(graph);
}

Values Scope::run_nodes(const Graph& graph) {
  constants_ = &session_.constants_.at(&graph);
  for (const Node& node : graph.nodes) {
    const bool is_done = std::ranges::all_of(
        node.outputs, [&](const std::string& name) { return name.empty() || constants_->count(name); });
    if (!is_done) run_node(node);
  }
  Values out;
  for (const ValueInfo& o : graph.outputs) {
    const Value* v = find(o.name);
    if (!v) value_error("no node gives the output `{}` of graph `{}`", o.name, graph.name);
    out.push_back(*v);
  }
  return out;
}

void Scope::run_node(const Node& node) {
  Values inputs;
  bool all_known = true;
  for (const std::string& name : node.inputs) {
    const Value* v = name.empty() ? nullptr : find(name);
    if (!v && !name.empty()) value_error("{} `{}` reads `{}`, which nothing gives", node.op, node.name, name);
    inputs.push_back(v ? *v : Value());
    all_known = all_known && (!v || v->is_known());
  }
  ErrorContext context([&] { return describe(node, inputs); });
  Values outputs = has_reference(node) ? call(resolved(node), inputs) : call(node, inputs);
  if (outputs.size() < node.outputs.size()) outputs.resize(node.outputs.size());
  // Graphs and functions have settled what they know node by node.
  const OpRow* row = function_of(node) ? nullptr : find_op(node.domain, node.op);
  const bool is_known = all_known && row && !row->is_random && !has_graph(node);
  for (size_t i = 0; i < node.outputs.size(); i++)
    if (!node.outputs[i].empty()) names_[node.outputs[i]] = is_known ? settled(outputs[i]) : outputs[i];
}

// The node with the attributes that the function around it was called with.
Node Scope::resolved(const Node& node) const {
  Node out = node;
  std::erase_if(out.attributes, [](const Attribute& a) { return !a.reference.empty(); });
  for (const Attribute& a : node.attributes) {
    if (a.reference.empty() || !attributes_) continue;
    for (const Attribute& given : *attributes_) {
      if (given.name != a.reference) continue;
      out.attributes.push_back(given);
      out.attributes.back().name = a.name;
    }
  }
  return out;
}

const Function* Scope::function_of(const Node& node) const {
  const auto f = session_.functions_.find({node.domain, node.op});
  return f == session_.functions_.end() ? nullptr : f->second;
}

Values Scope::call(const Node& node, const Values& inputs) {
  if (const Function* function = function_of(node)) return run_function(*function, node, inputs);
  const OpRow* row = find_op(node.domain, node.op);
  CHECK(row, "{} was checked before", node.op);
  return row->run(Call(node, opset_of(opsets_, node.domain), inputs, *this));
}

Values Scope::run_function(const Function& function, const Node& node, const Values& inputs) {
  Scope inner(session_, function.opsets, nullptr);
  inner.calls_ = calls_ + 1;
  if (inner.calls_ > kMaxCalls) value_error("function {} calls itself", function.name);
  std::vector<Attribute> attributes = node.attributes;
  for (const Attribute& a : function.defaults)
    if (std::ranges::none_of(attributes, [&](const Attribute& b) { return b.name == a.name; }))
      attributes.push_back(a);
  inner.attributes_ = &attributes;
  for (size_t i = 0; i < function.inputs.size(); i++)
    inner.names_[function.inputs[i]] = i < inputs.size() ? inputs[i] : Value();
  for (const Node& n : function.nodes) inner.run_node(n);
  Values out;
  for (const std::string& name : function.outputs) {
    const Value* v = inner.find(name);
    if (!v) value_error("function {} does not give its output `{}`", function.name, name);
    out.push_back(*v);
  }
  return out;
}

}  // namespace lathe::onnx
