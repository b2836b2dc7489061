#include <algorithm>
#include <numbers>
#include <set>

#include "support/reference_blocks.h"

namespace lathe::test::reference {
namespace {

const std::set<std::string> kNoRope = {"kimi-linear", "mamba", "mamba2", "gpt2"};
const std::set<std::string> kInterleaved = {"llama", "deepseek2", "glm4", "granite", "smollm3", "mistral3"};

Row part(const Row& x, size_t from, size_t size) {
  return {x.begin() + static_cast<std::ptrdiff_t>(from),
          x.begin() + static_cast<std::ptrdiff_t>(from + size)};
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

}  // namespace

bool is_sliding(const Scope& s) {
  if (s.integer("attention.sliding_window", 0) == 0) return false;
  const MetadataValue* pattern = s.value("attention.sliding_window_pattern");
  if (pattern != nullptr)
    if (const auto* list = std::get_if<std::vector<bool>>(pattern))
      return list->at(static_cast<size_t>(s.layer()));
  static const std::map<std::string, int64_t> patterns = {
      {"gemma2", 2}, {"gemma3", 6}, {"gpt-oss", 2}, {"olmo3", 4}};
  const auto known = patterns.find(s.architecture());
  const int64_t n =
      s.integer("attention.sliding_window_pattern", known == patterns.end() ? 0 : known->second);
  return n == 0 || s.layer() % n < n - 1;
}

Rope::Rope(const Scope& s, std::optional<int64_t> given) {
  const std::string& a = s.architecture();
  none_ = kNoRope.contains(a) || (a == "smollm3" && s.layer() % 4 == 3),
  interleaved_ = kInterleaved.contains(a);
  const int64_t head = s.integer("attention.key_length",
                                 s.integer("embedding_length", 0) / s.integer("attention.head_count", 1));
  const int64_t dims = given.value_or(s.integer("rope.dimension_count", head));
  // Of these models the layers with a window turn unscaled, of Gemma 3 at a base of their own.
  const bool local = (a == "gemma3" || a == "olmo3") && is_sliding(s);
  double base = s.real("rope.freq_base", 10000);
  if (is_sliding(s)) base = s.real("rope.freq_base_swa", a == "gemma3" ? 10000 : base);
  for (int64_t i = 0; i < dims / 2; i++)
    theta_.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
  if (!local) scale(s);
}

void Rope::scale(const Scope& s) {
  const Scope whole = s.whole();
  const int64_t trained = s.integer("rope.scaling.original_context_length", 0);
  const Weight* factors = whole.find("rope_freqs");
  if (factors == nullptr)
    factors = whole.find(s.context() > trained ? "rope_factors_long" : "rope_factors_short");
  if (factors != nullptr)
    for (size_t i = 0; i < theta_.size(); i++) theta_[i] /= factors->values.at(i);
  const std::string type = s.text("rope.scaling.type", "none");
  const double factor = s.real("rope.scaling.factor", 1);
  magnitude_ = s.real("rope.scaling.attn_factor", 1);
  if (type == "linear") position_scale_ = 1 / factor;
  if (type != "yarn") return;

  const double dims = 2 * static_cast<double>(theta_.size()), base = s.real("rope.freq_base", 10000);
  const auto corrected = [&](double beta) {
    return dims * std::log(static_cast<double>(trained) / (beta * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(corrected(s.real("rope.scaling.yarn_beta_fast", 32))));
  const double high = std::min(dims - 1, std::ceil(corrected(s.real("rope.scaling.yarn_beta_slow", 1))));
  for (size_t i = 0; i < theta_.size(); i++) {
    const double ramp =
        1 - std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
    theta_[i] = theta_[i] / factor * (1 - ramp) + theta_[i] * ramp;
  }
  if (s.value("rope.scaling.yarn_log_multiplier") != nullptr) {
    const double m = 1 + s.real("rope.scaling.yarn_log_multiplier", 0) * std::log(factor);
    score_scale_ = m * m;
  } else {
    magnitude_ *= 1 + 0.1 * std::log(factor);
  }
}

void Rope::rotate(Row& x, size_t offset, int64_t position) const {
  if (none_) return;
  for (size_t i = 0; i < theta_.size(); i++) {
    const double angle = static_cast<double>(position) * position_scale_ * theta_[i];
    const double c = magnitude_ * std::cos(angle), s = magnitude_ * std::sin(angle);
    double& a = x[offset + (interleaved_ ? 2 * i : i)];
    double& b = x[offset + (interleaved_ ? 2 * i + 1 : i + theta_.size())];
    const double rotated = a * c - b * s;
    b = a * s + b * c;
    a = rotated;
  }
}

namespace {

// The heads of a projection: normed as a whole or each, rotated.
std::vector<Rows> heads(const Scope& s, const Rope& rope, const std::string& norm, const Rows& x,
                        size_t count) {
  const size_t size = x[0].size() / count;
  std::vector<Rows> out(count);
  for (size_t t = 0; t < x.size(); t++) {
    const bool whole = s.has(norm) && s.weight(norm).values.size() != size;
    const Row row = whole ? s.normed(norm, x[t]) : x[t];
    for (size_t h = 0; h < count; h++) {
      Row head = part(row, h * size, size);
      if (s.has(norm) && !whole) head = s.normed(norm, head);
      rope.rotate(head, 0, static_cast<int64_t>(t));
      out[h].push_back(std::move(head));
    }
  }
  return out;
}

// Softmax over what the query at t sees; a sink is a column without a value.
Row attend(const Scope& s, const Rows& q, const Rows& k, const Rows& v, size_t t, double scale, size_t head) {
  const double cap = s.real("attn_logit_softcapping", 0);
  const int64_t window =
      is_sliding(s) ? s.integer("attention.sliding_window", 0) : static_cast<int64_t>(t) + 1;
  const size_t first = static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(t) + 1 - window));
  Row scores;
  for (size_t c = first; c <= t; c++) {
    const double score = dot(q[t], k[c]) * scale;
    scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
  }
  if (const Weight* sinks = s.find("attn_sinks")) scores.push_back(sinks->values.at(head));
  softmax(scores);
  Row out(v[0].size());
  for (size_t c = first; c <= t; c++)
    for (size_t i = 0; i < out.size(); i++) out[i] += scores[c - first] * v[c][i];
  return out;
}

}  // namespace

Rows attention(const Scope& s, const Rows& x) {
  const auto n_q = static_cast<size_t>(s.integer("attention.head_count", 1));
  const auto n_kv = static_cast<size_t>(s.integer("attention.head_count_kv", static_cast<int64_t>(n_q)));
  const auto d =
      static_cast<size_t>(s.integer("attention.key_length", static_cast<int64_t>(x[0].size() / n_q)));
  const auto d_v = static_cast<size_t>(s.integer("attention.value_length", static_cast<int64_t>(d)));
  Rows q, k, v, gate;
  for (const Row& row : x) {
    if (s.has("attn_qkv")) {
      const Row all = s.linear("attn_qkv", row);
      q.push_back(part(all, 0, n_q * d));
      k.push_back(part(all, n_q * d, n_kv * d));
      v.push_back(part(all, (n_q + n_kv) * d, n_kv * d_v));
    } else {
      q.push_back(s.linear("attn_q", row)), k.push_back(s.linear("attn_k", row));
      v.push_back(s.linear("attn_v", row));
    }
    if (q.back().size() != 2 * n_q * d) continue;
    Row query, closed;  // each head is [query | gate]
    for (size_t h = 0; h < n_q; h++)
      for (size_t i = 0; i < d; i++)
        query.push_back(q.back()[2 * h * d + i]), closed.push_back(q.back()[(2 * h + 1) * d + i]);
    q.back() = query, gate.push_back(closed);
  }
  const Rope rope(s);
  const std::vector<Rows> qs = heads(s, rope, "attn_q_norm", q, n_q),
                          ks = heads(s, rope, "attn_k_norm", k, n_kv);
  const double scale = s.real("attention.scale", 1 / std::sqrt(static_cast<double>(d))) * rope.score_scale();
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    Row joined;
    for (size_t h = 0; h < n_q; h++) {
      const size_t from = h / (n_q / n_kv);
      Rows values;
      for (size_t c = 0; c <= t; c++) values.push_back(part(v[c], from * d_v, d_v));
      const Row o = attend(s, qs[h], ks[from], values, t, scale, h);
      joined.insert(joined.end(), o.begin(), o.end());
    }
    if (!gate.empty())
      for (size_t i = 0; i < joined.size(); i++) joined[i] *= sigmoid(gate[t][i]);
    out.push_back(s.linear("attn_output", joined));
  }
  return out;
}

// Keys and values of all heads are made from the latent vectors, as the models were trained.
Rows latent_attention(const Scope& s, const Rows& x) {
  const auto n = static_cast<size_t>(s.integer("attention.head_count", 1));
  const auto rank = static_cast<size_t>(s.integer("attention.kv_lora_rank", 0));
  const size_t turned = static_cast<size_t>(s.weight("attn_kv_a_mqa").shape[0]) - rank;
  const Rope rope(s, static_cast<int64_t>(turned));
  std::vector<Rows> q(n), k(n), v(n);
  for (size_t t = 0; t < x.size(); t++) {
    const Row a = s.linear("attn_kv_a_mqa", x[t]);
    const Row latent = s.normed("attn_kv_a_norm", part(a, 0, rank));
    Row shared = part(a, rank, turned);
    rope.rotate(shared, 0, static_cast<int64_t>(t));
    const Row all = s.has("attn_q")
                        ? s.linear("attn_q", x[t])
                        : s.linear("attn_q_b", s.normed("attn_q_a_norm", s.linear("attn_q_a", x[t])));
    const size_t d = all.size() / n, plain = d - turned;
    const Row both = s.has("attn_kv_b") ? s.linear("attn_kv_b", latent) : Row();
    for (size_t h = 0; h < n; h++) {
      q[h].push_back(part(all, h * d, d));
      rope.rotate(q[h].back(), plain, static_cast<int64_t>(t));
      Row key(plain);
      if (both.empty()) {
        const Weight& w = s.weight("attn_k_b");  // (heads, rank, plain)
        for (size_t r = 0; r < rank; r++)
          for (size_t i = 0; i < plain; i++) key[i] += latent[r] * w.values.at((h * rank + r) * plain + i);
        v[h].push_back(s.linear("attn_v_b", latent, static_cast<int64_t>(h)));
      } else {
        const size_t width = both.size() / n;
        key = part(both, h * width, plain);
        v[h].push_back(part(both, h * width + plain, width - plain));
      }
      key.insert(key.end(), shared.begin(), shared.end());
      k[h].push_back(std::move(key));
    }
  }
  const double scale = rope.score_scale() / std::sqrt(static_cast<double>(q[0][0].size()));
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    Row joined;
    for (size_t h = 0; h < n; h++) {
      const Row o = attend(s, q[h], k[h], v[h], t, scale, h);
      joined.insert(joined.end(), o.begin(), o.end());
    }
    out.push_back(s.linear("attn_output", joined));
  }
  return out;
}

}  // namespace lathe::test::reference
