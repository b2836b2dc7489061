#include "formats/onnx/model.h"

#include "archive/parsing.h"
#include "formats/onnx/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace lathe::onnx {
namespace {

constexpr ElementInfo kElements[] = {
#define ELEMENT_TYPE(id, number, name, bits, dtype) {ElementType::id, name, bits, DType::dtype},
#include "formats/onnx/element_types.def"
#undef ELEMENT_TYPE
};

// Little-endian elements of `width` bytes from numbers.
void pack(const std::vector<int64_t>& numbers, size_t width, std::vector<std::byte>& out) {
  for (int64_t v : numbers)
    for (size_t i = 0; i < width; i++)
      out.push_back(static_cast<std::byte>(static_cast<uint64_t>(v) >> (8 * i) & 255));
}

// Why the elements are not what type and dims need; "" when they are.
std::string size_problem(const TensorData& t) {
  const ElementInfo* info = element_info(t.type);
  if (!info)
    return fmt::format("tensor `{}` has the unknown element type {}", t.name, static_cast<int32_t>(t.type));
  int64_t count = 1;
  bool overflows = false, is_empty = false;
  for (int64_t d : t.dims) {
    if (d < 0) return fmt::format("tensor `{}` has the negative size {}", t.name, d);
    is_empty = is_empty || d == 0;
    overflows = __builtin_mul_overflow(count, d, &count) || overflows;
  }
  // One more factor of 64 has to fit, for the bits.
  if (!is_empty && (overflows || count > (INT64_MAX >> 6)))
    return fmt::format("tensor `{}` has too many elements", t.name);
  if (is_empty) count = 0;
  if (!t.external.empty()) return "";
  const auto needed = info->type == ElementType::String ? count : (count * info->bits + 7) / 8;
  const auto present =
      static_cast<int64_t>(info->type == ElementType::String ? t.strings.size() : t.elements().size());
  if (needed == present) return "";
  return fmt::format("tensor `{}` of {} needs {} {}, but has {}", t.name, info->name, needed,
                     info->type == ElementType::String ? "strings" : "bytes", present);
}

// The default domain has two names.
std::string domain_name(std::string name) { return name == "ai.onnx" ? "" : name; }

// The member that takes the fields of a number.
template <class T>
struct Field {
  uint32_t number;
  T& out;
};

// Reads messages; a member's type says what its fields hold.
struct Reader {
  template <class... T>
  static void read_fields(Message& m, Field<T>... fields) {
    while (m.next()) ((m.field() == fields.number ? take(m, fields.out) : void()), ...);
  }

  static void take(Message& m, int64_t& out) { out = m.integer(); }
  static void take(Message& m, float& out) { out = m.real(); }
  static void take(Message& m, ElementType& out) { out = static_cast<ElementType>(m.integer()); }
  static void take(Message& m, std::string& out) { out = m.text(); }
  static void take(Message& m, std::span<const std::byte>& out) { out = m.bytes(); }
  static void take(Message& m, std::vector<int64_t>& out) { m.append_to(out); }
  static void take(Message& m, std::vector<float>& out) { m.append_to(out); }
  static void take(Message& m, std::vector<std::byte>& out) { m.append_raw(out); }
  static void take(Message& m, std::map<std::string, std::string>& out) {
    const auto [key, value] = entry<std::string>(m);
    out[key] = value;
  }
  static void take(Message& m, Opsets& out) {
    const auto [domain, version] = entry<int64_t>(m);
    out[domain_name(domain)] = version;
  }
  static void take(Message& m, std::shared_ptr<const Graph>& out) {
    auto graph = std::make_shared<Graph>();
    read(m.message(), *graph);
    out = std::move(graph);
  }
  template <class T>
  static void take(Message& m, std::vector<T>& out) {
    take(m, out.emplace_back());
  }
  template <class T>
  static void take(Message& m, T& out) {
    read(m.message(), out);
  }

  // A key and its value.
  template <class T>
  static std::pair<std::string, T> entry(Message& m) {
    std::pair<std::string, T> out;
    Message message = m.message();
    read_fields(message, Field{1, out.first}, Field{2, out.second});
    return out;
  }

  static void read(Message m, TensorData& out) {
    std::vector<int64_t> numbers;
    read_fields(m, Field{1, out.dims}, Field{2, out.type}, Field{4, out.typed}, Field{10, out.typed},
                Field{5, numbers}, Field{7, numbers}, Field{11, numbers}, Field{6, out.strings},
                Field{8, out.name}, Field{9, out.raw}, Field{13, out.external});
    const ElementInfo* info = element_info(out.type);
    if (info && !numbers.empty()) pack(numbers, static_cast<size_t>(std::max(info->bits / 8, 1)), out.typed);
    if (const std::string problem = size_problem(out); !problem.empty()) m.fail("{}", problem);
  }
  static void read(Message m, SparseData& out) {
    read_fields(m, Field{1, out.values}, Field{2, out.indices}, Field{3, out.dims});
  }
  static void read(Message m, Attribute& out) {
    read_fields(m, Field{1, out.name}, Field{2, out.real}, Field{3, out.integer}, Field{4, out.text},
                Field{5, out.tensors}, Field{10, out.tensors}, Field{6, out.graphs}, Field{11, out.graphs},
                Field{7, out.reals}, Field{8, out.integers}, Field{9, out.texts}, Field{21, out.reference},
                Field{22, out.sparse}, Field{23, out.sparse});
  }
  static void read(Message m, Node& out) {
    read_fields(m, Field{1, out.inputs}, Field{2, out.outputs}, Field{3, out.name}, Field{4, out.op},
                Field{5, out.attributes}, Field{7, out.domain});
    out.domain = domain_name(std::move(out.domain));
  }
  static void read_dims(Message shape, std::vector<std::string>& out) {
    while (shape.next()) {
      if (shape.field() != 1) continue;
      Message dim = shape.message();
      std::string text = "?";
      while (dim.next()) {
        if (dim.field() == 1) text = std::to_string(dim.integer());
        if (dim.field() == 2) text = dim.text();
      }
      out.push_back(text);
    }
  }
  static void read(Message m, TypeInfo& out) {
    while (m.next()) {
      const uint32_t kind = m.field();
      if (kind != 1 && kind != 4 && kind != 9) continue;
      out.kind = kind == 1   ? TypeInfo::Kind::Tensor
                 : kind == 4 ? TypeInfo::Kind::Sequence
                             : TypeInfo::Kind::Optional;
      Message body = m.message();
      while (body.next()) {
        if (body.field() == 1) kind == 1 ? take(body, out.element) : take(body, out.inner);
        if (body.field() == 2 && kind == 1) {
          out.has_shape = true;
          read_dims(body.message(), out.dims);
        }
      }
    }
  }
  static void read(Message m, ValueInfo& out) { read_fields(m, Field{1, out.name}, Field{2, out.type}); }
  static void read(Message m, Graph& out) {
    read_fields(m, Field{1, out.nodes}, Field{2, out.name}, Field{5, out.initializers}, Field{11, out.inputs},
                Field{12, out.outputs}, Field{15, out.sparse_initializers});
  }
  static void read(Message m, Function& out) {
    read_fields(m, Field{1, out.name}, Field{4, out.inputs}, Field{5, out.outputs}, Field{7, out.nodes},
                Field{9, out.opsets}, Field{10, out.domain}, Field{11, out.defaults});
    out.domain = domain_name(std::move(out.domain));
  }
  static void read(Message m, Model& out) {
    read_fields(m, Field{1, out.ir_version}, Field{2, out.producer}, Field{3, out.producer_version},
                Field{7, out.graph}, Field{8, out.opsets}, Field{25, out.functions});
  }
  // SequenceProto and OptionalProto number their parts alike.
  static void read(Message m, NestedTensors& out) {
    while (m.next()) {
      if (m.field() == 3) take(m, out.tensors);
      if (m.field() != 5 && m.field() != 7) continue;
      const bool is_sequence = m.field() == 5;
      take(m, out.nested);
      out.nested.back().is_sequence = is_sequence;
    }
  }
};

template <class T>
Result<T> parse(std::span<const std::byte> bytes, std::string_view where, T out = {}) {
  return parsed([&] {
    Reader::read(Message(bytes, where), out);
    return std::move(out);
  });
}

}  // namespace

const ElementInfo* element_info(ElementType type) {
  for (const ElementInfo& e : kElements)
    if (e.type == type) return &e;
  return nullptr;
}

const ElementInfo& known_element(ElementType type) {
  const ElementInfo* info = element_info(type);
  if (!info) type_error("there is no element type {}", static_cast<int32_t>(type));
  return *info;
}

std::string element_name(ElementType type) {
  const ElementInfo* info = element_info(type);
  return info ? std::string(info->name) : fmt::format("element type {}", static_cast<int32_t>(type));
}

ElementType element_type_of(DType d) {
  for (const ElementInfo& e : kElements)
    if (e.dtype == strong(d)) return e.type;
  return ElementType::Undefined;
}

std::string to_string(const TypeInfo& type) {
  switch (type.kind) {
    case TypeInfo::Kind::Unknown: return "?";
    case TypeInfo::Kind::Sequence:
      return fmt::format("sequence({})", type.inner.empty() ? "?" : to_string(type.inner[0]));
    case TypeInfo::Kind::Optional:
      return fmt::format("optional({})", type.inner.empty() ? "?" : to_string(type.inner[0]));
    case TypeInfo::Kind::Tensor: break;
  }
  const std::string name = element_name(type.element);
  return type.has_shape ? fmt::format("{}[{}]", name, fmt::join(type.dims, ", ")) : name;
}

int64_t TensorData::count() const {
  int64_t n = 1;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  for (int64_t d : dims) n *= d;
  return n;
}

Result<Model> parse_model(std::span<const std::byte> bytes, std::string_view where) {
  return parse<Model>(bytes, where);
}
Result<TensorData> parse_tensor(std::span<const std::byte> bytes, std::string_view where) {
  return parse<TensorData>(bytes, where);
}
Result<NestedTensors> parse_sequence(std::span<const std::byte> bytes, std::string_view where) {
  NestedTensors out;
  out.is_sequence = true;
  return parse(bytes, where, std::move(out));
}
Result<NestedTensors> parse_optional(std::span<const std::byte> bytes, std::string_view where) {
  return parse<NestedTensors>(bytes, where);
}

Model load_model(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  Model out = parse_model(file->bytes(), path).or_throw();
  out.folder = std::filesystem::path(path).parent_path().string();
  out.file = std::move(file);
  return out;
}

}  // namespace lathe::onnx
