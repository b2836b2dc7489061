#include "formats/onnx/model.h"

#include <fmt/format.h>

namespace lathe::onnx {
namespace {

constexpr ElementInfo kElements[] = {
#define ELEMENT_TYPE(id, number, name, bits, dtype) {ElementType::id, name, bits, DType::dtype},
#include "formats/onnx/element_types.def"
#undef ELEMENT_TYPE
};

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

}  // namespace lathe::onnx
