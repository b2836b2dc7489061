// A model that is ready to run.
#pragma once
#include "formats/onnx/value.h"

#include <map>
#include <string>
#include <unordered_map>

namespace lathe::onnx {

using Names = std::unordered_map<std::string, Value>;

// Ops of the model, functions and inner graphs included, that are not supported; sorted.
std::vector<std::string> unsupported_ops(const Model& model);
// The graph's inputs without those that have an initializer.
std::vector<ValueInfo> required_inputs(const Model& model);

// Runs a model: the graph of tensors is built anew for the inputs of every run, so their sizes may change
// from run to run and control flow follows their values; schedules and kernels come from the caches where a
// graph of the same form ran before.
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
  Values run(const std::map<std::string, Value>& inputs) const;

 private:
  friend class Scope;
  void read_constants(const Graph& graph);
  void fold_constants();

  Model model_;
  std::string device_;
  std::map<std::pair<std::string, std::string>, const Function*> functions_;  // by domain and name
  std::unordered_map<const Graph*, Names> constants_;
};

// The names that are visible at one place of a running graph.
class Scope {
 public:
  explicit Scope(const Session& session) : Scope(session, session.model_.opsets, nullptr) {}

  const std::string& folder() const { return session_.model_.folder; }
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
