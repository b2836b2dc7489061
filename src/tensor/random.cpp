#include "tensor/random.h"

#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/shard.h"

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

namespace lathe {
namespace {

constexpr std::array<uint32_t, 64> kSha256Rounds = {
#include "tensor/sha256_rounds.def"
};

// Most words one call of threefry_words makes: both halves are counted in 32 bits.
constexpr int64_t kMaxWords = 0xffffffff;

// The generator of one device: its key, and how many words were drawn. The counter lives in memory and every
// draw writes it in the graph, so that a captured graph draws new numbers on every replay. Both stay where
// they are when the seed changes, for the same reason.
struct Generator {
  Tensor key, counter;
  bool is_numbered = true;  // by the order of first use since the seed was set
};
struct Generators {
  std::mutex mutex;
  uint32_t seed = static_cast<uint32_t>(std::chrono::system_clock::now().time_since_epoch().count());
  uint32_t numbered = 0;
  std::map<std::string, Generator> by_device;

  Tensor key(uint32_t number, const std::string& device) const {
    const uint64_t words = static_cast<uint64_t>(seed) << 32 | device_key(number);
    return Tensor::from(std::vector<uint64_t>{words}, {DType::UInt64, device});
  }
};
Generators& generators() {
  static auto* const all = new Generators;
  return *all;
}

Tensor zero_words(const std::string& device) {
  return Tensor::from(std::vector<uint64_t>{0}, {DType::UInt64, device});
}

Generator& generator_of(Generators& all, const std::string& device) {
  const auto found = all.by_device.find(device);
  if (found == all.by_device.end()) {
    Generator made{all.key(all.numbered++, device), zero_words(device)};
    return all.by_device.emplace(device, std::move(made)).first->second;
  }
  Generator& g = found->second;
  if (!std::exchange(g.is_numbered, true)) {
    const uint32_t number = all.numbered++;
    if (number > 0) g.key.assign(all.key(number, device));
  }
  return g;
}

Tensor low_word(const Tensor& x) { return x.bitwise_and(Tensor(int64_t{0xffffffff})).cast(DType::UInt32); }
Tensor high_word(const Tensor& x) { return x.rshift(Tensor(32)).cast(DType::UInt32); }

Tensor draw_words(const std::string& device, int64_t count) {
  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  Generator& g = generator_of(all, device);
  std::vector<Tensor> pieces;
  for (int64_t left = count; left > 0; left -= kMaxWords) {
    const int64_t n = std::min(left, kMaxWords);
    g.counter += Tensor(n);
    const Tensor before = g.counter.sub(Tensor(n));
    pieces.push_back(threefry_words(before.threefry(g.key), n));
  }
  return Tensor::cat(pieces);
}

// 32-bit words as `n` words as wide as `d`, low parts first.
Tensor regrouped(const Tensor& words, DType d, int64_t n) {
  if (item_size(d) == 4) return words;
  if (item_size(d) == 8) {
    const Tensor pairs = words.reshape({SInt(-1), SInt(2)}).cast(DType::UInt64);
    return pairs.at(Slice{}, 1).lshift(Tensor(32)).bitwise_or(pairs.at(Slice{}, 0));
  }
  std::vector<Tensor> parts;
  for (int64_t shift = 0; shift < 32; shift += 8 * item_size(d)) parts.push_back(words.rshift(Tensor(shift)));
  return Tensor::stack(parts, -1).flatten().shrink_to({SInt(n)}).cast(item_size(d) == 2 ? DType::UInt16
                                                                                        : DType::UInt8);
}

int64_t concrete_size(const Shape& shape) {
  for (const SInt& d : shape)
    if (!d.is_const() || d.value() < 0) value_error("invalid shape {} for random numbers", shape);
  return prod(shape).value();
}

double fan_in(const Shape& shape) {
  double n = 1;
  for (size_t i = 1; i < shape.size(); i++) n *= static_cast<double>(shape[i].value());
  return n;
}

// Numbers like a tensor; each shard draws its own.
Tensor draw_like(const Tensor& t, const TensorOptions& options, auto draw) {
  if (!options.dtype && is_weak(t.dtype()))
    value_error("random numbers like a tensor of weak dtype dtypes.{} need a dtype", t.dtype());
  return per_shard(t, options.device, [&](const Shape& shape, const std::string& where) {
    return draw(shape, TensorOptions{options.dtype.value_or(t.dtype()), split_devices(where)[0]}).to(where);
  });
}

}  // namespace

uint32_t device_key(uint32_t number) {
  std::array<uint32_t, 8> h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  // One block: four message bytes, the end mark, and the length of 32 bits.
  std::array<uint32_t, 64> w{};
  w[0] = number;
  w[1] = 0x80000000;
  w[15] = 32;
  const auto rotated = [](uint32_t v, int n) { return std::rotr(v, n); };
  for (size_t i = 16; i < 64; i++) {
    const uint32_t s0 = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::array<uint32_t, 8> v = h;
  for (size_t i = 0; i < 64; i++) {
    const uint32_t s1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + kSha256Rounds[i] + w[i];
    const uint32_t s0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
  }
  return h[7] + v[7];
}

Tensor Tensor::threefry(const Tensor& key) const {
  if (dtype() != DType::UInt64 || key.dtype() != DType::UInt64)
    user_runtime_error("threefry operands must be uint64, got [dtypes.{}, dtypes.{}]", dtype(), key.dtype());
  return Tensor(alu(Op::Threefry, {uop(), key.uop()}));
}

Tensor threefry_words(const Tensor& key, int64_t count) {
  const int64_t half = (count + 1) / 2;
  const Tensor first = Tensor::arange(0, half, 1, {DType::UInt64});
  const Tensor counters = first.add(Tensor(half)).lshift(Tensor(32)).bitwise_or(first);
  const Tensor x = counters.threefry(key);
  const Tensor words = Tensor::cat({low_word(x), high_word(x)});
  return words.shrink_to({SInt(count)});
}

Tensor unit_interval(const Tensor& bits, DType dtype) {
  // The top mantissa bits with the exponent of 1.0 make a number in [1, 2).
  const int width = bit_width(dtype), mantissa = float_format(dtype).mantissa_bits;
  const Scalar one(static_cast<int128>(encode(Scalar(1.0), dtype)));
  const Tensor in_1_2 = bits.rshift(Tensor(width - mantissa)).bitwise_or(Tensor(one)).bitcast(dtype);
  return in_1_2.sub(1.0);
}

void Tensor::manual_seed(uint32_t seed) {
  Generators& all = generators();
  std::lock_guard lock(all.mutex);
  all.seed = seed;
  all.numbered = 0;
  std::vector<Tensor> memory;
  for (auto& [device, g] : all.by_device) {
    g.is_numbered = false;
    g.key.assign(all.key(0, device));
    g.counter.assign(zero_words(device));
    memory.insert(memory.end(), {g.key, g.counter});
  }
  realize(memory);
}

Tensor Tensor::rand(const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_float());
  if (!is_float(dtype) || is_weak(dtype))
    value_error("rand only supports concrete float dtypes, got dtypes.{}", dtype);
  const int64_t n = concrete_size(shape);
  const std::string device = place(options.device);
  if (names_several(device)) user_runtime_error("rand only supports single device, got {}", device);
  if (n == 0) return constant_of(shape, 0, dtype);
  const int64_t words = (n * item_size(dtype) + 3) / 4;
  const Tensor bits = regrouped(draw_words(device, words), dtype, n);
  return unit_interval(bits, dtype).reshape(shape).contiguous();
}

Tensor Tensor::randn(const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_float());
  if (!is_float(dtype) || is_weak(dtype))
    value_error("randn only supports concrete float dtypes, got dtypes.{}", dtype);
  // Box and Muller: an angle and a radius.
  Shape pair = shape;
  pair.insert(pair.begin(), SInt(2));
  const Tensor u = rand(pair, {DType::Float32, options.device});
  const Tensor angle = u.at(0).mul(2 * std::numbers::pi),
               radius = Tensor(1).sub(u.at(1)).log().mul(-2).sqrt();
  return angle.cos().mul(radius).cast(dtype);
}

Tensor Tensor::uniform(const Shape& shape, double low, double high, const TensorOptions& options) {
  if (!(low < high)) value_error("uniform requires low < high, got {} and {}", low, high);
  const DType dtype = options.dtype.value_or(default_float());
  const Tensor unit = rand(shape, {is_float(dtype) ? dtype : default_float(), options.device});
  return unit.mul(high - low)
      .cast(dtype)
      .add(Tensor(Scalar(low), is_float(dtype) ? DType::WeakFloat : DType::WeakInt));
}

Tensor Tensor::normal(const Shape& shape, double mean, double std, const TensorOptions& options) {
  if (std < 0) value_error("normal requires std >= 0, got {}", std);
  return randn(shape, options).mul(std).add(mean);
}

Tensor Tensor::randint(const Shape& shape, int64_t low, int64_t high, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(DType::Int32);
  if (!is_int(dtype) || is_weak(dtype)) type_error("randint dtype must be int, got dtypes.{}", dtype);
  if (low >= high) value_error("randint requires low < high, got {} and {}", low, high);
  const Tensor unit = rand(shape, {default_float(), options.device});
  return unit.mul(static_cast<double>(high - low)).cast(dtype).add(low);
}

Tensor Tensor::scaled_uniform(const Shape& shape, const TensorOptions& options) {
  return uniform(shape, -1, 1, options).mul(1 / std::sqrt(static_cast<double>(concrete_size(shape))));
}

Tensor Tensor::glorot_uniform(const Shape& shape, const TensorOptions& options) {
  const double first = shape.empty() ? 1 : static_cast<double>(shape[0].value());
  const double bound = std::sqrt(6 / (first + fan_in(shape)));
  return uniform(shape, -1, 1, options).mul(bound);
}

Tensor Tensor::kaiming_uniform(const Shape& shape, double a, const TensorOptions& options) {
  const double bound = std::sqrt(6 / (1 + a * a) / fan_in(shape));
  return uniform(shape, -bound, bound, options);
}

Tensor Tensor::kaiming_normal(const Shape& shape, double a, const TensorOptions& options) {
  return normal(shape, 0, std::sqrt(2 / (1 + a * a) / fan_in(shape)), options);
}

Tensor Tensor::randperm(int64_t n, const TensorOptions& options) {
  if (n < 0) value_error("randperm needs n >= 0, got {}", n);
  return rand({SInt(n)}, {DType::Float32, options.device})
      .argsort()
      .cast(options.dtype.value_or(DType::Int32));
}

Tensor Tensor::multinomial(int64_t num_samples, bool replacement) const {
  if (ndim() != 1 && ndim() != 2)
    value_error("multinomial needs a vector or matrix of weights, got shape {}", shape());
  if (num_samples < 1) value_error("multinomial needs at least one sample, got {}", num_samples);
  if (ndim() == 1) return unsqueeze(0).multinomial(num_samples, replacement).squeeze(0);
  const SInt rows = shape()[0], n = shape()[1];
  if (!replacement && num_samples > n.value())
    value_error("cannot draw {} samples from {} without replacement", num_samples, n.value());
  if (replacement || num_samples == 1) {
    // The inverse of the distribution function: how many partial sums the number reaches.
    const Tensor sums = cumsum(1).to_float(), ends = sums.div(sums.at(Slice{}, Slice{-1}));
    const Tensor u = rand({SInt(num_samples), rows, SInt(1)}, {DType::Float32, device()});
    return u.ge(ends).cast(DType::Int32).sum(2).permute({1, 0}).minimum(n.value() - 1);
  }
  // The first arrivals of processes with these rates (Efraimidis and Spirakis, Weighted random sampling with
  // a reservoir).
  const Tensor u = rand(shape(), {DType::Float32, device()});
  return u.log2().div(to_float()).topk(num_samples, 1).indices;
}

Tensor Tensor::rand_like(const TensorOptions& options) const { return draw_like(*this, options, rand); }
Tensor Tensor::randn_like(const TensorOptions& options) const { return draw_like(*this, options, randn); }

}  // namespace lathe
