// What the function of an op sees: one node, its inputs and attributes.
#pragma once
#include "formats/onnx/value.h"

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lathe::onnx {

class Scope;

// Errors are UserErrors; the session adds the node, the op and the shapes to their text.
class Call {
 public:
  Call(const Node& node, int64_t opset, const Values& inputs, Scope& scope)
      : node_(node), opset_(opset), inputs_(inputs), scope_(scope) {}

  int64_t opset() const { return opset_; }
  const Node& node() const { return node_; }
  Scope& scope() const { return scope_; }
  size_t n_outputs() const { return node_.outputs.size(); }
  bool wants(size_t output) const { return output < node_.outputs.size() && !node_.outputs[output].empty(); }

  // ---- inputs: those at the end may be missing, those before may be left out
  size_t size() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].has_value(); }
  const Value& value(size_t i) const;  // ValueError when it is missing
  const Tensor& operator[](size_t i) const;
  ElementType type(size_t i) const { return value(i).type(); }
  std::optional<Tensor> optional(size_t i) const;
  const Strings& strings(size_t i) const;
  // y and input i, where there is one.
  Tensor plus(size_t i, const Tensor& y) const { return has(i) ? y.add((*this)[i]) : y; }
  std::vector<Tensor> tensors(size_t first = 0) const;  // the inputs from `first` on
  // Read on the host.
  std::vector<int64_t> integers(size_t i) const { return onnx::integers((*this)[i]); }
  std::vector<int64_t> integers(size_t i, std::vector<int64_t> otherwise) const {
    return has(i) ? integers(i) : std::move(otherwise);
  }
  std::vector<double> reals(size_t i) const;
  int64_t integer(size_t i, std::optional<int64_t> otherwise = std::nullopt) const;
  double real(size_t i, std::optional<double> otherwise = std::nullopt) const;

  // ---- attributes, with the value of one that is not there; without that it has to be there
  const Attribute* attribute(std::string_view name) const;
  int64_t attr_int(std::string_view name, std::optional<int64_t> otherwise = std::nullopt) const;
  bool attr_flag(std::string_view name, bool otherwise = false) const {
    return attr_int(name, otherwise) != 0;
  }
  double attr_real(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
  std::string attr_text(std::string_view name, std::optional<std::string> otherwise = std::nullopt) const;
  std::vector<int64_t> attr_ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> attr_reals(std::string_view name) const;
  std::vector<std::string> attr_texts(std::string_view name) const;
  Value attr_value(std::string_view name) const;  // a tensor
  const Graph& attr_graph(std::string_view name) const;
  // That of the element type which the attribute numbers; of none and of unknown ones `otherwise`.
  DType attr_dtype(std::string_view name, DType otherwise) const;
  // The axes of an op that took them as an attribute before it took them as input i.
  std::vector<int64_t> ints_or_attr(size_t i, std::string_view name,
                                    std::vector<int64_t> otherwise = {}) const {
    return has(i) ? integers(i) : attr_ints(name, std::move(otherwise));
  }

  // The axis in [0, rank), counted from the end where it is negative; an IndexError outside of that.
  static int64_t axis(int64_t axis, int64_t rank);

 private:
  const Node& node_;
  int64_t opset_;
  const Values& inputs_;
  Scope& scope_;
};

inline Values as_values(Tensor t) { return {Value(std::move(t))}; }
inline Values as_values(Value v) { return {std::move(v)}; }
inline Values as_values(Values v) { return v; }
inline Values as_values(const std::vector<Tensor>& list) { return {list.begin(), list.end()}; }

// A row of the op tables: a name and what computes the outputs from a Call, as a lambda without captures that
// returns a Tensor, a Value, or a list of either.
struct OpRow {
  std::string_view name, domain;
  Values (*run)(const Call&);
  bool is_random = false;     // gives other values in every run
  bool reads_values = false;  // the graph that it becomes depends on the values of inputs
  template <class F>
    requires std::is_empty_v<F>
  constexpr OpRow(std::string_view name, F, std::string_view domain = "")
      : name(name), domain(domain), run([](const Call& c) { return as_values(F{}(c)); }) {}
  constexpr OpRow random() const {
    OpRow out = *this;
    out.is_random = true;
    return out;
  }
  constexpr OpRow by_values() const {
    OpRow out = *this;
    out.reads_values = true;
    return out;
  }
};

// A function as such a lambda.
template <auto F>
inline constexpr auto of = [](const Call& c) { return F(c); };

// An activation by its name, in any case.
Tensor activated(const Tensor& x, std::string name, double alpha, double beta);

inline constexpr std::string_view kMicrosoft = "com.microsoft";

// Null where there is no such op.
const OpRow* find_op(std::string_view domain, std::string_view name);
std::vector<const OpRow*> all_ops();  // by domain and name

// The value in another type, as Cast does it. Without `saturate`, what a type of eight bits cannot hold
// becomes its NaN or infinity. `round_mode` (up, down, nearest) is for powers of two.
Value cast_value(const Value& v, ElementType to, bool saturate = true, const std::string& round_mode = "up");

// One file each.
std::span<const OpRow> elementwise_ops();
std::span<const OpRow> cast_ops();
std::span<const OpRow> shape_ops();
std::span<const OpRow> index_ops();
std::span<const OpRow> reduce_ops();
std::span<const OpRow> window_ops();
std::span<const OpRow> neural_ops();
std::span<const OpRow> attention_ops();
std::span<const OpRow> control_ops();
std::span<const OpRow> quantize_ops();
std::span<const OpRow> resize_ops();
std::span<const OpRow> sample_ops();
std::span<const OpRow> recurrent_ops();
std::span<const OpRow> text_ops();
std::span<const OpRow> signal_ops();
std::span<const OpRow> learning_ops();
std::span<const OpRow> contrib_ops();

}  // namespace lathe::onnx
