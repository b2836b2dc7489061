// Whatever the metadata: an error that names what is wrong, or sizes that blocks can be made of.
#include "formats/gguf/gguf.h"
#include "llm/config.h"

#include <cstdlib>
#include <unordered_set>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = lathe::parse_gguf_header(bytes, "fuzz");
  if (!header.ok()) return 0;
  std::unordered_set<std::string> names;
  for (const lathe::GgufTensor& t : header.value().tensors) names.insert(t.name);
  const auto has = [&](const std::string& name) { return names.contains(name); };
  try {
    const lathe::ModelConfig c = lathe::read_model_config(header.value().metadata, has);
    if (c.dim < 1 || c.vocabulary < 1 || c.context < 1 || c.layers.empty()) std::abort();
    for (const lathe::LayerConfig& layer : c.layers) {
      const bool attends = layer.mixer == lathe::Mixer::Attention;
      if (attends && (layer.kv_heads < 1 || c.heads % layer.kv_heads || c.head_dim < 1)) std::abort();
      if (layer.window < 0 || (layer.experts && c.experts.used > c.experts.count)) std::abort();
    }
  } catch (const lathe::UserError& error) {
    if (std::string_view(error.what()).empty()) std::abort();
  }
  return 0;
}
