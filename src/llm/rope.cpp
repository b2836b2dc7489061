#include "llm/rope.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lathe {
namespace {

// The YaRN ramp: 1 where a pair turns often within the original context and keeps its frequency, 0 where it
// turns less than once and is interpolated.
double yarn_ramp(const RopeConfig& c, int64_t pair) {
  const auto correction = [&](double beta) {
    return static_cast<double>(c.dims) *
           std::log(static_cast<double>(c.original_context) / (beta * 2 * std::numbers::pi)) /
           (2 * std::log(c.base));
  };
  const double low = std::max(0.0, std::floor(correction(c.beta_fast)));
  const double high = std::min(static_cast<double>(c.dims - 1), std::ceil(correction(c.beta_slow)));
  return 1 - std::clamp((static_cast<double>(pair) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& config, std::span<const float> factors) {
  RopeFrequencies out;
  for (int64_t i = 0; i < config.dims / 2; i++) {
    double theta = std::pow(config.base, -2.0 * static_cast<double>(i) / static_cast<double>(config.dims));
    if (!factors.empty()) theta /= static_cast<double>(factors[static_cast<size_t>(i)]);
    if (config.scaling == RopeConfig::Scaling::Linear) theta /= config.factor;
    if (config.scaling == RopeConfig::Scaling::Yarn) {
      const double kept = yarn_ramp(config, i);
      theta = theta / config.factor * (1 - kept) + theta * kept;
    }
    out.theta.push_back(theta);
  }
  out.magnitude = config.attention_factor;
  if (config.scaling == RopeConfig::Scaling::Yarn && config.log_multiplier == 0)
    out.magnitude *= 1 + 0.1 * std::log(config.factor);
  return out;
}

std::shared_ptr<const RopeTable> RopeTables::table(const RopeConfig& config) {
  if (config.pairing == RopeConfig::Pairing::None || config.dims == 0) return nullptr;
  for (const std::shared_ptr<const RopeTable>& known : tables_)
    if (known->config == config) return known;
  const char* name = config.scaling != RopeConfig::Scaling::Long ? "rope_freqs.weight"
                     : context_ > config.original_context        ? "rope_factors_long.weight"
                                                                 : "rope_factors_short.weight";
  std::vector<float> factors;
  if (weights_.has(name) && !config.local)
    factors = weights_.values(name, {config.dims / 2}).to_vector<float>();
  const RopeFrequencies f = rope_frequencies(config, factors);
  const size_t half = f.theta.size(), n = static_cast<size_t>(positions_) * half;
  std::vector<float> cos(n), sin(n);
  for (size_t i = 0; i < n; i++) {
    const double angle = static_cast<double>(i / half) * f.theta[i % half];
    cos[i] = static_cast<float>(std::cos(angle) * f.magnitude);
    sin[i] = static_cast<float>(std::sin(angle) * f.magnitude);
  }
  const Shape shape{positions_, static_cast<int64_t>(half)};
  const auto made = [&](const std::vector<float>& values) {
    return Tensor::from(values, shape, {.device = weights_.device()}).realize();
  };
  tables_.push_back(std::make_shared<const RopeTable>(RopeTable{config, made(cos), made(sin)}));
  return tables_.back();
}

Tensor rotate(const Tensor& x, const RopeTable& table, const Step& step) {
  const int64_t dims = table.config.dims, half = dims / 2, all = x.size(-1).value();
  const bool interleaved = table.config.pairing == RopeConfig::Pairing::Interleaved;
  const Slice here{step.start, step.start + step.rows};
  const Tensor cos = table.cos.at(here), sin = table.sin.at(here);
  const Tensor turned = all == dims ? x : x.at(ellipsis, Slice{0, dims});
  const int64_t pair_axis = interleaved ? -1 : -2;
  const Tensor pairs = interleaved ? turned.unflatten(-1, {half, 2}) : turned.unflatten(-1, {2, half});
  const std::vector<Tensor> part = pairs.chunk(2, pair_axis);
  const Tensor a = part[0].squeeze(pair_axis), b = part[1].squeeze(pair_axis);
  const Tensor out = Tensor::stack({a * cos - b * sin, a * sin + b * cos}, pair_axis).flatten(-2);
  return all == dims ? out : Tensor::cat({out, x.at(ellipsis, Slice{dims, none})}, -1);
}

}  // namespace lathe
