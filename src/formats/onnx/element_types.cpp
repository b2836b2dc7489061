#include "formats/onnx/model.h"

#include <fmt/format.h>

namespace lathe::onnx {
namespace {

constexpr ElementInfo kElements[] = {
    {ElementType::Float, "float32", 32, DType::Float32},
    {ElementType::UInt8, "uint8", 8, DType::UInt8},
    {ElementType::Int8, "int8", 8, DType::Int8},
    {ElementType::UInt16, "uint16", 16, DType::UInt16},
    {ElementType::Int16, "int16", 16, DType::Int16},
    {ElementType::Int32, "int32", 32, DType::Int32},
    {ElementType::Int64, "int64", 64, DType::Int64},
    {ElementType::String, "string", 0, DType::Void},
    {ElementType::Bool, "bool", 8, DType::Bool},
    {ElementType::Float16, "float16", 16, DType::Float16},
    {ElementType::Double, "float64", 64, DType::Float64},
    {ElementType::UInt32, "uint32", 32, DType::UInt32},
    {ElementType::UInt64, "uint64", 64, DType::UInt64},
    {ElementType::BFloat16, "bfloat16", 16, DType::BFloat16},
    {ElementType::Float8E4M3FN, "float8e4m3fn", 8, DType::Fp8E4M3},
    {ElementType::Float8E4M3FNUZ, "float8e4m3fnuz", 8, DType::Fp8E4M3Fnuz},
    {ElementType::Float8E5M2, "float8e5m2", 8, DType::Fp8E5M2},
    {ElementType::Float8E5M2FNUZ, "float8e5m2fnuz", 8, DType::Fp8E5M2Fnuz},
    {ElementType::UInt4, "uint4", 4, DType::UInt8},
    {ElementType::Int4, "int4", 4, DType::Int8},
    {ElementType::Float4E2M1, "float4e2m1", 4, DType::Float32},
    {ElementType::Float8E8M0, "float8e8m0", 8, DType::Float32},
    {ElementType::UInt2, "uint2", 2, DType::UInt8},
    {ElementType::Int2, "int2", 2, DType::Int8},
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
