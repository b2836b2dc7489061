// A model that is ready to run.
#pragma once
#include "formats/onnx/plan.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace lathe::onnx {

using Names = std::unordered_map<std::string, Value>;

// An op and the nodes of a model that use it, functions and inner graphs included.
struct OpUse {
  std::string op;                  // "domain.Name", or "Name" in the default domain
  std::vector<std::string> nodes;  // their names, or the first output of one without
  std::string to_string() const;   // "Name (2 nodes: `a`, `b`)"
};
std::vector<OpUse> unsupported_ops(const Model& model);  // sorted by name, as the next
// Ops whose graphs depend on values, or give other values in every run: a model that computes the values they
// look at from its inputs is built anew in every run.
std::vector<OpUse> value_dependent_ops(const Model& model);
// The graph's inputs without those that have an initializer.
std::vector<ValueInfo> required_inputs(const Model& model);

// Runs a model. For inputs of new types and shapes it becomes a graph of tensors, which is kept: the next run
// on such inputs only replays it. A graph that depends on the values of inputs (control flow, sizes) is kept
// for these values where they are a few numbers, and otherwise built anew in every run. Thread-safe.
class Session {
 public:
  // UserError that lists every op of the model which is not supported. Values that follow from the model
  // alone are computed here.
  explicit Session(Model model, std::string device = "");
  explicit Session(const std::string& path, std::string device = "")
      : Session(load_model(path), std::move(device)) {}
  Session(const Session&) = delete;  // constants are found by the addresses of graphs
  Session& operator=(const Session&) = delete;

  const Model& model() const { return model_; }
  // What a run has to be given.
  std::vector<ValueInfo> inputs() const { return required_inputs(model_); }
  const std::vector<ValueInfo>& outputs() const { return model_.graph.outputs; }

  // The outputs in the order of the graph, realised. ValueError for an input that is missing or unknown,
  // TypeError for one of another element type or shape.
  Values run(const Inputs& inputs) const;
  // How many graphs are kept.
  size_t plans() const;

 private:
  friend class Scope;
  void check(const Inputs& inputs) const;
  std::shared_ptr<Plan> plan_for(const Inputs& inputs) const;
  Values run_anew(const Inputs& inputs) const;
  void read_constants(const Graph& graph, DataFiles& files);
  void fold_constants();

  Model model_;
  std::string device_;
  std::map<std::pair<std::string, std::string>, const Function*> functions_;  // by domain and name
  std::unordered_map<const Graph*, Names> constants_;
  mutable std::mutex mutex_;                        // guards plans_
  mutable std::list<std::shared_ptr<Plan>> plans_;  // the last used first
};

// The names that are visible at one place of a running graph.
class Scope {
 public:
  explicit Scope(const Session& session) : Scope(session, session.model_.opsets, nullptr) {}

  DataFiles files() const { return DataFiles(session_.model_.folder, session_.model_.file); }
  // Runs a graph that stands in an attribute; it sees the names of this scope. ValueError when the number of
  // inputs is another than the graph's.
  Values run(const Graph& graph, const Values& inputs);
  const Value* find(const std::string& name) const;  // null where no such name is visible

 private:
  friend class Session;
  Scope(const Session& session, const Opsets& opsets, const Scope* outer)
      : session_(session), opsets_(opsets), outer_(outer) {}
  Values run_nodes(const Graph& graph);
  void run_node(const Node& node);
  const Function* function_of(const Node& node) const;
  Values run_function(const Function& function, const Node& node, const Values& inputs);
  Values call(const Node& node, const Values& inputs);
  Node resolved(const Node& node) const;

  const Session& session_;
  const Opsets& opsets_;
  const Scope* outer_;
  const std::vector<Attribute>* attributes_ = nullptr;  // of the function that runs
  int calls_ = 0;
  const Names* constants_ = nullptr;  // of the graph that runs; what stands in names_ comes first
  Names names_;
};

}  // namespace lathe::onnx
