// RNN, GRU and LSTM, unrolled over time.
#include "formats/onnx/call.h"

#include <algorithm>

namespace lathe::onnx {

Tensor activated(const Tensor& x, std::string name, double alpha, double beta) {
  for (char& ch : name) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  if (name == "sigmoid") return x.sigmoid();
  if (name == "tanh") return x.tanh();
  if (name == "relu") return x.relu();
  if (name == "affine") return x.mul(alpha).add(beta);
  if (name == "leakyrelu") return x.leaky_relu(alpha);
  if (name == "thresholdedrelu") return x.gt(alpha).where(x, 0);
  if (name == "scaledtanh") return x.mul(beta).tanh().mul(alpha);
  if (name == "hardsigmoid") return x.hardsigmoid(alpha, beta);
  if (name == "hardswish") return x.hardswish();
  if (name == "clip") return x.clamp(Tensor(alpha), Tensor(beta));
  if (name == "elu") return x.elu(alpha);
  if (name == "softsign") return x.softsign();
  if (name == "softplus") return x.softplus();
  value_error("there is no activation `{}`", name);
}

namespace {

struct Activation {
  std::string name;
  double alpha, beta;
  Tensor operator()(const Tensor& x) const { return activated(x, name, alpha, beta); }
};

// One direction of a layer: parameters without the leading axis of directions.
struct Layer {
  Tensor input_weight, weight;                       // (gates * hidden, …)
  std::optional<Tensor> input_bias, bias, peephole;  // (gates * hidden)
  std::vector<Activation> activations;
  int64_t hidden;
  double clip;
  bool flag;  // linear_before_reset, input_forget
  // Gate i of gates side by side.
  Tensor gate(const Tensor& x, int64_t i) const {
    return x.at(ellipsis, Slice{i * hidden, (i + 1) * hidden});
  }
  Tensor clipped(const Tensor& x) const { return clip > 0 ? x.clamp(Tensor(-clip), Tensor(clip)) : x; }
  Tensor act(size_t i, const Tensor& x) const { return activations[i](clipped(x)); }
  Tensor recurrent(const Tensor& h) const {
    const Tensor y = h.matmul(weight.transpose());
    return bias ? y.add(*bias) : y;
  }
  Tensor peep(int64_t i, const Tensor& cell) const {
    return peephole ? cell.mul(gate(*peephole, i)) : cell.mul(0.0);
  }
};

struct State {
  Tensor h, cell;
};

State rnn_step(const Layer& l, const Tensor& x, const State& s) {
  return {l.act(0, x.add(l.recurrent(s.h))), s.cell};
}

// Gates: update z, reset r, hidden.
State gru_step(const Layer& l, const Tensor& x, const State& s) {
  const Tensor from_h = l.recurrent(s.h);
  const Tensor z = l.act(0, l.gate(x, 0).add(l.gate(from_h, 0))),
               r = l.act(0, l.gate(x, 1).add(l.gate(from_h, 1)));
  Tensor reset = r.mul(l.gate(from_h, 2));
  if (!l.flag) {
    const int64_t n = l.hidden;
    reset = r.mul(s.h).matmul(l.weight.at(Slice{2 * n, 3 * n}).transpose());
    if (l.bias) reset = reset.add(l.gate(*l.bias, 2));
  }
  const Tensor candidate = l.act(1, l.gate(x, 2).add(reset));
  return {Tensor(1.0).sub(z).mul(candidate).add(z.mul(s.h)), s.cell};
}

// Gates: input, output, forget, cell.
State lstm_step(const Layer& l, const Tensor& x, const State& s) {
  const Tensor g = x.add(l.recurrent(s.h));
  const Tensor in = l.act(0, l.gate(g, 0).add(l.peep(0, s.cell)));
  const Tensor forget = l.flag ? Tensor(1.0).sub(in) : l.act(0, l.gate(g, 2).add(l.peep(2, s.cell)));
  const Tensor cell = forget.mul(s.cell).add(in.mul(l.act(1, l.gate(g, 3))));
  const Tensor out = l.act(0, l.gate(g, 1).add(l.peep(1, cell)));
  return {out.mul(l.activations[2](cell)), cell};
}

using Step = State (*)(const Layer&, const Tensor&, const State&);

Layer layer_of(const Call& c, int64_t direction, int64_t gates, const std::vector<std::string>& defaults,
               std::string_view flag) {
  const auto part = [&](size_t i) { return c[i].at(direction); };
  Layer out{part(1),
            part(2),
            {},
            {},
            {},
            {},
            c.attr_int("hidden_size", c[2].size(-1).value()),
            c.attr_real("clip", 0),
            !flag.empty() && c.attr_flag(flag)};
  const int64_t n = gates * out.hidden;
  if (c.has(3)) {
    out.input_bias = part(3).at(Slice{0, n});
    out.bias = part(3).at(Slice{n, 2 * n});
  }
  if (c.has(7)) out.peephole = part(7);
  std::vector<std::string> names = c.attr_texts("activations");
  const std::vector<float> alphas = c.attr_reals("activation_alpha"), betas = c.attr_reals("activation_beta");
  for (size_t i = 0; i < defaults.size(); i++) {
    const size_t at = static_cast<size_t>(direction) * defaults.size() + i;
    std::string name = at < names.size() ? names[at] : defaults[i];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
    const bool is_hard = name == "hardsigmoid";
    out.activations.push_back({name,
                               at < alphas.size()    ? double{alphas[at]}
                               : is_hard             ? 0.2
                               : name == "leakyrelu" ? 0.01
                                                     : 1.0,
                               at < betas.size() ? double{betas[at]}
                               : is_hard         ? 0.5
                                                 : 0.0});
  }
  return out;
}

struct Run {
  Tensor y;  // (time, batch, hidden)
  State last;
};

Run run_direction(const Tensor& x, const Layer& l, State s, Step step, bool backwards,
                  const std::optional<Tensor>& lengths) {
  Tensor projected = x.matmul(l.input_weight.transpose());
  if (l.input_bias) projected = projected.add(*l.input_bias);
  const int64_t n = x.size(0).value();
  std::vector<Tensor> out;
  for (int64_t i = 0; i < n; i++) {
    const int64_t t = backwards ? n - 1 - i : i;
    const State next = step(l, projected.at(t), s);
    if (!lengths) {
      s = next;
      out.push_back(s.h);
      continue;
    }
    // Behind the end of its sequence a row keeps its state and gives zeros.
    const Tensor runs = lengths->gt(Tensor(t)).unsqueeze(-1);
    s = {runs.where(next.h, s.h), runs.where(next.cell, s.cell)};
    out.push_back(runs.where(next.h, Tensor(0.0, s.h.dtype())));
  }
  if (backwards) std::reverse(out.begin(), out.end());
  return {Tensor::stack(out), s};
}

Values recurrent(const Call& c, Step step, int64_t gates, const std::vector<std::string>& activations,
                 std::string_view flag) {
  const bool batch_first = c.attr_flag("layout");
  const Tensor x = batch_first ? c[0].transpose(0, 1) : c[0];
  const std::string direction = c.attr_text("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  std::vector<Tensor> ys, hs, cells;
  for (int64_t d = 0; d < directions; d++) {
    const Layer layer = layer_of(c, d, gates, activations, flag);
    const Tensor zero = Tensor::constant_of({x.size(1), SInt(layer.hidden)}, 0.0, x.dtype());
    const auto initial = [&](size_t i) {
      return !c.has(i) ? zero : batch_first ? c[i].transpose(0, 1).at(d) : c[i].at(d);
    };
    const Run run = run_direction(x, layer, {initial(5), initial(6)}, step, d == 1 || direction == "reverse",
                                  c.optional(4));
    ys.push_back(run.y);
    hs.push_back(run.last.h);
    cells.push_back(run.last.cell);
  }
  // (time, directions, batch, hidden), or (batch, time, directions, hidden) with the batch in front.
  const Tensor y = Tensor::stack(ys, 1), h = Tensor::stack(hs), cell = Tensor::stack(cells);
  if (!batch_first) return {y, h, cell};
  return {y.permute({2, 0, 1, 3}), h.transpose(0, 1), cell.transpose(0, 1)};
}

constexpr OpRow kRows[] = {
    {"GRU",
     [](const Call& c) { return recurrent(c, gru_step, 3, {"sigmoid", "tanh"}, "linear_before_reset"); }},
    {"LSTM",
     [](const Call& c) { return recurrent(c, lstm_step, 4, {"sigmoid", "tanh", "tanh"}, "input_forget"); }},
    {"RNN", [](const Call& c) { return recurrent(c, rnn_step, 1, {"tanh"}, ""); }},
};

}  // namespace

std::span<const OpRow> recurrent_ops() { return kRows; }

}  // namespace lathe::onnx
