#include "support/random_model.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace lathe::test {
namespace {

// SplitMix64, and pairs of normal numbers by Box and Muller.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }  // in [0, 1)
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const float radius = std::sqrt(-2 * std::log(1 - uniform()));
    const float angle = 2 * std::numbers::pi_v<float> * uniform();
    spare_ = radius * std::sin(angle), has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  float spare_ = 0;
  bool has_spare_ = false;
};

int64_t elements(const TensorSpec& t) {
  return std::accumulate(t.shape.begin(), t.shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<float> random_values(const TensorSpec& t, uint64_t seed) {
  for (const char c : t.name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;  // FNV-1a
  Random random(seed);
  const float scale = 1 / std::sqrt(static_cast<float>(t.shape.back()));
  std::vector<float> out(static_cast<size_t>(elements(t)));
  for (float& v : out) {
    switch (t.fill) {
      case Fill::Matrix: v = scale * random.normal(); break;
      case Fill::Table: v = random.normal(); break;
      case Fill::Norm: v = 1 + 0.1F * random.normal(); break;
      case Fill::Small: v = 0.2F * random.normal(); break;
      case Fill::Decay: v = -std::exp(2 * random.uniform() - 1.5F); break;
      case Fill::Frequency: v = 1 + 3 * random.uniform(); break;
    }
  }
  return out;
}

ModelData random_model(const ModelSpec& spec, uint64_t seed) {
  ModelData out{spec.metadata, {}};
  for (auto& [key, value] : out.metadata)  // as files hold them
    if (auto* real = std::get_if<double>(&value)) *real = static_cast<float>(*real);
  for (const TensorSpec& t : spec.tensors) {
    const std::vector<float> values = random_values(t, seed);
    out.weights[t.name] = {t.shape, {values.begin(), values.end()}};
  }
  return out;
}

}  // namespace lathe::test
