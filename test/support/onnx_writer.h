#pragma once

// Writes ONNX models for tests: messages of the protobuf wire format as strings.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::test {

inline std::string varint(uint64_t v) {
  std::string out;
  for (; v > 127; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}
inline std::string field(uint32_t number, int64_t v) {
  return varint(uint64_t{number} << 3) + varint(static_cast<uint64_t>(v));
}
inline std::string field(uint32_t number, int v) { return field(number, int64_t{v}); }
inline std::string field(uint32_t number, std::string_view bytes) {
  return varint(uint64_t{number} << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string field(uint32_t number, const char* text) { return field(number, std::string_view(text)); }
inline std::string field(uint32_t number, float v) {
  std::string raw(4, '\0');
  std::memcpy(raw.data(), &v, 4);
  return varint(uint64_t{number} << 3 | 5) + raw;
}

inline std::string attribute(const char* name, int64_t v) { return field(5, field(1, name) + field(3, v)); }
inline std::string attribute(const char* name, int v) { return attribute(name, int64_t{v}); }
inline std::string attribute(const char* name, float v) { return field(5, field(1, name) + field(2, v)); }
inline std::string attribute(const char* name, const char* v) {
  return field(5, field(1, name) + field(4, v));
}
inline std::string attribute(const char* name, const std::vector<int64_t>& list) {
  std::string body = field(1, name);
  for (int64_t v : list) body += field(8, v);
  return field(5, body);
}
// A tensor or a graph, by its field number in AttributeProto: 5 or 6.
inline std::string attribute(const char* name, uint32_t number, const std::string& message) {
  return field(5, field(1, name) + field(number, message));
}

// A NodeProto as a field of its graph. "" is an input that is left out.
inline std::string node(const char* op, const std::vector<const char*>& inputs,
                        const std::vector<const char*>& outputs, const std::string& attributes = "",
                        const char* domain = "") {
  std::string body;
  for (const char* i : inputs) body += field(1, i);
  for (const char* o : outputs) body += field(2, o);
  return field(1, body + field(4, op) + field(7, domain) + attributes);
}

// A TensorProto of float32 (1) or int64 (7) elements.
inline std::string tensor(const char* name, const std::vector<int64_t>& dims, const std::vector<float>& v) {
  std::string body, raw(v.size() * 4, '\0');
  for (int64_t d : dims) body += field(1, d);
  if (!v.empty()) std::memcpy(raw.data(), v.data(), raw.size());
  return body + field(2, 1) + field(8, name) + field(9, std::string_view(raw));
}
inline std::string tensor(const char* name, const std::vector<int64_t>& dims, const std::vector<int64_t>& v) {
  std::string body;
  for (int64_t d : dims) body += field(1, d);
  body += field(2, 7) + field(8, name);
  for (int64_t e : v) body += field(7, e);
  return body;
}
inline std::string initializer(const std::string& tensor) { return field(5, tensor); }

// A ValueInfoProto; a size of -1 is the name "N".
inline std::string value_info(const char* name, int element, const std::vector<int64_t>& dims) {
  std::string shape;
  for (int64_t d : dims) shape += field(1, d < 0 ? field(2, "N") : field(1, d));
  return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)));
}
inline std::string input(const char* name, int element, const std::vector<int64_t>& dims) {
  return field(11, value_info(name, element, dims));
}
inline std::string output(const char* name, int element = 1, const std::vector<int64_t>& dims = {}) {
  return field(12, value_info(name, element, dims));
}

inline std::string opset(int64_t version, const char* domain = "") {
  return field(8, field(1, domain) + field(2, version));
}
inline std::string model(const std::string& graph, int64_t version = 21, const std::string& more = "") {
  return field(1, 8) + field(2, "test") + opset(version) + field(7, graph) + more;
}

// y = c ? x + x : x - x, by an If.
inline std::string choice_model() {
  const auto branch = [](const char* op) { return node(op, {"x", "x"}, {"b"}) + output("b"); };
  return model(input("x", 1, {2}) + input("c", 9, {}) +
               node("If", {"c"}, {"y"},
                    attribute("then_branch", 6, branch("Add")) + attribute("else_branch", 6, branch("Sub"))) +
               output("y"));
}

}  // namespace lathe::test
