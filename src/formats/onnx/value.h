// What flows along the edges of an ONNX graph.
#pragma once
#include "base/function_ref.h"
#include "formats/onnx/model.h"
#include "formats/onnx/read_log.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lathe::onnx {

class Value;
using Values = std::vector<Value>;

struct Strings {
  std::vector<int64_t> shape;
  std::vector<std::string> items;
};

// A tensor, strings, a sequence, or nothing: an input that is left out, or an optional without element.
class Value {
 public:
  Value() = default;
  Value(Tensor t) : Value(t, element_type_of(t.dtype())) {}  // NOLINT(google-explicit-constructor)
  Value(Tensor t, ElementType type) : type_(type), content_(std::move(t)) {}
  Value(Strings s)  // NOLINT(google-explicit-constructor)
      : type_(ElementType::String), content_(std::make_shared<const Strings>(std::move(s))) {}
  static Value sequence(Values items, ElementType type = ElementType::Undefined);

  bool has_value() const { return content_.index() != 0; }
  bool is_tensor() const { return content_.index() == 1; }
  bool is_strings() const { return content_.index() == 2; }
  bool is_sequence() const { return content_.index() == 3; }
  // The caller has asked which one it is.
  const Tensor& tensor() const { return std::get<1>(content_); }
  const Strings& strings() const { return *std::get<2>(content_); }
  const Values& items() const { return *std::get<3>(content_); }

  ElementType type() const { return type_; }
  std::vector<int64_t> shape() const;  // of a tensor or strings
  std::string to_string() const;       // "float32[2, 3]", for messages

  // Whether the value is the same in every run: what follows from such values alone is computed once.
  bool is_known() const { return is_known_; }
  Value known() const {
    Value out = *this;
    out.is_known_ = true;
    return out;
  }

 private:
  ElementType type_ = ElementType::Undefined;
  bool is_known_ = false;
  std::variant<std::monostate, Tensor, std::shared_ptr<const Strings>, std::shared_ptr<const Values>>
      content_;
};

std::vector<int64_t> sizes_of(const Tensor& t);  // RuntimeError for a symbolic shape
Shape to_shape(const std::vector<int64_t>& sizes);

// The files that the tensors of a model lie in: its own, if any, and those of external data, each mapped
// once.
class DataFiles {
 public:
  explicit DataFiles(std::string folder = "", std::shared_ptr<const MappedFile> own = nullptr)
      : folder_(std::move(folder)), own_(std::move(own)) {}
  // The file below the folder that has the tensor's external data. ValueError when its location leads
  // elsewhere.
  std::shared_ptr<const MappedFile> external(const TensorData& data);
  const std::shared_ptr<const MappedFile>& own() const { return own_; }

 private:
  std::string folder_;
  std::shared_ptr<const MappedFile> own_;
  std::map<std::string, std::shared_ptr<const MappedFile>> others_;
};

// The value of stored data. Large tensors in files are used where they are mapped, on devices that share the
// memory of this process; others are copied.
Value to_value(const TensorData& data, DataFiles& files, const std::string& device = "");
Value to_value(const TensorData& data);
Value to_value(const SparseData& data, DataFiles& files, const std::string& device = "");
Value to_value(const NestedTensors& data);

std::vector<Scalar> decode_elements(std::span<const std::byte> raw, DType dtype);
// The elements in row-major order, computed on the host without running a kernel; none when the graph reads
// memory that is not there yet, or when it is more than a few thousand elements of work.
std::optional<std::vector<Scalar>> small_elements(const Tensor& t);
// The same, by running the graph where it has to.
std::vector<Scalar> elements(const Tensor& t);
std::vector<int64_t> integers(const Tensor& t);
template <class E>
std::vector<E> numbers(const Tensor& t) {
  ReadLog::note_run(t.uop());
  return t.to_vector<E>();
}
// A list as axis `axis` of a tensor of `rank` axes, the others of size 1.
Tensor along(const Tensor& list, int64_t axis, int64_t rank);
Tensor positions(int64_t n);  // 0 … n-1, int64
// x at positions along an axis.
Tensor picked(const Tensor& x, int64_t axis, TensorIndex at);
Ints axes_between(int64_t first, int64_t last);  // without the last
int64_t product(std::span<const int64_t> sizes);
// Strings move as their positions do.
Value moved(const Value& v, FunctionRef<Tensor(const Tensor&)> move);
// A tensor of these elements; one repeated value becomes a constant without memory.
Tensor from_elements(const std::vector<Scalar>& elements, const Shape& shape, DType dtype,
                     const std::string& device = "");

}  // namespace lathe::onnx
