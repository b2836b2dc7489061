#include "formats/onnx/model.h"

#include "formats/onnx/wire.h"

#include <algorithm>
#include <filesystem>

namespace lathe::onnx {
namespace {

void read(Message m, Attribute& out);
void read(Message m, Node& out);
void read(Message m, TypeInfo& out);
void read(Message m, ValueInfo& out);
void read(Message m, Graph& out);
void read(Message m, Function& out);
void read(Message m, NestedTensors& out);

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

void read_entry(Message m, std::map<std::string, std::string>& out) {
  std::string key, value;
  while (m.next()) {
    if (m.field() == 1) key = m.text();
    if (m.field() == 2) value = m.text();
  }
  out[key] = value;
}

void read(Message m, TensorData& out) {
  std::vector<int64_t> numbers;
  while (m.next()) {
    switch (m.field()) {
      case 1: m.append_to(out.dims); break;
      case 2: out.type = static_cast<ElementType>(m.integer()); break;
      case 4:
      case 10: m.append_raw(out.typed); break;
      case 5:
      case 7:
      case 11: m.append_to(numbers); break;
      case 6: out.strings.push_back(m.text()); break;
      case 8: out.name = m.text(); break;
      case 9: out.raw = m.bytes(); break;
      case 13: read_entry(m.message(), out.external); break;
      default: break;
    }
  }
  const ElementInfo* info = element_info(out.type);
  if (info && !numbers.empty()) pack(numbers, static_cast<size_t>(std::max(info->bits / 8, 1)), out.typed);
  if (const std::string problem = size_problem(out); !problem.empty()) m.fail(problem);
}

void read(Message m, SparseData& out) {
  while (m.next()) {
    if (m.field() == 1) read(m.message(), out.values);
    if (m.field() == 2) read(m.message(), out.indices);
    if (m.field() == 3) m.append_to(out.dims);
  }
}

template <class T>
void read_into(std::vector<T>& out, Message m) {
  read(m, out.emplace_back());
}

void read(Message m, Attribute& out) {
  while (m.next()) {
    switch (m.field()) {
      case 1: out.name = m.text(); break;
      case 2: out.real = m.real(); break;
      case 3: out.integer = m.integer(); break;
      case 4: out.text = m.text(); break;
      case 5:
      case 10: read_into(out.tensors, m.message()); break;
      case 6:
      case 11: {
        auto graph = std::make_shared<Graph>();
        read(m.message(), *graph);
        out.graphs.push_back(std::move(graph));
        break;
      }
      case 7: m.append_to(out.reals); break;
      case 8: m.append_to(out.integers); break;
      case 9: out.texts.push_back(m.text()); break;
      case 21: out.reference = m.text(); break;
      case 22:
      case 23: read_into(out.sparse, m.message()); break;
      default: break;
    }
  }
}

// The default domain has two names.
std::string domain_name(std::string name) { return name == "ai.onnx" ? "" : name; }

void read(Message m, Node& out) {
  while (m.next()) {
    switch (m.field()) {
      case 1: out.inputs.push_back(m.text()); break;
      case 2: out.outputs.push_back(m.text()); break;
      case 3: out.name = m.text(); break;
      case 4: out.op = m.text(); break;
      case 5: read_into(out.attributes, m.message()); break;
      case 7: out.domain = domain_name(m.text()); break;
      default: break;
    }
  }
}

void read_dims(Message shape, std::vector<std::string>& out) {
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

void read(Message m, TypeInfo& out) {
  while (m.next()) {
    const uint32_t kind = m.field();
    if (kind != 1 && kind != 4 && kind != 9) continue;
    out.kind = kind == 1   ? TypeInfo::Kind::Tensor
               : kind == 4 ? TypeInfo::Kind::Sequence
                           : TypeInfo::Kind::Optional;
    Message body = m.message();
    while (body.next()) {
      if (body.field() == 1 && kind == 1) out.element = static_cast<ElementType>(body.integer());
      if (body.field() == 1 && kind != 1) read_into(out.inner, body.message());
      if (body.field() == 2 && kind == 1) {
        out.has_shape = true;
        read_dims(body.message(), out.dims);
      }
    }
  }
}

void read(Message m, ValueInfo& out) {
  while (m.next()) {
    if (m.field() == 1) out.name = m.text();
    if (m.field() == 2) read(m.message(), out.type);
  }
}

void read(Message m, Graph& out) {
  while (m.next()) {
    switch (m.field()) {
      case 1: read_into(out.nodes, m.message()); break;
      case 2: out.name = m.text(); break;
      case 5: read_into(out.initializers, m.message()); break;
      case 11: read_into(out.inputs, m.message()); break;
      case 12: read_into(out.outputs, m.message()); break;
      case 15: read_into(out.sparse_initializers, m.message()); break;
      default: break;
    }
  }
}

void read_opset(Message m, Opsets& out) {
  std::string domain;
  int64_t version = 0;
  while (m.next()) {
    if (m.field() == 1) domain = domain_name(m.text());
    if (m.field() == 2) version = m.integer();
  }
  out[domain] = version;
}

void read(Message m, Function& out) {
  while (m.next()) {
    switch (m.field()) {
      case 1: out.name = m.text(); break;
      case 4: out.inputs.push_back(m.text()); break;
      case 5: out.outputs.push_back(m.text()); break;
      case 7: read_into(out.nodes, m.message()); break;
      case 9: read_opset(m.message(), out.opsets); break;
      case 10: out.domain = domain_name(m.text()); break;
      case 11: read_into(out.defaults, m.message()); break;
      default: break;
    }
  }
}

void read(Message m, Model& out) {
  while (m.next()) {
    switch (m.field()) {
      case 1: out.ir_version = m.integer(); break;
      case 2: out.producer = m.text(); break;
      case 3: out.producer_version = m.text(); break;
      case 7: read(m.message(), out.graph); break;
      case 8: read_opset(m.message(), out.opsets); break;
      case 25: read_into(out.functions, m.message()); break;
      default: break;
    }
  }
}

// SequenceProto and OptionalProto number their parts alike.
void read(Message m, NestedTensors& out) {
  while (m.next()) {
    if (m.field() == 3) read_into(out.tensors, m.message());
    if (m.field() == 5 || m.field() == 7) {
      const bool is_sequence = m.field() == 5;
      read_into(out.nested, m.message());
      out.nested.back().is_sequence = is_sequence;
    }
  }
}

template <class T>
Result<T> parse(std::span<const std::byte> bytes, std::string_view where, T out = {}) {
  WireState state{where, {}};
  read(Message(bytes, state), out);
  if (state.error) return std::move(*state.error);
  return out;
}

}  // namespace

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
