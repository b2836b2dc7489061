#include "llm/decay_scan.h"

#include <bit>
#include <limits>

namespace lathe {
namespace {

// 1 for the rows that are tokens, 0 for padding: (rows, 1, 1).
Tensor is_token(const Step& step) {
  return (Tensor::arange(step.rows, {.dtype = DType::Int32}) < Tensor(step.count.uop()))
      .reshape({step.rows, 1, 1});
}

Tensor one_step(const ScanInput& in, Tensor& state) {
  // (1, heads, d) to (heads, 1, d) and (heads, d, 1).
  const auto row = [](const Tensor& t) { return t.transpose(0, 1); };
  const Tensor faded = state * row(in.log_decay).exp(), k = row(in.k);
  Tensor u = in.v.squeeze(0);  // (heads, dv)
  if (in.beta) u = (in.beta->transpose(0, 1) * (u - (faded * k).sum(-1))).contiguous();
  const Tensor next = (faded + u.unsqueeze(-1) * k).contiguous();
  const Tensor out = (next * row(in.q)).sum(-1).unsqueeze(0);
  state.assign(next);
  return out;
}

// Rows of heads (rows, heads, d) as chunks (chunks, heads, length, d), with zeros behind the last.
Tensor in_chunks(const Tensor& t, int64_t chunks, int64_t length) {
  return t.pad_to({chunks * length, -1, -1}).unflatten(0, {chunks, length}).transpose(1, 2);
}

// Σ_c x_t[c] k_s[c] G_t[c] / G_s[c] for s ≤ t, else 0, where G is the product of decays up to a position.
// Ratios are exponentials of differences of logarithms, which are never positive; 1 / G would overflow.
Tensor faded_products(const Tensor& x, const Tensor& k, const Tensor& log_total) {
  const int64_t length = x.size(-2).value();
  const Tensor position = Tensor::arange(length, {.dtype = DType::Int32});
  const Tensor past = (position.unsqueeze(0) <= position.unsqueeze(1)).unsqueeze(-1);
  const Tensor difference = log_total.unsqueeze(-2) - log_total.unsqueeze(-3);
  const Tensor ratio = past.where(difference, -std::numeric_limits<double>::infinity()).exp();
  if (log_total.size(-1).value() == 1) return x.matmul(k.transpose(-2, -1)) * ratio.squeeze(-1);
  return (x.unsqueeze(-2) * k.unsqueeze(-3) * ratio).sum(-1);
}

}  // namespace

Tensor unit_lower_inverse(const Tensor& a) {
  // The inverse of [P 0; R Q] is [P⁻¹ 0; -Q⁻¹ R P⁻¹ Q⁻¹]. Inverses of blocks on the diagonal grow from 1 to
  // n; this is as stable as substitution, whereas powers of A grow far beyond the result where keys repeat.
  const int64_t n = a.size(-1).value();
  const Shape lead(a.shape().begin(), a.shape().end() - 2);
  const auto shaped = [&](std::initializer_list<SInt> last) {
    Shape s = lead;
    for (const SInt& size : last) s.push_back(size);
    return s;
  };
  const int64_t axis = static_cast<int64_t>(lead.size());
  const Slice all;
  Tensor inverse = a.zeros_like().at(ellipsis, Slice{0, 1}) + 1;  // blocks of one
  for (int64_t b = 1; b < n; b *= 2) {
    const int64_t pairs = n / (2 * b);
    const Tensor p_and_q = inverse.reshape(shaped({pairs, 2, b, b}));
    const Tensor p = p_and_q.at(ellipsis, 0, all, all), q = p_and_q.at(ellipsis, 1, all, all);
    const Tensor blocks = a.reshape(shaped({pairs, 2, b, pairs, 2, b})).at(ellipsis, 1, all, all, 0, all);
    const Tensor r = blocks.diagonal(0, axis, axis + 2);  // (…, b, b, pairs)
    Ints order;
    for (int64_t i = 0; i < axis; i++) order.push_back(i);
    for (const int64_t i : {axis + 2, axis, axis + 1}) order.push_back(i);
    const Tensor low = -q.matmul(r.permute(order)).matmul(p);
    const Tensor top = p.pad({0, b});
    inverse = Tensor::cat({top, Tensor::cat({low, q}, -1)}, -2);
  }
  return inverse.reshape(a.shape());
}

Tensor decay_scan(const ScanInput& input, const Step& step, Tensor& state, int64_t chunk) {
  if (step.rows == 1) return one_step(input, state);
  const int64_t length =
      std::min<int64_t>(chunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(step.rows))));
  const int64_t chunks = (step.rows + length - 1) / length;
  const auto arranged = [&](const Tensor& t) { return in_chunks(t, chunks, length); };
  // Padding neither fades the state nor adds to it.
  const Tensor token = is_token(step);
  const Tensor q = arranged(input.q), k = arranged(input.k);
  const Tensor log_total = arranged(token.where(input.log_decay, 0)).cumsum(-2).contiguous();
  const Tensor log_end = log_total.at(ellipsis, Slice{length - 1, length}, Slice{});
  const Tensor k_end = k * (log_end - log_total).exp(), total = log_total.exp(), end = log_end.exp();
  const Tensor kept = faded_products(q, k, log_total);

  Tensor v = arranged(token.where(input.v, 0)), w;
  if (input.beta) {
    const Tensor beta = arranged(token.where(input.beta->unsqueeze(-1), 0));
    const Tensor solve = unit_lower_inverse((beta * faded_products(k, k, log_total)).tril(-1));
    v = solve.matmul(beta * v), w = solve.matmul(beta * k * total);
  }
  // What is left to do in order: the state at the start of each chunk.
  std::vector<Tensor> states, added;
  Tensor s = state;
  for (int64_t i = 0; i < chunks; i++) {
    states.push_back(s);
    added.push_back(input.beta ? v.at(i) - w.at(i).matmul(s.transpose(-2, -1)) : v.at(i));
    s = (s * end.at(i) + added.back().transpose(-2, -1).matmul(k_end.at(i))).contiguous();
  }
  const Tensor starts = Tensor::stack(states), u = Tensor::stack(added);
  const Tensor out = kept.matmul(u) + (q * total).matmul(starts.transpose(-2, -1));
  const Tensor result = out.transpose(1, 2).flatten(0, 1).shrink_to({step.rows, -1, -1}).contiguous();
  state.assign(s);
  return result;
}

Tensor causal_convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                          const Step& step, Tensor& state) {
  const int64_t k = weight.size(1).value();
  const Tensor window = Tensor::cat({state, x}, 0);  // (k - 1 + rows, channels)
  Tensor y = bias ? *bias : Tensor(0.0F);
  for (int64_t i = 0; i < k; i++) y = y + window.at(Slice{i, i + step.rows}) * weight.at(Slice{}, i);
  // The last k - 1 rows that are tokens or older. A copy, for it may read what it would write.
  const Tensor next = window.at(Slice{step.count, step.count + (k - 1)}).contiguous();
  state.assign(next);
  return y;
}

}  // namespace lathe
