#include "support/model_file.h"

#include "formats/gguf/dequantize.h"
#include "formats/gguf/quantize.h"

namespace lathe::test {
namespace {

GgufValue to_gguf(const MetadataValue& value) {
  return std::visit(
      [](const auto& v) -> GgufValue {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, int64_t>)
          return static_cast<uint32_t>(v);
        else if constexpr (std::is_same_v<V, double>)
          return static_cast<float>(v);
        else if constexpr (std::is_same_v<V, std::vector<int64_t>>)
          return std::vector<int32_t>(v.begin(), v.end());
        else if constexpr (std::is_same_v<V, std::vector<double>>)
          return std::vector<float>(v.begin(), v.end());
        else
          return v;
      },
      value);
}

MetadataValue from_gguf(const GgufValue& value) {
  return std::visit(
      [&](const auto& v) -> MetadataValue {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, int64_t>) {
          if (value.type() == GgufValueType::Bool) return v != 0;
        } else if constexpr (std::is_same_v<V, std::vector<int64_t>>) {
          if (value.element_type() == GgufValueType::Bool) return std::vector<bool>(v.begin(), v.end());
        } else if constexpr (std::is_same_v<V, std::vector<GgufValue>>) {
          return std::string("arrays of arrays");
        }
        if constexpr (!std::is_same_v<V, std::vector<GgufValue>>) return v;
      },
      value.held());
}

GgmlType type_of(const TensorSpec& t, GgmlType wanted) {
  const bool matrix = t.shape.size() >= 2 && (t.fill == Fill::Matrix || t.fill == Fill::Table);
  if (!matrix || t.name.ends_with("ffn_gate_inp.weight") || t.name.find("conv1d") != t.name.npos ||
      t.name.starts_with("position"))
    return GgmlType::F32;
  return row_bytes(wanted, t.shape.back()) ? wanted : GgmlType::F16;
}

}  // namespace

GgufWriter random_gguf(const ModelSpec& spec, uint64_t seed, GgmlType type) {
  GgufWriter writer;
  for (const auto& [key, value] : spec.metadata) writer.set(key, to_gguf(value));
  for (const TensorSpec& t : spec.tensors) {
    const GgmlType packed = type_of(t, type);
    writer.add(t.name, t.shape, packed,
               [t, seed, packed] { return quantize(random_values(t, seed), t.shape.back(), packed); });
  }
  return writer;
}

GgufWriter to_gguf(const ModelData& model) {
  GgufWriter writer;
  for (const auto& [key, value] : model.metadata) writer.set(key, to_gguf(value));
  for (const auto& [name, weight] : model.weights)
    writer.add(name, weight.shape, std::vector<float>(weight.values.begin(), weight.values.end()));
  return writer;
}

ModelData read_model(const GgufFile& file) {
  ModelData out;
  for (const auto& [key, value] : file.metadata().entries()) out.metadata[key] = from_gguf(value);
  for (const GgufTensor& t : file.tensors()) {
    out.weights[t.name] = {t.shape, dequantize(file.packed(t), t.type).to_vector<double>()};
  }
  return out;
}

}  // namespace lathe::test
