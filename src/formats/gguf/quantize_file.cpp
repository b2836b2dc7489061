#include "formats/gguf/quantize_file.h"

#include "formats/gguf/dequantize.h"
#include "formats/gguf/quantize.h"
#include "formats/gguf/quantize_mix_table.h"
#include "formats/regex.h"
#include "tensor/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

// Which tensor gets which type: the rules of llama.cpp's quantisation program.

namespace lathe {
namespace {

GgmlType fitting(GgmlType type, int64_t row) {
  while (row % type_info(type).block_elements != 0) {
    const auto* f = std::find_if(std::begin(kFallbacks), std::end(kFallbacks),
                                 [&](const Fallback& x) { return x.type == type; });
    type = f == std::end(kFallbacks) ? GgmlType::F16 : f->other;
  }
  return type;
}

const QuantizeMix& find_mix(const std::string& name) {
  for (const QuantizeMix& m : kMixes)
    if (std::equal(m.name.begin(), m.name.end(), name.begin(), name.end(),
                   [](char a, char b) { return a == (b >= 'a' && b <= 'z' ? b - 32 : b); }))
      return m;
  std::string names;
  for (const QuantizeMix& m : kMixes) names += (names.empty() ? "" : ", ") + std::string(m.name);
  value_error("there is no mix `{}`; there are {}", name, names);
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_weight(const GgufTensor& t) {
  if (t.shape.size() < 2 || t.shape.size() > 3 || !t.name.ends_with("weight")) return false;
  constexpr std::string_view kKept[] = {"_norm.weight",          "ffn_gate_inp.weight", "ssm_conv1d",
                                        "shortconv.conv.weight", "position_embd.",      "token_types."};
  return std::none_of(std::begin(kKept), std::end(kKept),
                      [&](std::string_view part) { return has(t.name, part); });
}

// N of "blk.N.…"; 0 without one.
int64_t layer_of(std::string_view name) {
  int64_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

class Planner {
 public:
  Planner(const GgufFile& file, const QuantizeOptions& options)
      : file_(file), options_(options), mix_(find_mix(options.mix)) {
    for (const auto& [pattern, type] : options.overrides)
      overrides_.emplace_back(Regex(".*(?:" + pattern + ").*"), type);
    const GgufMetadata& m = file.metadata();
    const std::string prefix = m.get_or<std::string>("general.architecture", "") + ".";
    layers_ = std::clamp<int64_t>(m.get_or<int64_t>(prefix + "block_count", 1), 0, 1 << 30);
    experts_ = m.get_or<int64_t>(prefix + "expert_count", 0);
  }

  GgmlType operator()(const GgufTensor& t) const {
    if (!is_weight(t) || !mix_.weights) return t.type;
    const bool is_output =
        t.name == "output.weight" || (t.name == "token_embd.weight" && !file_.find("output.weight"));
    if (is_output && options_.leaves_output) return t.type;
    const GgmlType wanted = fitting(chosen(t, is_output), t.shape.back());
    if (wanted == t.type) return wanted;
    if (!can_quantize(wanted))
      value_error("tensor `{}`: {} can be read, but not made", t.name, type_info(wanted).name);
    if (is_quantized(t.type) && !options_.allows_requantize)
      value_error(
          "{}: tensor `{}` is {} already; quantising it again makes it worse and has to be allowed "
          "(--allow-requantize)",
          file_.name(), t.name, type_info(t.type).name);
    return wanted;
  }

 private:
  GgmlType chosen(const GgufTensor& t, bool is_output) const {
    for (const auto& [pattern, type] : overrides_)
      if (pattern.matches_all(t.name)) return type;
    if (is_output && options_.output) return *options_.output;
    if (t.name == "token_embd.weight" && options_.token_embedding) return *options_.token_embedding;
    const GgmlType weights = *mix_.weights;
    if (options_.is_pure || !is_quantized(weights) || weights == GgmlType::Q8_0) return weights;
    if (is_output) return t.shape.back() % 256 ? GgmlType::Q8_0 : GgmlType::Q6_K;
    if (weights == GgmlType::MXFP4) return has(t.name, "_exps.") ? weights : GgmlType::Q8_0;
    return mixed(t);
  }

  GgmlType mixed(const GgufTensor& t) const {
    const bool is_v = has(t.name, "attn_v.");
    if (mix_.more && experts_ == 8) {
      if (is_v || has(t.name, "attn_k.")) return GgmlType::Q8_0;
      if (has(t.name, "attn_output.")) return GgmlType::Q5_K;
    }
    if (mix_.more && (is_v || has(t.name, "ffn_down")) && has_more_bits(layer_of(t.name))) return *mix_.more;
    // Models of 80 layers have few values: eight queries share one.
    if (is_v && layers_ == 80 && mix_.weights == GgmlType::Q4_K) return GgmlType::Q5_K;
    if (mix_.fused && has(t.name, "attn_qkv.")) return *mix_.fused;
    return *mix_.weights;
  }
  bool has_more_bits(int64_t i) const {
    return i < layers_ / 8 || i >= 7 * layers_ / 8 || (i - layers_ / 8) % 3 == 2;
  }

  const GgufFile& file_;
  const QuantizeOptions& options_;
  const QuantizeMix& mix_;
  std::vector<std::pair<Regex, GgmlType>> overrides_;
  int64_t layers_ = 1, experts_ = 0;
};

// Of another type, so many rows at a time that what is unpacked stays small.
std::vector<std::byte> converted(const GgufFile& file, const GgufTensor& t, GgmlType type) {
  ErrorContext context([&] { return fmt::format("quantising tensor `{}` of {}", t.name, file.name()); });
  constexpr int64_t kMostElements = int64_t{1} << 24;
  const int64_t row = t.shape.back(), row_bytes = t.row_bytes();
  const int64_t rows = t.elements() / std::max<int64_t>(row, 1),
                step = std::max<int64_t>(kMostElements / std::max<int64_t>(row, 1), 1);
  const auto data = file.data(t);
  std::vector<std::byte> out;
  out.reserve(static_cast<size_t>(rows * *lathe::row_bytes(type, row)));
  for (int64_t at = 0; at < rows; at += step) {
    const int64_t count = std::min(step, rows - at);
    const auto part =
        data.subspan(static_cast<size_t>(at * row_bytes), static_cast<size_t>(count * row_bytes));
    std::vector<float> values(static_cast<size_t>(count * row));
    if (t.type == GgmlType::F32)
      std::memcpy(values.data(), part.data(), part.size());
    else
      values =
          dequantize(Tensor::from_bytes(part, {SInt(count), SInt(row_bytes)}, DType::UInt8, "CPU"), t.type)
              .to_vector<float>();
    const std::vector<std::byte> made = quantize(values, row, type);
    out.insert(out.end(), made.begin(), made.end());
  }
  return out;
}

}  // namespace

std::vector<std::string_view> quantize_mixes() {
  std::vector<std::string_view> out;
  for (const QuantizeMix& m : kMixes) out.push_back(m.name);
  return out;
}

std::vector<GgmlType> plan_quantize(const GgufFile& file, const QuantizeOptions& options) {
  const Planner type_of(file, options);
  std::vector<GgmlType> out;
  for (const GgufTensor& t : file.tensors()) out.push_back(type_of(t));
  return out;
}

GgufWriter quantize_file(const GgufFile& file, const QuantizeOptions& options,
                         std::function<void(const GgufTensor&)> on_tensor) {
  const std::vector<GgmlType> types = plan_quantize(file, options);
  GgufWriter out(file.metadata());
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) out.metadata().erase(key);
  if (const QuantizeMix& mix = find_mix(options.mix); mix.weights) {
    out.set("general.quantization_version", uint32_t{2});
    out.set("general.file_type", static_cast<uint32_t>(mix.file_type));
  }
  for (size_t i = 0; i < types.size(); i++) {
    const GgufTensor& t = file.tensors()[i];
    out.add(t.name, t.shape, types[i], [&file, &t, type = types[i], on_tensor] {
      const auto data = file.data(t);
      std::vector<std::byte> made =
          type == t.type ? std::vector<std::byte>(data.begin(), data.end()) : converted(file, t, type);
      if (on_tensor) on_tensor(t);
      return made;
    });
  }
  return out;
}

}  // namespace lathe
