#include "formats/onnx/call.h"

#include "formats/onnx/session.h"

#include <map>

namespace lathe::onnx {

const Value& Call::value(size_t i) const {
  if (!has(i)) value_error("input {} is missing", i);
  return inputs_[i];
}

const Tensor& Call::operator[](size_t i) const {
  const Value& v = value(i);
  if (!v.is_tensor()) type_error("input {} has to be a tensor of numbers, it is {}", i, v.to_string());
  return v.tensor();
}

const Strings& Call::strings(size_t i) const {
  const Value& v = value(i);
  if (!v.is_strings()) type_error("input {} has to be strings, it is {}", i, v.to_string());
  return v.strings();
}

std::optional<Tensor> Call::optional(size_t i) const {
  return has(i) ? std::optional((*this)[i]) : std::nullopt;
}

std::vector<Tensor> Call::tensors(size_t first) const {
  std::vector<Tensor> out;
  for (size_t i = first; i < size(); i++) out.push_back((*this)[i]);
  return out;
}

std::vector<double> Call::reals(size_t i) const {
  std::vector<double> out;
  for (const Scalar& v : elements((*this)[i])) out.push_back(v.as_double());
  return out;
}

int64_t Call::integer(size_t i, std::optional<int64_t> otherwise) const {
  if (!has(i) && otherwise) return *otherwise;
  const std::vector<int64_t> all = integers(i);
  if (all.size() != 1) value_error("input {} has to be one number, it has {}", i, all.size());
  return all[0];
}

double Call::real(size_t i, std::optional<double> otherwise) const {
  if (!has(i) && otherwise) return *otherwise;
  const std::vector<double> all = reals(i);
  if (all.size() != 1) value_error("input {} has to be one number, it has {}", i, all.size());
  return all[0];
}

const Attribute* Call::attribute(std::string_view name) const {
  for (const Attribute& a : node_.attributes)
    if (a.name == name) return &a;
  return nullptr;
}

namespace {

// The attribute's value, or what stands for it.
template <class T, class Read>
T value_of(const Attribute* a, std::string_view name, std::optional<T> otherwise, Read read) {
  if (a) return read(*a);
  if (!otherwise) value_error("attribute `{}` is missing", name);
  return std::move(*otherwise);
}

template <class T>
const T& first_of(const std::vector<T>& list, std::string_view name, std::string_view what) {
  if (list.empty()) value_error("attribute `{}` is not {}", name, what);
  return list[0];
}

}  // namespace

int64_t Call::attr_int(std::string_view name, std::optional<int64_t> otherwise) const {
  return value_of(attribute(name), name, otherwise, [](const Attribute& a) { return a.integer; });
}
double Call::attr_real(std::string_view name, std::optional<double> otherwise) const {
  return value_of(attribute(name), name, otherwise, [](const Attribute& a) { return double{a.real}; });
}
std::string Call::attr_text(std::string_view name, std::optional<std::string> otherwise) const {
  return value_of(attribute(name), name, std::move(otherwise), [](const Attribute& a) { return a.text; });
}
std::vector<int64_t> Call::attr_ints(std::string_view name, std::vector<int64_t> otherwise) const {
  return value_of(attribute(name), name, std::optional(std::move(otherwise)),
                  [](const Attribute& a) { return a.integers; });
}
std::vector<float> Call::attr_reals(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? a->reals : std::vector<float>();
}
std::vector<std::string> Call::attr_texts(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? a->texts : std::vector<std::string>();
}
Value Call::attr_value(std::string_view name) const {
  return value_of(attribute(name), name, std::optional<Value>(), [&](const Attribute& a) {
    DataFiles files = scope_.files();
    return to_value(first_of(a.tensors, name, "a tensor"), files);
  });
}
const Graph& Call::attr_graph(std::string_view name) const {
  const Attribute* a = attribute(name);
  if (!a) value_error("attribute `{}` is missing", name);
  return *first_of(a->graphs, name, "a graph");
}

DType Call::attr_dtype(std::string_view name, DType otherwise) const {
  const ElementInfo* info = element_info(static_cast<ElementType>(attr_int(name, 0)));
  return info ? info->dtype : otherwise;
}

int64_t Call::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) index_error("axis {} of a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

namespace {

using OpTable = std::map<std::pair<std::string_view, std::string_view>, const OpRow*>;

const OpTable& op_table() {
  static const OpTable all = [] {
    OpTable out;
    for (const std::span<const OpRow> table :
         {elementwise_ops(), cast_ops(), shape_ops(), index_ops(), reduce_ops(), window_ops(), neural_ops(),
          attention_ops(), control_ops(), quantize_ops(), resize_ops(), sample_ops(), recurrent_ops(),
          text_ops(), signal_ops(), learning_ops(), contrib_ops()})
      for (const OpRow& row : table)
        CHECK(out.emplace(std::pair{row.domain, row.name}, &row).second, "two rows for {}", row.name);
    return out;
  }();
  return all;
}

}  // namespace

const OpRow* find_op(std::string_view domain, std::string_view name) {
  const auto it = op_table().find({domain, name});
  return it == op_table().end() ? nullptr : it->second;
}

std::vector<const OpRow*> all_ops() {
  std::vector<const OpRow*> out;
  for (const auto& [name, row] : op_table()) out.push_back(row);
  return out;
}

}  // namespace lathe::onnx
