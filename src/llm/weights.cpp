#include "llm/weights.h"

#include "base/error.h"
#include "formats/gguf/dequantize.h"

#include <utility>

namespace lathe {
namespace {

const GgufTensor& checked(const GgufFile& file, const std::string& name, const std::vector<int64_t>& shape) {
  const GgufTensor* tensor = file.find(name);
  if (!tensor) value_error("{}: the model needs tensor {}, which is missing", file.name(), name);
  // Files differ in axes of size 1.
  const auto wide = [](const std::vector<int64_t>& s) {
    std::vector<int64_t> out;
    for (const int64_t n : s)
      if (n != 1) out.push_back(n);
    return out;
  };
  const auto text = [](const std::vector<int64_t>& s) { return to_string(Shape(s.begin(), s.end())); };
  if (wide(tensor->shape) != wide(shape))
    value_error("{}: tensor {} has shape {}, expected {}", file.name(), name, text(tensor->shape),
                text(shape));
  return *tensor;
}

}  // namespace

Tensor Linear::operator()(const Tensor& x) const {
  const Tensor y = multiply(x, weight);
  return bias ? y + *bias : y;
}

Weights::Weights(std::shared_ptr<const GgufFile> file, std::string device)
    : file_(std::move(file)), device_(std::move(device)) {}

bool Weights::has(const std::string& name) const { return file_->find(name) != nullptr; }

int64_t Weights::rows(const std::string& name) const {
  const GgufTensor* tensor = file_->find(name);
  return tensor && tensor->shape.size() >= 2 ? tensor->shape[tensor->shape.size() - 2] : 0;
}

Tensor Weights::values(const std::string& name, const Shape& shape) const {
  std::vector<int64_t> sizes;
  for (const SInt& n : shape) sizes.push_back(n.value());
  const GgufTensor& tensor = checked(*file_, name, sizes);
  const Tensor raw = dequantize(file_->packed(tensor, device_), tensor.type);
  return raw.reshape(shape).contiguous().realize();
}

std::optional<Tensor> Weights::optional_values(const std::string& name, const Shape& shape) const {
  if (!has(name)) return std::nullopt;
  return values(name, shape);
}

PackedMatrix Weights::experts(const std::string& name, int64_t experts, int64_t rows, int64_t columns) const {
  std::vector<int64_t> shape{rows, columns};
  if (experts) shape.insert(shape.begin(), experts);
  return pack(*file_, checked(*file_, name, shape), device_);
}

PackedMatrix Weights::matrix(const std::string& name, int64_t rows, int64_t columns) const {
  return experts(name, 0, rows, columns);
}

Linear Weights::linear(const std::string& name, int64_t rows, int64_t columns) const {
  return {matrix(name + ".weight", rows, columns), optional_values(name + ".bias", {rows})};
}

Linear Weights::linear_rows(const std::string& name, int64_t begin, int64_t rows, int64_t columns,
                            int64_t all_rows) const {
  const Linear all = linear(name, all_rows, columns);
  const Slice part{begin, begin + rows};
  Linear out{select(all.weight, part), std::nullopt};
  out.weight.rows = rows;
  if (all.bias) out.bias = all.bias->at(part).contiguous().realize();
  return out;
}

}  // namespace lathe
