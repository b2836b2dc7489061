#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <stdexcept>

#include "support/reference_blocks.h"

namespace lathe::test::reference {
namespace {

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gated(const Scope& s, double gate, double up) {
  if (s.architecture() == "gpt-oss") {
    gate = std::min(gate, 7.0), up = std::clamp(up, -7.0, 7.0);
    return gate * sigmoid(1.702 * gate) * (up + 1);
  }
  return (s.architecture().starts_with("gemma") ? gelu(gate) : silu(gate)) * up;
}

// down(act(gate x) ⊙ up x) with the tensors of that suffix; without a gate down(gelu(up x)).
Row network(const Scope& s, const std::string& suffix, const Row& x, int64_t part) {
  Row up = s.linear("ffn_up" + suffix, x, part), gate;
  const auto width = static_cast<size_t>(s.weight("ffn_down" + suffix).shape.back());
  if (s.has("ffn_gate" + suffix)) {
    gate = s.linear("ffn_gate" + suffix, x, part);
  } else if (up.size() == 2 * width) {  // [gate | up] in one
    gate.assign(up.begin(), up.begin() + static_cast<std::ptrdiff_t>(width));
    up.erase(up.begin(), up.begin() + static_cast<std::ptrdiff_t>(width));
  }
  Row hidden(width);
  for (size_t i = 0; i < width; i++) hidden[i] = gate.empty() ? gelu(up[i]) : gated(s, gate[i], up[i]);
  return s.linear("ffn_down" + suffix, hidden, part);
}

// What the experts are chosen by: the scores, corrected where there is a bias, and -∞ for the experts of
// groups whose two best do not add up to enough.
Row choice(const Scope& s, const Row& scores) {
  Row chosen = scores;
  if (const Weight* bias = s.find("exp_probs_b.bias"))
    for (size_t e = 0; e < chosen.size(); e++) chosen[e] += bias->values[e];
  const auto groups = static_cast<size_t>(s.integer("expert_group_count", 1));
  if (groups <= 1) return chosen;
  const auto kept = static_cast<size_t>(s.integer("expert_group_used_count", 1));
  const size_t size = chosen.size() / groups;
  Row worth;
  for (size_t g = 0; g < groups; g++) {
    Row group(chosen.begin() + static_cast<std::ptrdiff_t>(g * size),
              chosen.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(group.begin(), group.end(), std::greater<>());
    worth.push_back(group.at(0) + group.at(1));
  }
  for (size_t g = 0; g < groups; g++) {
    size_t better = 0;
    for (size_t o = 0; o < groups; o++) better += worth[o] > worth[g] || (worth[o] == worth[g] && o < g);
    if (better < kept) continue;
    for (size_t e = g * size; e < (g + 1) * size; e++) chosen[e] = -std::numeric_limits<double>::infinity();
  }
  return chosen;
}

struct Route {
  std::vector<size_t> experts;
  Row weights;
};

Route route(const Scope& s, const Row& x) {
  Row scores = s.linear("ffn_gate_inp", x);
  const std::string& a = s.architecture();
  const int64_t gating = s.integer("expert_gating_func", a == "gpt-oss" ? 3 : 1);
  if (gating == 1) softmax(scores);
  for (double& v : scores) v = gating == 2 ? sigmoid(v) : gating == 4 ? std::sqrt(softplus(v)) : v;
  const Row chosen = choice(s, scores);
  Route r;
  r.experts.resize(scores.size());
  std::iota(r.experts.begin(), r.experts.end(), size_t{0});
  std::sort(r.experts.begin(), r.experts.end(),
            [&](size_t i, size_t j) { return chosen[i] != chosen[j] ? chosen[i] > chosen[j] : i < j; });
  r.experts.resize(static_cast<size_t>(s.integer("expert_used_count", 1)));
  for (size_t e : r.experts) r.weights.push_back(scores[e]);
  static const std::set<std::string> normed = {"qwen3moe", "qwen35moe", "qwen3next", "kimi-linear", "llama"};
  if (gating == 3) {
    softmax(r.weights);
  } else if (s.flag("expert_weights_norm", normed.contains(a))) {
    const double sum = std::accumulate(r.weights.begin(), r.weights.end(), 1e-20);
    for (double& w : r.weights) w /= sum;
  }
  for (double& w : r.weights) w *= s.real("expert_weights_scale", 1);
  return r;
}

}  // namespace

Rows feed_forward(const Scope& s, const Rows& x) {
  Rows out;
  for (const Row& row : x) {
    if (!s.has("ffn_gate_inp")) {
      out.push_back(network(s, "", row, 0));
      continue;
    }
    const Route r = route(s, row);
    Row sum(row.size());
    const auto add = [&](const Row& y, double weight) {
      for (size_t i = 0; i < sum.size(); i++) sum[i] += weight * y[i];
    };
    for (size_t j = 0; j < r.experts.size(); j++)
      add(network(s, "_exps", row, static_cast<int64_t>(r.experts[j])), r.weights[j]);
    if (s.has("ffn_up_shexp")) {
      double open = 1;
      if (const Weight* gate = s.find("ffn_gate_inp_shexp"))
        open = sigmoid(std::inner_product(row.begin(), row.end(), gate->values.begin(), 0.0));
      add(network(s, "_shexp", row, 0), open);
    }
    out.push_back(std::move(sum));
  }
  return out;
}

}  // namespace lathe::test::reference
