#include <functional>

#include "support/reference_blocks.h"

namespace lathe::test::reference {
namespace {

// y_t[c] = silu(Σ_i w[c, i] x_{t-k+1+i}[c] + bias[c]) over the rows of a sequence that begins with zeros.
Rows convolved(const Scope& s, const std::string& name, const Rows& x) {
  const Weight& w = s.weight(name);
  const Weight* bias = s.find(name + ".bias");
  const size_t channels = x[0].size(), k = w.values.size() / channels;
  Rows y;
  for (size_t t = 0; t < x.size(); t++) {
    Row row(channels);
    for (size_t c = 0; c < channels; c++) {
      double sum = bias != nullptr ? bias->values[c] : 0;
      for (size_t i = 0; i < k; i++)
        if (t + i + 1 >= k) sum += w.values[c * k + i] * x[t + i + 1 - k][c];
      row[c] = silu(sum);
    }
    y.push_back(std::move(row));
  }
  return y;
}

Row unit(const Row& x, size_t from, size_t size) {
  double sum = 0;
  for (size_t i = 0; i < size; i++) sum += x[from + i] * x[from + i];
  Row y(size);
  for (size_t i = 0; i < size; i++) y[i] = x[from + i] / std::sqrt(sum + 1e-6);
  return y;
}

// One head of the delta rule with decay: S ← S diag(g); S ← S + β (v - S k) kᵀ; o = S q.
struct DeltaHead {
  size_t d_k, d_v;
  Row state = Row(d_v * d_k);
  Row step(const Row& q, const Row& k, const Row& v, const Row& g, double beta) {
    Row out(d_v);
    for (size_t i = 0; i < d_v; i++) {
      double* row = state.data() + i * d_k;
      double seen = 0;
      for (size_t c = 0; c < d_k; c++) seen += (row[c] *= g[c]) * k[c];
      const double delta = beta * (v[i] - seen);
      for (size_t c = 0; c < d_k; c++) out[i] += (row[c] += delta * k[c]) * q[c];
    }
    return out;
  }
};

Row scaled(Row x, double by) {
  for (double& v : x) v *= by;
  return x;
}

}  // namespace

Rows gated_delta_net(const Scope& s, const Rows& x) {
  const auto d_k = static_cast<size_t>(s.integer("ssm.state_size", 0));
  const auto n_k = static_cast<size_t>(s.integer("ssm.group_count", 0));
  const auto n_v = static_cast<size_t>(s.integer("ssm.time_step_rank", 0));
  const size_t d_v = static_cast<size_t>(s.integer("ssm.inner_size", 0)) / n_v;
  const bool grouped = s.architecture() == "qwen3next";
  Rows projected;
  for (const Row& row : x) projected.push_back(s.linear("attn_qkv", row));
  const Rows conv = convolved(s, "ssm_conv1d", projected);
  std::vector<DeltaHead> heads(n_v, {d_k, d_v});
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    const Row beta = s.linear("ssm_beta", x[t]), alpha = s.linear("ssm_alpha", x[t]);
    const Row gate = s.linear("attn_gate", x[t]);
    Row joined;
    for (size_t h = 0; h < n_v; h++) {
      const size_t from = (grouped ? h / (n_v / n_k) : h % n_k) * d_k;
      const Row q = scaled(unit(conv[t], from, d_k), 1 / std::sqrt(static_cast<double>(d_k)));
      const Row k = unit(conv[t], n_k * d_k + from, d_k);
      const size_t value = 2 * n_k * d_k + h * d_v;
      const Row v(conv[t].begin() + static_cast<std::ptrdiff_t>(value),
                  conv[t].begin() + static_cast<std::ptrdiff_t>(value + d_v));
      const double g =
          std::exp(softplus(alpha[h] + s.weight("ssm_dt.bias").values[h]) * s.weight("ssm_a").values[h]);
      Row o = heads[h].step(q, k, v, Row(d_k, g), sigmoid(beta[h]));
      o = rms(o, &s.weight("ssm_norm").values, s.epsilon());
      for (size_t i = 0; i < d_v; i++) joined.push_back(o[i] * silu(gate[h * d_v + i]));
    }
    out.push_back(s.linear("ssm_out", joined));
  }
  return out;
}

Rows kimi_delta_attention(const Scope& s, const Rows& x) {
  const auto d = static_cast<size_t>(s.integer("kda.head_dim", 0));
  Rows q, k, v;
  for (const Row& row : x)
    q.push_back(s.linear("attn_q", row)), k.push_back(s.linear("attn_k", row)),
        v.push_back(s.linear("attn_v", row));
  q = convolved(s, "ssm_conv1d_q", q), k = convolved(s, "ssm_conv1d_k", k),
  v = convolved(s, "ssm_conv1d_v", v);
  const size_t n = q[0].size() / d;
  std::vector<DeltaHead> heads(n, {d, d});
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    const Row beta = s.linear("ssm_beta", x[t]), decay = s.linear("ssm_f_b", s.linear("ssm_f_a", x[t]));
    const Row gate = s.linear("ssm_g_b", s.linear("ssm_g_a", x[t]));
    Row joined;
    for (size_t h = 0; h < n; h++) {
      Row g(d), value(d);
      for (size_t i = 0; i < d; i++) {
        const size_t c = h * d + i;
        g[i] = std::exp(softplus(decay[c] + s.weight("ssm_dt.bias").values[c]) * s.weight("ssm_a").values[h]);
        value[i] = v[t][c];
      }
      Row o = heads[h].step(scaled(unit(q[t], h * d, d), 1 / std::sqrt(static_cast<double>(d))),
                            unit(k[t], h * d, d), value, g, sigmoid(beta[h]));
      o = rms(o, &s.weight("ssm_norm").values, s.epsilon());
      for (size_t i = 0; i < d; i++) joined.push_back(o[i] * sigmoid(gate[h * d + i]));
    }
    out.push_back(s.linear("attn_output", joined));
  }
  return out;
}

Rows mamba(const Scope& s, const Rows& x) {
  const auto inner = static_cast<size_t>(s.integer("ssm.inner_size", 0));
  const auto n = static_cast<size_t>(s.integer("ssm.state_size", 0));
  const auto rank = static_cast<size_t>(s.integer("ssm.time_step_rank", 0));
  Rows u, z;
  for (const Row& row : x) {
    const Row both = s.linear("ssm_in", row);
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(inner);
    u.emplace_back(both.begin(), middle), z.emplace_back(middle, both.end());
  }
  u = convolved(s, "ssm_conv1d", u);
  Row state(inner * n);
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    const Row all = s.linear("ssm_x", u[t]);  // [dt | B | C]
    const Row dt = s.linear("ssm_dt", Row(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank)));
    Row y(inner);
    for (size_t c = 0; c < inner; c++) {
      const double step = softplus(dt[c]);
      for (size_t i = 0; i < n; i++) {
        double& h = state[c * n + i];
        h = std::exp(step * s.weight("ssm_a").values[c * n + i]) * h + step * all[rank + i] * u[t][c];
        y[c] += h * all[rank + n + i];
      }
      y[c] = (y[c] + s.weight("ssm_d").values[c] * u[t][c]) * silu(z[t][c]);
    }
    out.push_back(s.linear("ssm_out", y));
  }
  return out;
}

Rows mamba2(const Scope& s, const Rows& x) {
  const auto inner = static_cast<size_t>(s.integer("ssm.inner_size", 0));
  const auto n = static_cast<size_t>(s.integer("ssm.state_size", 0));
  const auto groups = static_cast<size_t>(s.integer("ssm.group_count", 1));
  const auto heads = static_cast<size_t>(s.integer("ssm.time_step_rank", 0));
  const size_t size = inner / heads, width = inner / groups;
  Rows z, mixed, dts;  // [z | x, B, C | dt]
  for (const Row& row : x) {
    const Row all = s.linear("ssm_in", row);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(inner);
    const auto second = first + static_cast<std::ptrdiff_t>(inner + 2 * groups * n);
    z.emplace_back(all.begin(), first), mixed.emplace_back(first, second),
        dts.emplace_back(second, all.end());
  }
  mixed = convolved(s, "ssm_conv1d", mixed);
  Row state(inner * n);
  Rows out;
  for (size_t t = 0; t < x.size(); t++) {
    Row y(inner), normed;
    for (size_t h = 0; h < heads; h++) {
      const double dt = softplus(dts[t][h] + s.weight("ssm_dt.bias").values[h]);
      const double decay = std::exp(dt * s.weight("ssm_a").values[h]);
      const size_t b = inner + h / (heads / groups) * n, c = b + groups * n;
      for (size_t p = h * size; p < (h + 1) * size; p++) {
        for (size_t i = 0; i < n; i++) {
          double& v = state[p * n + i];
          v = decay * v + dt * mixed[t][p] * mixed[t][b + i];
          y[p] += v * mixed[t][c + i];
        }
        y[p] = (y[p] + s.weight("ssm_d").values[h] * mixed[t][p]) * silu(z[t][p]);
      }
    }
    for (size_t g = 0; g < groups; g++) {
      const Row group(y.begin() + static_cast<std::ptrdiff_t>(g * width),
                      y.begin() + static_cast<std::ptrdiff_t>((g + 1) * width));
      const Row scaled = rms(group, nullptr, s.epsilon());
      for (size_t i = 0; i < width; i++)
        normed.push_back(scaled[i] * s.weight("ssm_norm").values[g * width + i]);
    }
    out.push_back(s.linear("ssm_out", normed));
  }
  return out;
}

}  // namespace lathe::test::reference
