#include "support/reference_model.h"

#include <algorithm>
#include <stdexcept>

#include "support/reference_blocks.h"

namespace lathe::test {
namespace reference {

const MetadataValue* Scope::value(const std::string& key) const {
  const auto found = m_.metadata.find(architecture() + "." + key);
  return found == m_.metadata.end() ? nullptr : &found->second;
}

int64_t Scope::integer(const std::string& key, int64_t otherwise) const {
  const MetadataValue* v = value(key);
  if (v == nullptr) return otherwise;
  if (const auto* list = std::get_if<std::vector<int64_t>>(v))
    return layer_ < 0 ? *std::max_element(list->begin(), list->end()) : list->at(static_cast<size_t>(layer_));
  return std::get<int64_t>(*v);
}
double Scope::real(const std::string& key, double otherwise) const {
  const MetadataValue* v = value(key);
  return v == nullptr ? otherwise : std::get<double>(*v);
}
bool Scope::flag(const std::string& key, bool otherwise) const {
  const MetadataValue* v = value(key);
  return v == nullptr ? otherwise : std::get<bool>(*v);
}
std::string Scope::text(const std::string& key, const std::string& otherwise) const {
  const MetadataValue* v = value(key);
  return v == nullptr ? otherwise : std::get<std::string>(*v);
}

const Weight* Scope::find(const std::string& name) const {
  const std::string full = layer_ < 0 ? name : "blk." + std::to_string(layer_) + "." + name;
  const auto exact = m_.weights.find(full);
  if (exact != m_.weights.end()) return &exact->second;
  const auto found = m_.weights.find(full + ".weight");
  return found == m_.weights.end() ? nullptr : &found->second;
}
const Weight& Scope::weight(const std::string& name) const {
  if (const Weight* w = find(name)) return *w;
  throw std::runtime_error("layer " + std::to_string(layer_) + " has no " + name);
}

Row Scope::linear(const std::string& name, const Row& x, int64_t part) const {
  const Weight& w = weight(name);
  const auto out = static_cast<size_t>(w.shape.at(w.shape.size() - 2)),
             in = static_cast<size_t>(w.shape.back());
  if (in != x.size()) throw std::runtime_error(name + " takes rows of " + std::to_string(in));
  const Weight* bias = find(name + ".bias");
  const double* m = w.values.data() + static_cast<size_t>(part) * out * in;
  Row y(out);
  for (size_t o = 0; o < out; o++) {
    double sum = bias != nullptr ? bias->values.at(static_cast<size_t>(part) * out + o) : 0;
    for (size_t i = 0; i < in; i++) sum += m[o * in + i] * x[i];
    y[o] = sum;
  }
  return y;
}

Row rms(const Row& x, const Row* weight, double eps) {
  double sum = 0;
  for (double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Row y(x.size());
  for (size_t i = 0; i < x.size(); i++) y[i] = x[i] * scale * (weight != nullptr ? weight->at(i) : 1);
  return y;
}

Row Scope::normed(const std::string& name, const Row& x) const {
  const Row& w = weight(name).values;
  const Weight* bias = find(name + ".bias");
  if (bias == nullptr) return rms(x, &w, epsilon());
  double mean = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  Row y(x.size());
  for (size_t i = 0; i < x.size(); i++) y[i] = x[i] - mean;
  y = rms(y, &w, epsilon());
  for (size_t i = 0; i < x.size(); i++) y[i] += bias->values[i];
  return y;
}

void softmax(Row& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - top);
  for (double& s : scores) s /= sum;
}

namespace {

Rows mixed(const Scope& s, const Rows& x) {
  if (s.has("ssm_in")) return s.has("ssm_x") ? mamba(s, x) : mamba2(s, x);
  if (s.has("ssm_conv1d_q")) return kimi_delta_attention(s, x);
  if (s.has("ssm_conv1d")) return gated_delta_net(s, x);
  if (s.has("attn_kv_a_mqa")) return latent_attention(s, x);
  return attention(s, x);
}

Rows each_normed(const Scope& s, const std::string& name, Rows x) {
  for (Row& row : x) row = s.normed(name, row);
  return x;
}
void add(const Scope& s, Rows& x, const Rows& y) {
  const double scale = s.real("residual_scale", 1);
  for (size_t t = 0; t < x.size(); t++)
    for (size_t i = 0; i < x[t].size(); i++) x[t][i] += scale * y[t][i];
}

// Norms stand before a sub-layer, after it, or on both sides of it. A post_attention_norm without an ffn_norm
// and without a norm after the FFN is the norm before the FFN under another name.
void layer(const Scope& s, Rows& x) {
  const bool renamed = s.has("post_attention_norm") && !s.has("ffn_norm") && !s.has("post_ffw_norm");
  Rows y = mixed(s, s.has("attn_norm") ? each_normed(s, "attn_norm", x) : x);
  if (s.has("post_attention_norm") && !renamed) y = each_normed(s, "post_attention_norm", y);
  add(s, x, y);
  if (!s.has("ffn_up") && !s.has("ffn_up_exps")) return;
  const std::string norm = renamed ? "post_attention_norm" : "ffn_norm";
  y = feed_forward(s, s.has(norm) ? each_normed(s, norm, x) : x);
  if (s.has("post_ffw_norm")) y = each_normed(s, "post_ffw_norm", y);
  add(s, x, y);
}

Rows embedded(const Scope& s, std::span<const int32_t> tokens) {
  const Weight& table = s.weight("token_embd");
  const auto dim = static_cast<size_t>(table.shape[1]);
  const bool gemma = s.architecture().starts_with("gemma");
  const double scale = s.real("embedding_scale", gemma ? std::sqrt(static_cast<double>(dim)) : 1);
  Rows x;
  for (size_t t = 0; t < tokens.size(); t++) {
    Row row(dim);
    for (size_t i = 0; i < dim; i++)
      row[i] = scale * table.values.at(static_cast<size_t>(tokens[t]) * dim + i);
    if (const Weight* positions = s.find("position_embd"))
      for (size_t i = 0; i < dim; i++) row[i] += positions->values.at(t * dim + i);
    x.push_back(std::move(row));
  }
  return x;
}

}  // namespace
}  // namespace reference

std::vector<std::vector<double>> reference_logits(const ModelData& model, std::span<const int32_t> tokens,
                                                  int64_t context) {
  using namespace reference;
  const Scope whole(model, -1, context);
  Rows x = embedded(whole, tokens);
  const int64_t layers = whole.integer("block_count", 0) - whole.integer("nextn_predict_layers", 0);
  for (int64_t i = 0; i < layers; i++) layer(Scope(model, i, context), x);
  const double cap = whole.real("final_logit_softcapping", 0), logit_scale = whole.real("logit_scale", 1);
  for (Row& row : x) {
    row = whole.linear(whole.has("output") ? "output" : "token_embd", whole.normed("output_norm", row));
    for (double& v : row) v = whole.architecture() == "granite" ? v / logit_scale : v * logit_scale;
    if (cap > 0)
      for (double& v : row) v = cap * std::tanh(v / cap);
  }
  return x;
}

std::vector<std::vector<double>> reference_experts(const ModelData& model, int64_t layer,
                                                   const std::vector<std::vector<double>>& rows) {
  return reference::feed_forward(reference::Scope(model, layer, 0), rows);
}

}  // namespace lathe::test
