// Whatever the bytes: an error that lies inside them, or messages whose tensors have the bytes that they
// need.
#include "formats/onnx/model.h"

#include <cstdlib>
#include <vector>

using namespace lathe::onnx;

namespace {

void check(const TensorData& t) {
  const ElementInfo* info = element_info(t.type);
  if (!info || t.count() < 0) std::abort();
  if (!t.external.empty()) return;
  const auto needed = info->bits ? (t.count() * info->bits + 7) / 8 : t.count();
  if (static_cast<size_t>(needed) != (info->bits ? t.elements().size() : t.strings.size())) std::abort();
}

void check(const Graph& root) {
  std::vector<const Graph*> todo{&root};
  while (!todo.empty()) {
    const Graph& g = *todo.back();
    todo.pop_back();
    for (const TensorData& t : g.initializers) check(t);
    for (const ValueInfo& v : g.inputs) (void)to_string(v.type);
    for (const Node& n : g.nodes)
      for (const Attribute& a : n.attributes) {
        for (const TensorData& t : a.tensors) check(t);
        for (const auto& inner : a.graphs) todo.push_back(inner.get());
      }
  }
}

template <class T>
bool is_sound(const lathe::Result<T>& result, size_t size) {
  if (result.ok()) return true;
  if (result.error().offset > size || result.error().text.empty()) std::abort();
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto m = parse_model(bytes, "fuzz"); is_sound(m, size)) check(m.value().graph);
  if (const auto t = parse_tensor(bytes, "fuzz"); is_sound(t, size)) check(t.value());
  (void)is_sound(parse_sequence(bytes, "fuzz"), size);
  (void)is_sound(parse_optional(bytes, "fuzz"), size);
  return 0;
}
