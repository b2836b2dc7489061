#include "formats/gguf/quantize.h"
#include "formats/tensor_file.h"
#include "llm/convert/convert.h"
#include "llm/convert/hugging_face_table.h"
#include "llm/convert/json_file.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <span>
#include <unordered_set>

namespace lathe {
namespace {

using Json = nlohmann::json;

// A key that is there and null stays null.
JsonFile with_defaults(const JsonFile& config, const HuggingFaceFamily& family) {
  Json all = Json::parse(family.defaults);
  all.update(config.json());
  return JsonFile(config.where(), std::move(all));
}

const HuggingFaceFamily& find_family(const JsonFile& config) {
  const Json* classes = config.find("architectures");
  std::string known;
  for (const HuggingFaceFamily& f : kHuggingFaceFamilies) {
    if (classes && classes->is_array() && !classes->empty() && classes->front() == f.class_name) return f;
    known += (known.empty() ? "" : ", ") + std::string(f.class_name);
  }
  config.refuse("architectures", "cannot be converted; what can is " + known);
}

template <size_t N>
std::string_view find_name(const TensorName (&names)[N], std::string_view theirs) {
  for (const TensorName& n : names)
    if (n.theirs == theirs) return n.ours;
  return {};
}

class Converter {
 public:
  Converter(const std::string& folder, const ConvertOptions& options)
      : folder_(folder),
        options_(options),
        whole_(path_of("config.json")),
        family_(find_family(whole_)),
        // Models that also see keep what is about texts apart.
        config_(with_defaults(whole_.has("text_config")
                                  ? JsonFile(whole_.where() + ": text_config", *whole_.find("text_config"))
                                  : whole_,
                              family_)) {}

  GgufWriter convert();

 private:
  std::string path_of(const char* name) const { return (std::filesystem::path(folder_) / name).string(); }
  std::string tensor_file() const;
  std::string key(const char* name) const { return std::string(family_.name) + "." + name; }
  void set(const char* name, int64_t v) { out_.set(key(name), static_cast<uint32_t>(v)); }
  void copy_real(const JsonFile& from, const char* theirs, const char* ours) {
    if (const auto v = from.get<double>(theirs)) out_.set(key(ours), static_cast<float>(*v));
  }
  int64_t size(const char* name) const {
    const int64_t n = config_.at<int64_t>(name);
    if (n < 1 || n > kMostSize) config_.refuse(name, "is no size");
    return n;
  }
  int64_t size_or(const char* name, int64_t otherwise) const {
    return config_.has(name) ? size(name) : otherwise;
  }

  void check_supported() const;
  void add_sizes();
  void add_windows();
  void add_rope();
  void add_rope_factors(const JsonFile& scaling, double base);
  std::string name_of(std::string_view theirs) const;
  void add_tensor(const std::string& name, const Tensor& tensor);
  void check_complete(const std::unordered_set<std::string>& names) const;

  static constexpr int64_t kMostSize = int64_t{1} << 31;
  std::string folder_;
  const ConvertOptions& options_;
  JsonFile whole_;
  const HuggingFaceFamily& family_;
  JsonFile config_;
  int64_t layers_ = 0, heads_ = 0, kv_heads_ = 0, head_dim_ = 0;
  bool is_tied_ = false;
  GgufWriter out_;
};

std::string Converter::tensor_file() const {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(path_of(name))) return path_of(name);
  value_error("{}: there is neither model.safetensors nor model.safetensors.index.json", folder_);
}

void Converter::check_supported() const {
  for (const char* name : {"hidden_act", "hidden_activation"}) {
    const auto activation = config_.get<std::string>(name);
    if (!activation) continue;
    const bool is_gelu = *activation == "gelu_pytorch_tanh" || *activation == "gelu";
    // Gemma's files say gelu and mean the form with tanh.
    if (family_.is_gemma ? !is_gelu : *activation != "silu")
      config_.refuse(name, "is not what this family has");
  }
  if (config_.get<bool>("use_sliding_window").value_or(false))
    config_.refuse("use_sliding_window", "windows in some of the layers cannot be converted");
}

void Converter::add_sizes() {
  heads_ = size("num_attention_heads");
  kv_heads_ = size_or("num_key_value_heads", heads_);
  const int64_t dim = size("hidden_size");
  head_dim_ = size_or("head_dim", dim / heads_);
  if (heads_ % kv_heads_) config_.refuse("num_key_value_heads", "does not divide the number of heads");
  set("context_length", size("max_position_embeddings"));
  set("embedding_length", dim);
  layers_ = size("num_hidden_layers");
  set("block_count", layers_);
  set("feed_forward_length", size("intermediate_size"));
  set("attention.head_count", heads_);
  set("attention.head_count_kv", kv_heads_);
  set("attention.key_length", head_dim_);
  set("attention.value_length", head_dim_);
  out_.set(key("attention.layer_norm_rms_epsilon"),
           static_cast<float>(config_.get<double>("rms_norm_eps").value_or(1e-6)));
  copy_real(config_, "attn_logit_softcapping", "attn_logit_softcapping");
  copy_real(config_, "final_logit_softcapping", "final_logit_softcapping");
  const auto query = config_.get<double>("query_pre_attn_scalar");
  if (query && *query > 0 && *query != static_cast<double>(head_dim_))
    out_.set(key("attention.scale"), static_cast<float>(1 / std::sqrt(*query)));
}

void Converter::add_windows() {
  // Qwen's files have a window that is not used, and the first gemma's have none.
  const bool has_window =
      config_.has("sliding_window") && (family_.name == "llama" || family_.window_pattern > 0);
  if (!has_window) return;
  set("attention.sliding_window", size("sliding_window"));
  std::vector<bool> is_local, usual;
  for (int64_t i = 0; i < layers_; i++)
    usual.push_back(family_.window_pattern == 0 || (i + 1) % family_.window_pattern != 0);
  if (const Json* types = config_.find("layer_types")) {
    if (!types->is_array() || static_cast<int64_t>(types->size()) != layers_)
      config_.refuse("layer_types", "is no list of all layers");
    for (const Json& type : *types) is_local.push_back(type == "sliding_attention");
    if (is_local != usual) out_.set(key("attention.sliding_window_pattern"), is_local);
  } else if (const int64_t n = size_or("sliding_window_pattern", family_.window_pattern);
             n != family_.window_pattern) {
    set("attention.sliding_window_pattern", n);
  }
}

void Converter::add_rope() {
  const double partial = config_.get<double>("partial_rotary_factor").value_or(1);
  if (!(partial > 0 && partial <= 1)) config_.refuse("partial_rotary_factor", "is no part of a head");
  set("rope.dimension_count", static_cast<int64_t>(static_cast<double>(head_dim_) * partial));
  // Newer files keep all of it in one object, of models with windows one for each kind of layer.
  const Json* all = config_.find("rope_parameters");
  if (all && all->contains("full_attention")) all = &all->at("full_attention");
  const JsonFile rope(config_.where() + ": rope_parameters", all && all->is_object() ? *all : Json::object());
  const double base =
      rope.get<double>("rope_theta").value_or(config_.get<double>("rope_theta").value_or(10000));
  out_.set(key("rope.freq_base"), static_cast<float>(base));
  copy_real(config_, "rope_local_base_freq", "rope.freq_base_swa");
  const Json* old = config_.find("rope_scaling");
  const JsonFile scaling =
      old && old->is_object() ? JsonFile(config_.where() + ": rope_scaling", *old) : rope;
  const char* type_key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.get<std::string>(type_key).value_or("default");
  if (type == "llama3") {
    add_rope_factors(scaling, base);
  } else if (type == "linear" || type == "yarn") {
    out_.set(key("rope.scaling.type"), type);
    const double factor = scaling.at<double>("factor");
    if (!(factor >= 1)) scaling.refuse("factor", "is below 1");
    out_.set(key("rope.scaling.factor"), static_cast<float>(factor));
    if (type == "yarn") {
      set("rope.scaling.original_context_length",
          scaling.get<int64_t>("original_max_position_embeddings").value_or(size("max_position_embeddings")));
      // GGUF's factor is on top of YaRN's own 1 + 0.1 ln(factor), that of the configuration in its place.
      if (const auto v = scaling.get<double>("attention_factor"))
        out_.set(key("rope.scaling.attn_factor"), static_cast<float>(*v / (1 + 0.1 * std::log(factor))));
      copy_real(scaling, "beta_fast", "rope.scaling.yarn_beta_fast");
      copy_real(scaling, "beta_slow", "rope.scaling.yarn_beta_slow");
    }
  } else if (type != "default") {
    scaling.refuse(type_key, "is a scaling of RoPE that cannot be converted");
  }
}

// Divisors of the angles of Llama 3.1: 1 for pairs that turn often within the first context, the factor for
// those that turn seldom, and something between them.
void Converter::add_rope_factors(const JsonFile& scaling, double base) {
  const double factor = scaling.at<double>("factor"), low = scaling.at<double>("low_freq_factor"),
               high = scaling.at<double>("high_freq_factor"),
               context = scaling.at<double>("original_max_position_embeddings");
  if (!(high > low && low > 0 && factor > 0))
    scaling.refuse("low_freq_factor", "is not below high_freq_factor");
  std::vector<float> factors;
  for (int64_t i = 0; i < head_dim_ / 2; i++) {
    const double turns =
        context /
        (2 * std::numbers::pi * std::pow(base, 2 * static_cast<double>(i) / static_cast<double>(head_dim_)));
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  out_.add("rope_freqs.weight", {head_dim_ / 2}, factors);
}

// "" for a tensor that is left out.
std::string Converter::name_of(std::string_view theirs) const {
  constexpr std::string_view kOtherParts[] = {"vision_tower.", "multi_modal_projector.",
                                              "model.vision_tower.", "model.multi_modal_projector."};
  for (const std::string_view part : kOtherParts)
    if (theirs.starts_with(part)) return "";
  std::string name(theirs);
  for (const std::string_view prefix : {"language_model.", "model.language_model."})
    if (theirs.starts_with(prefix)) {
      name = theirs.substr(prefix.size());
      if (!name.starts_with("model.") && !name.starts_with("lm_head.")) name = "model." + name;
    }
  if (name.ends_with(".rotary_emb.inv_freq")) return "";
  if (const std::string_view ours = find_name(kWholeNames, name); !ours.empty()) return std::string(ours);
  constexpr std::string_view kLayers = "model.layers.";
  int64_t layer = -1;
  if (name.starts_with(kLayers)) {
    const char* end = name.data() + name.size();
    const char* rest = std::from_chars(name.data() + kLayers.size(), end, layer).ptr;
    const std::string_view part(rest, static_cast<size_t>(end - rest));
    const size_t ending = part.rfind('.');
    const bool is_known =
        part.starts_with('.') && ending > 0 && (part.ends_with(".weight") || part.ends_with(".bias"));
    const std::string_view middle = is_known ? part.substr(1, ending - 1) : std::string_view();
    std::string_view ours = family_.window_pattern ? find_name(kGemmaNames, middle) : std::string_view();
    if (ours.empty()) ours = find_name(kLayerNames, middle);
    if (!ours.empty() && layer >= layers_)
      value_error("{}: tensor `{}` is beyond the {} layers of config.json", folder_, theirs, layers_);
    if (!ours.empty() && layer >= 0) return fmt::format("blk.{}.{}{}", layer, ours, part.substr(ending));
  }
  value_error("{}: tensor `{}` belongs to no part of a {} model", folder_, theirs, family_.name);
}

void Converter::add_tensor(const std::string& name, const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const SInt& n : tensor.shape()) shape.push_back(n.value());
  const int64_t row = shape.empty() ? 1 : shape.back();
  GgmlType type = GgmlType::F32;
  if (shape.size() >= 2) {
    for (const GgmlTypeInfo& info : ggml_types())
      if (info.plain == tensor.dtype()) type = info.type;
    if (options_.type) type = row_bytes(*options_.type, row) ? *options_.type : GgmlType::F16;
  }
  Tensor made = tensor;
  const bool is_q = name.find(".attn_q.") != name.npos, is_k = name.find(".attn_k.") != name.npos;
  if (family_.permutes && (is_q || is_k)) {
    // Their RoPE turns element i of a head with i + half, GGUF's llama neighbours.
    const int64_t heads = is_q ? heads_ : kv_heads_;
    if (shape.empty() || shape[0] % (2 * heads))
      value_error("{}: tensor `{}` has {} rows for {} heads", folder_, name, shape.empty() ? 1 : shape[0],
                  heads);
    made = made.reshape({SInt(heads), SInt(2), SInt(shape[0] / heads / 2), SInt(-1)})
               .transpose(1, 2)
               .reshape(tensor.shape());
  }
  if (family_.is_gemma && name.find("norm.") != name.npos) made = made.to_float() + 1;
  out_.add(name, shape, type, [made, type, row] {
    const auto plain = type_info(type).plain;
    const bool may_overflow = type == GgmlType::F16 && made.dtype() != DType::Float16;
    if (plain && !may_overflow) return made.cast(*plain).bytes();
    return quantize(made.to_vector<float>(), row, type);
  });
}

// Biases are the only tensors that a model may have or not.
void Converter::check_complete(const std::unordered_set<std::string>& names) const {
  const auto need = [&](const std::string& ours, const std::string& theirs) {
    if (!names.contains(ours)) value_error("{}: tensor `{}` is missing", folder_, theirs);
  };
  for (const TensorName& n : kWholeNames)
    if (!is_tied_ || n.ours != "output.weight") need(std::string(n.ours), std::string(n.theirs));
  const auto need_all = [&](int64_t layer, std::span<const TensorName> parts) {
    for (const TensorName& n : parts)
      if (family_.has_head_norms || (n.ours != "attn_q_norm" && n.ours != "attn_k_norm"))
        need(fmt::format("blk.{}.{}.weight", layer, n.ours),
             fmt::format("model.layers.{}.{}.weight", layer, n.theirs));
  };
  for (int64_t i = 0; i < layers_; i++) {
    if (family_.window_pattern) need_all(i, kGemmaNames);
    need_all(i, kLayerNames);
  }
}

GgufWriter Converter::convert() {
  if (options_.type && !can_quantize(*options_.type))
    value_error("{} can be read, but not made", type_info(*options_.type).name);
  check_supported();
  out_.set("general.architecture", family_.name);
  out_.set("general.name",
           std::filesystem::absolute(std::filesystem::path(folder_) / "").parent_path().filename().string());
  add_sizes();
  add_windows();
  add_rope();
  is_tied_ = config_.get<bool>("tie_word_embeddings")
                 .value_or(whole_.get<bool>("tie_word_embeddings").value_or(family_.is_gemma));
  std::unordered_set<std::string> names;
  for (const auto& [theirs, tensor] : load_tensors(tensor_file(), "CPU")) {
    const std::string name = name_of(theirs);
    if (name.empty() || (is_tied_ && name == "output.weight")) continue;
    if (name == "token_embd.weight") {
      if (tensor.ndim() != 2) value_error("{}: tensor `{}` is no matrix", folder_, theirs);
      set("vocab_size", tensor.shape()[0].value());
      add_hugging_face_tokenizer(folder_, tensor.shape()[0].value(), options_.pre, out_.metadata());
    }
    add_tensor(name, tensor);
    names.insert(name);
  }
  check_complete(names);
  return std::move(out_);
}

}  // namespace

GgufWriter convert_hugging_face(const std::string& folder, const ConvertOptions& options) {
  return Converter(folder, options).convert();
}

GgufWriter convert_model(const std::string& path, const ConvertOptions& options) {
  return std::filesystem::is_directory(path) ? convert_hugging_face(path, options)
                                             : convert_llama2c(path, options);
}

}  // namespace lathe
