// Control flow, sequences and optionals.
#include "formats/onnx/call.h"
#include "formats/onnx/session.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lathe::onnx {
namespace {

// Iterations whose values depend on each other run after so many, or the graph would grow with the loop.
constexpr int64_t kIterationsPerRun = 16;

bool truth(const Value& v) {
  const std::vector<Scalar> all = elements(v.tensor());
  if (all.size() != 1) value_error("a condition has to be one truth value, it is {}", v.to_string());
  return all[0].as_bool();
}

Value known_integer(int64_t v) { return Value(Tensor::constant_of({}, v, DType::Int64)).known(); }

void run_pending(const Values& values) {
  std::vector<Tensor> tensors;
  for (const Value& v : values)
    if (v.is_tensor() && !v.is_known()) tensors.push_back(v.tensor());
  Tensor::realize(tensors);
}

Values branch(const Call& c) {
  return c.scope().run(c.attr_graph(truth(c.value(0)) ? "then_branch" : "else_branch"), {});
}

// What is left of a list of per-iteration results when there was no iteration.
Value nothing_stacked(const TypeInfo& type) {
  Shape shape{SInt(0)};
  for (const std::string& d : type.dims) {
    int64_t size = 0;
    std::from_chars(d.data(), d.data() + d.size(), size);  // a name leaves it 0
    shape.push_back(SInt(size));
  }
  const ElementInfo* info = element_info(type.element);
  return Tensor::constant_of(shape, 0, info && info->bits ? info->dtype : DType::Float32);
}

Values loop(const Call& c) {
  const Graph& body = c.attr_graph("body");
  const int64_t limit = c.integer(0, std::numeric_limits<int64_t>::max());
  Value condition = c.has(1) ? c.value(1) : Value(Tensor::constant_of({}, true)).known();
  Values carried;
  for (size_t i = 2; i < c.size(); i++) carried.push_back(c.value(i));
  const size_t n = carried.size();
  if (body.outputs.size() < n + 1)
    value_error("the body has {} outputs for {} values", body.outputs.size(), n);
  std::vector<std::vector<Tensor>> scanned(body.outputs.size() - n - 1);
  for (int64_t i = 0; i < limit && truth(condition); i++) {
    Values inputs{known_integer(i), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values outputs = c.scope().run(body, inputs);
    condition = outputs[0];
    carried.assign(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(n));
    for (size_t k = 0; k < scanned.size(); k++) scanned[k].push_back(outputs[n + 1 + k].tensor());
    if (!small_elements(condition.tensor()) || i % kIterationsPerRun == kIterationsPerRun - 1)
      run_pending(outputs);
  }
  for (size_t k = 0; k < scanned.size(); k++)
    carried.push_back(scanned[k].empty() ? nothing_stacked(body.outputs[n + 1 + k].type)
                                         : Value(Tensor::stack(scanned[k])));
  return carried;
}

int64_t at_or(const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

// Runs the body once for each slice of the scanned inputs; `axes` has their axes.
Values scan_over(const Call& c, Values states, const std::vector<Tensor>& inputs,
                 const std::vector<int64_t>& axes, const std::vector<int64_t>& backwards, int64_t length) {
  const Graph& body = c.attr_graph("body");
  const size_t n = states.size();
  if (body.outputs.size() < n) value_error("the body has {} outputs for {} states", body.outputs.size(), n);
  std::vector<std::vector<Tensor>> scanned(body.outputs.size() - n);
  for (int64_t t = 0; t < length; t++) {
    Values given = states;
    for (size_t i = 0; i < inputs.size(); i++) {
      const int64_t axis = Call::axis(at_or(axes, i, 0), inputs[i].ndim());
      given.emplace_back(picked(inputs[i], axis, at_or(backwards, i, 0) ? length - 1 - t : t));
    }
    const Values outputs = c.scope().run(body, given);
    states.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(n));
    for (size_t k = 0; k < scanned.size(); k++) scanned[k].push_back(outputs[n + k].tensor());
    if (t % kIterationsPerRun == kIterationsPerRun - 1) run_pending(states);
  }
  const std::vector<int64_t> to = c.attr_ints("scan_output_axes"),
                             turned = c.attr_ints("scan_output_directions");
  for (size_t k = 0; k < scanned.size(); k++) {
    if (at_or(turned, k, 0)) std::reverse(scanned[k].begin(), scanned[k].end());
    states.push_back(scanned[k].empty() ? nothing_stacked(body.outputs[n + k].type)
                                        : Value(Tensor::stack(scanned[k], at_or(to, k, 0))));
  }
  return states;
}

// Opset 8 had a batch in front, and lengths as the first input.
Values scan_batches(const Call& c, size_t n_inputs) {
  const size_t n_states = c.size() - 1 - n_inputs;
  const int64_t batch = c[c.size() - 1].size(0).value(), length = c[c.size() - 1].size(1).value();
  std::vector<std::vector<Tensor>> results;
  for (int64_t b = 0; b < batch; b++) {
    Values states;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < n_states; i++) states.emplace_back(c[1 + i].at(b));
    for (size_t i = 0; i < n_inputs; i++) inputs.push_back(c[1 + n_states + i].at(b));
    const Values out = scan_over(c, states, inputs, {}, c.attr_ints("directions"), length);
    results.resize(out.size());
    for (size_t k = 0; k < out.size(); k++) results[k].push_back(out[k].tensor());
  }
  Values out;
  for (const auto& list : results) out.emplace_back(Tensor::stack(list));
  return out;
}

Values scan(const Call& c) {
  const auto n = static_cast<size_t>(c.attr_int("num_scan_inputs"));
  if (n == 0 || n > c.size() || (c.opset() < 9 && n == c.size()))
    value_error("{} of {} inputs cannot be scanned", n, c.size());
  if (c.opset() < 9) return scan_batches(c, n);
  Values states;
  for (size_t i = 0; i + n < c.size(); i++) states.push_back(c.value(i));
  const std::vector<Tensor> inputs = c.tensors(c.size() - n);
  const std::vector<int64_t> axes = c.attr_ints("scan_input_axes");
  return scan_over(c, states, inputs, axes, c.attr_ints("scan_input_directions"),
                   inputs[0].size(at_or(axes, 0, 0)).value());
}

const Values& items(const Call& c, size_t i) {
  if (!c.value(i).is_sequence())
    type_error("input {} has to be a sequence, it is {}", i, c.value(i).to_string());
  return c.value(i).items();
}

// A position, counted from the end where it is negative; `limit` is the largest.
size_t position(int64_t at, size_t size, size_t limit) {
  const int64_t from_start = at < 0 ? at + static_cast<int64_t>(size) : at;
  if (from_start < 0 || from_start > static_cast<int64_t>(limit))
    index_error("position {} of a sequence of {}", at, size);
  return static_cast<size_t>(from_start);
}

Value sequence_at(const Call& c) {
  const Values& all = items(c, 0);
  if (all.empty()) index_error("an empty sequence has no elements");
  return all[position(c.integer(1), all.size(), all.size() - 1)];
}

Value sequence_insert(const Call& c) {
  Values all = items(c, 0);
  const size_t at = c.has(2) ? position(c.integer(2), all.size(), all.size()) : all.size();
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), c.value(1));
  return Value::sequence(std::move(all));
}

Value sequence_erase(const Call& c) {
  Values all = items(c, 0);
  if (all.empty()) index_error("an empty sequence has no elements");
  const size_t at = c.has(1) ? position(c.integer(1), all.size(), all.size() - 1) : all.size() - 1;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  return Value::sequence(std::move(all), c.type(0));
}

Value sequence_construct(const Call& c) {
  Values all;
  for (size_t i = 0; i < c.size(); i++) all.push_back(c.value(i));
  return Value::sequence(std::move(all));
}

Tensor concat_from_sequence(const Call& c) {
  std::vector<Tensor> all;
  for (const Value& v : items(c, 0)) all.push_back(v.tensor());
  const int64_t axis = c.attr_int("axis");
  return c.attr_flag("new_axis") ? Tensor::stack(all, axis) : Tensor::cat(all, axis);
}

Value split_to_sequence(const Call& c) {
  const int64_t axis = c.attr_int("axis", 0), size = c[0].size(axis).value();
  Ints sizes(std::vector<int64_t>(static_cast<size_t>(size), 1));
  if (c.has(1)) {
    const std::vector<int64_t> given = c.integers(1);
    sizes = Ints(given);
    if (c[1].ndim() == 0) {
      if (given[0] <= 0) value_error("pieces of {}", given[0]);
      sizes = Ints();
      for (int64_t left = size; left > 0; left -= given[0]) sizes.push_back(std::min(left, given[0]));
    }
  }
  Values out;
  for (const Tensor& t : c[0].split(sizes, axis))
    out.emplace_back(c.has(1) || c.attr_flag("keepdims", true) ? t : t.squeeze(axis), c.type(0));
  return Value::sequence(std::move(out), c.type(0));
}

Values sequence_map(const Call& c) {
  const size_t n = items(c, 0).size();
  std::vector<Values> results(c.n_outputs());
  for (size_t i = 0; i < n; i++) {
    Values inputs;
    for (size_t k = 0; k < c.size(); k++)
      inputs.push_back(c.value(k).is_sequence() ? c.value(k).items().at(i) : c.value(k));
    const Values out = c.scope().run(c.attr_graph("body"), inputs);
    for (size_t k = 0; k < out.size() && k < results.size(); k++) results[k].push_back(out[k]);
  }
  Values out;
  for (Values& list : results) out.push_back(Value::sequence(std::move(list)));
  return out;
}

constexpr OpRow kRows[] = {
    {"ConcatFromSequence", of<concat_from_sequence>},
    OpRow{"If", of<branch>}.by_values(),
    OpRow{"Loop", of<loop>}.by_values(),
    {"Optional", [](const Call& c) { return c.has(0) ? c.value(0) : Value(); }},
    {"OptionalGetElement", [](const Call& c) { return c.value(0); }},
    {"OptionalHasElement", [](const Call& c) { return Tensor::constant_of({}, c.has(0)); }},
    {"Scan", of<scan>},
    {"SequenceAt", of<sequence_at>},
    {"SequenceConstruct", of<sequence_construct>},
    {"SequenceEmpty",
     [](const Call& c) { return Value::sequence({}, static_cast<ElementType>(c.attr_int("dtype", 1))); }},
    {"SequenceErase", of<sequence_erase>},
    {"SequenceInsert", of<sequence_insert>},
    {"SequenceLength", [](const Call& c) { return known_integer(static_cast<int64_t>(items(c, 0).size())); }},
    {"SequenceMap", of<sequence_map>},
    {"SplitToSequence", of<split_to_sequence>},
};

}  // namespace

std::span<const OpRow> control_ops() { return kRows; }

}  // namespace lathe::onnx
