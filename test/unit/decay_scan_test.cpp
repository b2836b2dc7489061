#include "llm/decay_scan.h"

#include <cmath>
#include <random>

#include "support/test.h"

using namespace lathe;

namespace {

struct Problem {
  int64_t rows, heads, d_k, d_v, decays;  // decays: 1, or d_k
  bool delta = true, shared = false;      // shared: one q and k for all heads
  std::vector<float> q, k, v, log_decay, beta, state;
  Problem(int64_t r, int64_t h, int64_t dk, int64_t dv, int64_t e, bool is_delta = true,
          bool is_shared = false)
      : rows(r), heads(h), d_k(dk), d_v(dv), decays(e), delta(is_delta), shared(is_shared) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform;
    const auto fill = [&](std::vector<float>& x, int64_t n, auto&& make) {
      for (int64_t i = 0; i < n; i++) x.push_back(make());
    };
    const float unit = 1 / std::sqrt(static_cast<float>(dk));
    const int64_t own = shared ? 1 : h;
    fill(q, r * own * dk, [&] { return unit * normal(random); });
    fill(k, r * own * dk, [&] { return unit * normal(random); });
    fill(v, r * h * dv, [&] { return normal(random); });
    fill(log_decay, r * h * e, [&] { return -3 * std::pow(uniform(random), 4.0F); });
    fill(beta, r * h, [&] { return uniform(random); });
    fill(state, h * dv * dk, [&] { return normal(random); });
  }

  // o (rows, heads, dv) in double precision; `s` is the state.
  std::vector<double> scan(std::vector<double>& s, int64_t count) const {
    std::vector<double> o;
    const auto at = [](const std::vector<float>& x, int64_t i) { return double{x[static_cast<size_t>(i)]}; };
    for (int64_t t = 0; t < count; t++)
      for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < d_v; i++) {
          double* row = s.data() + (h * d_v + i) * d_k;
          const int64_t qk = shared ? t * d_k : (t * heads + h) * d_k;
          double seen = 0, out = 0;
          for (int64_t c = 0; c < d_k; c++) {
            row[c] *= std::exp(at(log_decay, (t * heads + h) * decays + (decays == 1 ? 0 : c)));
            seen += row[c] * at(k, qk + c);
          }
          const double value = at(v, (t * heads + h) * d_v + i);
          const double u = delta ? at(beta, t * heads + h) * (value - seen) : value;
          for (int64_t c = 0; c < d_k; c++) out += (row[c] += u * at(k, qk + c)) * at(q, qk + c);
          o.push_back(out);
        }
    return o;
  }

  // Rows [from, from + n) of all inputs, in a call of `padded` rows.
  ScanInput input(int64_t from, int64_t n, int64_t padded) const {
    const auto part = [&](const std::vector<float>& x, int64_t h, int64_t d) {
      std::vector<float> out(static_cast<size_t>(padded * h * d),
                             1.0F);  // padding that would count if it could
      std::copy_n(x.begin() + from * h * d, n * h * d, out.begin());
      return Tensor::from(out, {padded, h, d});
    };
    const int64_t own = shared ? 1 : heads;
    ScanInput in{part(q, own, d_k), part(k, own, d_k), part(v, heads, d_v), part(log_decay, heads, decays),
                 std::nullopt};
    if (delta) in.beta = part(beta, heads, 1).squeeze(-1);
    return in;
  }

  void check(const std::vector<std::pair<int64_t, int64_t>>& calls, int64_t chunk, double tolerance) const {
    std::vector<double> s(state.begin(), state.end());
    const std::vector<double> want = scan(s, rows);
    Tensor memory = Tensor::from(state, {heads, d_v, d_k}).realize();
    std::vector<float> got;
    int64_t from = 0;
    for (const auto& [n, padded] : calls) {
      const Variable count("count", 1, padded);
      const Step step{padded, 0, padded == 1 ? SInt(1) : SInt(count.bind(n).uop())};
      const Tensor out = decay_scan(input(from, n, padded), step, memory, chunk);
      Tensor::realize(std::vector{out, memory});
      const std::vector<float> values = out.to_vector<float>();
      got.insert(got.end(), values.begin(), values.begin() + n * heads * d_v);
      from += n;
    }
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++) {
      CAPTURE(i);
      REQUIRE(std::abs(got[i] - want[i]) <= tolerance);
    }
    const std::vector<float> left = memory.to_vector<float>();
    for (size_t i = 0; i < left.size(); i++) REQUIRE(std::abs(left[i] - s[i]) <= tolerance);
  }
};

}  // namespace

TEST_CASE("the delta rule in chunks is the delta rule step by step") {
  for (const int64_t decays : {1, 8}) {
    CAPTURE(decays);
    const Problem p(11, 2, 8, 6, decays);
    p.check(std::vector<std::pair<int64_t, int64_t>>(11, {1, 1}), 32, 1e-5);
    p.check({{11, 11}}, 32, 1e-5);
    p.check({{11, 11}}, 4, 1e-5);  // three chunks, the last not full
    p.check({{11, 24}}, 8, 1e-5);  // padding up to whole chunks and beyond
    p.check({{4, 4}, {7, 8}}, 4, 1e-5);
    p.check({{1, 1}, {3, 4}, {5, 16}, {1, 1}, {1, 4}}, 4, 1e-5);
  }
}

TEST_CASE("sums with decay, with keys of their own and shared ones") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    Problem(9, 3, 8, 4, 1, false, shared).check({{9, 16}}, 4, 1e-5);
    Problem(9, 3, 8, 1, 8, false, shared).check({{9, 16}}, 4, 1e-5);
    Problem(9, 3, 8, 1, 8, false, shared).check({{1, 1}, {7, 8}, {1, 1}}, 4, 1e-5);
  }
}

TEST_CASE("a prompt of one token over and over is as exact as others") {
  Problem p(32, 1, 8, 8, 1);
  for (int64_t t = 0; t < 32; t++) {
    for (size_t c = 0; c < 8; c++) p.k[static_cast<size_t>(t) * 8 + c] = c == 0 ? 1.0F : 0.0F;
    p.beta[static_cast<size_t>(t)] = 1, p.log_decay[static_cast<size_t>(t)] = 0;
  }
  p.check({{32, 32}}, 32, 1e-5);
}

TEST_CASE("decay that leaves nothing is no overflow") {
  Problem p(16, 1, 4, 4, 4);
  for (size_t i = 0; i < p.log_decay.size(); i++) p.log_decay[i] = i % 3 == 0 ? -60.0F : -0.01F;
  p.check({{16, 16}}, 16, 1e-5);
}

TEST_CASE("the inverse of a unit lower triangle") {
  std::vector<float> a(2 * 8 * 8);
  for (size_t i = 0; i < a.size(); i++)
    a[i] = i % 8 < i / 8 % 8 ? static_cast<float>(i * 7 % 11) / 11 - 0.4F : 0.0F;
  const Tensor m = Tensor::from(a, {2, 8, 8});
  const std::vector<float> product = (m + Tensor::eye(8)).matmul(unit_lower_inverse(m)).to_vector<float>();
  for (size_t i = 0; i < product.size(); i++)
    CHECK(product[i] == doctest::Approx(i % 8 == i / 8 % 8 ? 1.0 : 0.0).epsilon(1e-5));
}

TEST_CASE("a causal convolution over calls") {
  constexpr int64_t kRows = 7, kChannels = 3, kWidth = 4;
  std::vector<float> x, w, bias = {0.5F, -1, 2};
  for (int64_t i = 0; i < kRows * kChannels; i++) x.push_back(static_cast<float>(i * 5 % 13) - 6);
  for (int64_t i = 0; i < kChannels * kWidth; i++) w.push_back(static_cast<float>(i * 3 % 7) - 3);
  std::vector<float> want;
  for (int64_t t = 0; t < kRows; t++)
    for (int64_t c = 0; c < kChannels; c++) {
      float sum = bias[static_cast<size_t>(c)];
      for (int64_t i = 0; i < kWidth; i++)
        if (t - kWidth + 1 + i >= 0)
          sum += w[static_cast<size_t>(c * kWidth + i)] *
                 x[static_cast<size_t>((t - kWidth + 1 + i) * kChannels + c)];
      want.push_back(sum);
    }
  using Calls = std::vector<std::pair<int64_t, int64_t>>;
  for (const Calls& calls :
       {Calls{{7, 7}}, Calls{{4, 8}, {3, 4}}, Calls{{1, 1}, {2, 4}, {1, 1}, {1, 8}, {2, 2}}}) {
    Tensor state = Tensor::zeros({kWidth - 1, kChannels}).realize();
    std::vector<float> got;
    int64_t from = 0;
    for (const auto& [n, padded] : calls) {
      std::vector<float> part(static_cast<size_t>(padded * kChannels), 99.0F);
      std::copy_n(x.begin() + from * kChannels, n * kChannels, part.begin());
      const Variable count("count", 1, padded);
      const Step step{padded, 0, padded == 1 ? SInt(1) : SInt(count.bind(n).uop())};
      const Tensor y =
          causal_convolution(Tensor::from(part, {padded, kChannels}), Tensor::from(w, {kChannels, kWidth}),
                             Tensor::from(bias), step, state);
      Tensor::realize(std::vector{y, state});
      const std::vector<float> values = y.to_vector<float>();
      got.insert(got.end(), values.begin(), values.begin() + n * kChannels);
      from += n;
    }
    CHECK(got == want);
  }
}
