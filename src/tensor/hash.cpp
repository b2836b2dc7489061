// Hashes of the Keccak family (FIPS 202). A state is 25 lanes of 64 bits, lane x + 5 y. A round is three
// kernels, the same for all rounds, as its constant comes from memory; in one, every lane would compute six
// parities.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <array>
#include <map>

namespace lathe {
namespace {

constexpr std::array<uint64_t, 24> kRoundConstants = {
#include "tensor/keccak_rounds.def"
};

constexpr int64_t kStateBytes = 200, kBlock = 4096, kChunk = 1 << 20;

// How far each lane turns: 0 for lane 0, then (t + 1)(t + 2) / 2 along a walk over the others.
std::vector<uint64_t> rotations() {
  std::vector<uint64_t> out(25, 0);
  for (size_t t = 0, x = 1, y = 0; t < 24; t++) {
    out[x + 5 * y] = (t + 1) * (t + 2) / 2 % 64;
    const size_t next = (2 * x + 3 * y) % 5;
    x = y;
    y = next;
  }
  return out;
}

Tensor rotated_left(const Tensor& x, const Tensor& n) {
  // In two steps to the right: a shift by 64 is not defined.
  const Tensor high = x.rshift(Tensor(1)).rshift(n.bitwise_xor(Tensor(63)));
  return x.lshift(n).bitwise_or(high);
}

// States (rows, 25) after one round.
Tensor keccak_round(const Tensor& states, const Tensor& turns, const Tensor& constant) {
  const SInt rows = states.shape()[0];
  Tensor a = states.reshape({rows, SInt(5), SInt(5)});
  Tensor parity = a.at(Slice{}, 0);
  for (int y = 1; y < 5; y++) parity = parity.bitwise_xor(a.at(Slice{}, y));
  const auto turned = [](const Tensor& x, int64_t by) { return x.roll(by, Ints(-1)); };
  const Tensor spread =
      turned(parity, 1).bitwise_xor(rotated_left(turned(parity, -1), Tensor(1))).contiguous();
  a = rotated_left(a.bitwise_xor(spread.unsqueeze(1)).reshape({rows, SInt(25)}), turns);
  // Lane (x, y) comes from lane (x + 3 y, x).
  const Tensor lane = Tensor::arange(25), x = lane.mod(5), y = lane.div_floor(5);
  a = a.at(Slice{}, y.mul(3).add(x).mod(5).add(x.mul(5))).contiguous().reshape({rows, SInt(5), SInt(5)});
  a = a.bitwise_xor(turned(a, -1).bitwise_not().bitwise_and(turned(a, -2))).reshape({rows, SInt(25)});
  return a.bitwise_xor(lane.eq(0).where(constant, Tensor(0))).contiguous();
}

Tensor permuted(Tensor states, const Tensor& turns, const std::vector<Tensor>& constants) {
  for (const Tensor& c : constants) states = keccak_round(states, turns, c);
  return states;
}

}  // namespace

Tensor Tensor::keccak(int64_t rate, uint8_t suffix) const {
  if (dtype() != DType::UInt8) user_runtime_error("keccak expects uint8, got dtypes.{}", dtype());
  if (rate <= 0 || rate >= kStateBytes || rate % 8)
    value_error("rate must be a multiple of 8 below {}, got {}", kStateBytes, rate);
  if (ndim() == 0) value_error("keccak needs at least one axis");
  const int64_t length = size(-1).value(), blocks = length / rate + 1, digest = (kStateBytes - rate) / 2;
  Shape out(shape().begin(), shape().end() - 1);
  const SInt rows = lathe::prod(out);
  out.push_back(SInt(digest));
  if (rows == SInt(0)) return constant_of(out, 0, DType::UInt8);
  if (device().empty() && length > 0) return clone().keccak(rate, suffix);

  // The message, the suffix, zeros, and a last bit.
  std::vector<uint8_t> tail(static_cast<size_t>(blocks * rate - length), 0);
  tail.front() = suffix;
  tail.back() |= 0x80;
  const TensorOptions here{.dtype = std::nullopt, .device = device()};
  Tensor message = from(tail, here).expand({rows, SInt(blocks * rate - length)});
  if (length > 0) message = cat({reshape({rows, SInt(length)}), message}, 1);
  const Tensor lanes =
      message.contiguous().bitcast(DType::UInt64).reshape({rows, SInt(blocks), SInt(rate / 8)});

  const Tensor turns = from(rotations(), here);
  std::vector<Tensor> constants;
  for (uint64_t c : kRoundConstants) constants.push_back(from(std::vector<uint64_t>{c}, here));
  Tensor states;
  for (int64_t b = 0; b < blocks; b++) {
    const Tensor block = lanes.at(Slice{}, b).pad_to({SInt(-1), SInt(25)});
    states = permuted((b ? states.bitwise_xor(block) : block).contiguous(), turns, constants);
  }
  return states.bitcast(DType::UInt8).shrink_to({SInt(-1), SInt(digest)}).reshape(out);
}

Tensor Tensor::keccak(const std::string& algorithm) const {
  static const std::map<std::string, std::pair<int64_t, uint8_t>> kAlgorithms = {
      {"sha3_224", {144, 0x06}}, {"sha3_256", {136, 0x06}}, {"shake_128", {168, 0x1f}}};
  const auto found = kAlgorithms.find(algorithm);
  if (found == kAlgorithms.end())
    value_error("keccak knows sha3_224, sha3_256 and shake_128, got \"{}\"", algorithm);
  return keccak(found->second.first, found->second.second);
}

Tensor Tensor::hash() const {
  Tensor data = contiguous().bitcast(DType::UInt8).flatten();
  for (int64_t chunks = 2; chunks > 1;) {
    chunks = std::max<int64_t>(1, (data.len() + kChunk - 1) / kChunk);
    const Tensor blocks = data.pad_to({SInt(chunks * kChunk)}).reshape({SInt(-1), SInt(kBlock)});
    const Tensor digests = blocks.keccak("shake_128").reshape({SInt(-1), SInt(kBlock)});
    data = digests.keccak("shake_128").flatten();
  }
  return data;
}

}  // namespace lathe
