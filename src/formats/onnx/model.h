// The messages of ONNX as structs, and their reader.
#pragma once
#include "base/mmap.h"
#include "base/result.h"
#include "uop/dtype.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::onnx {

// Numbered as in TensorProto.DataType.
enum class ElementType : int32_t {
  Undefined = 0,
#define ELEMENT_TYPE(id, number, name, bits, dtype) id = number,
#include "formats/onnx/element_types.def"
#undef ELEMENT_TYPE
};

struct ElementInfo {
  ElementType type;
  std::string_view name;
  int bits;     // in a file; 0 for strings
  DType dtype;  // that holds it in memory: types of fewer than 8 bits are widened
};
// Null where the number is not in the table.
const ElementInfo* element_info(ElementType type);
const ElementInfo& known_element(ElementType type);  // TypeError where it is not
std::string element_name(ElementType type);
ElementType element_type_of(DType d);

struct TensorData {
  std::string name;
  ElementType type = ElementType::Undefined;
  std::vector<int64_t> dims;
  std::span<const std::byte> raw;  // elements little-endian, in the input
  std::vector<std::byte> typed;    // the same from the fields for one type each, when those were used
  std::vector<std::string> strings;
  std::map<std::string, std::string> external;  // where the elements stand in another file
  std::span<const std::byte> elements() const { return typed.empty() ? raw : std::span(typed); }
  int64_t count() const;  // product of dims
};

struct SparseData {
  TensorData values, indices;
  std::vector<int64_t> dims;
};

struct Graph;
struct Attribute {
  std::string name;
  int64_t integer = 0;
  float real = 0;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  std::vector<TensorData> tensors;  // one, or a list
  std::vector<SparseData> sparse;
  std::vector<std::shared_ptr<const Graph>> graphs;
  std::string reference;  // the attribute of the enclosing function that gives the value
};

struct Node {
  std::string op, domain, name;
  std::vector<std::string> inputs, outputs;  // "" for one that is left out
  std::vector<Attribute> attributes;
};

struct TypeInfo {
  enum class Kind : uint8_t { Unknown, Tensor, Sequence, Optional };
  Kind kind = Kind::Unknown;
  ElementType element = ElementType::Undefined;
  bool has_shape = false;
  std::vector<std::string> dims;  // a number, a name, or "?"
  std::vector<TypeInfo> inner;    // of a sequence or an optional
};
std::string to_string(const TypeInfo& type);  // "float32[N, 3]", "sequence(int64)"

struct ValueInfo {
  std::string name;
  TypeInfo type;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<TensorData> initializers;
  std::vector<SparseData> sparse_initializers;  // named by their values
  std::vector<ValueInfo> inputs, outputs;
};

using Opsets = std::map<std::string, int64_t>;  // version by domain; "" is ai.onnx

struct Function {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct Model {
  int64_t ir_version = 0;
  std::string producer, producer_version;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
  std::string folder;                      // external data is looked for below it
  std::shared_ptr<const MappedFile> file;  // what spans look at, unless the caller keeps the bytes
};

// A sequence or an optional in a file of its own.
struct NestedTensors {
  bool is_sequence = false;
  std::vector<TensorData> tensors;
  std::vector<NestedTensors> nested;
};

// All spans in the results look into `bytes`. Tensors have the bytes that their dims need. `where` names the
// input in errors.
Result<Model> parse_model(std::span<const std::byte> bytes, std::string_view where);
Result<TensorData> parse_tensor(std::span<const std::byte> bytes, std::string_view where);
Result<NestedTensors> parse_sequence(std::span<const std::byte> bytes, std::string_view where);
Result<NestedTensors> parse_optional(std::span<const std::byte> bytes, std::string_view where);

// UserErrors name the file.
Model load_model(const std::string& path);

}  // namespace lathe::onnx
