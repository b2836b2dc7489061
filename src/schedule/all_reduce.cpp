#include "base/knobs.h"
#include "schedule/passes.h"
#include "schedule/shard.h"

namespace lathe {
namespace {

UOp in_memory(const UOp& x) { return UOp::make(Op::Contiguous, {x}); }

// Sizes of n chunks: multiples of a power of two for the sake of vectors, where there is one.
std::vector<int64_t> chunk_sizes(int64_t count, size_t n) {
  int64_t unit = 32;
  while (count % unit) unit /= 2;
  const int64_t units = count / unit, devices = static_cast<int64_t>(n);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < devices; i++) out.push_back((units / devices + (i < units % devices)) * unit);
  return out;
}

// `chunk(i)` of n parts, folded on a device.
UOp folded(auto chunk, size_t n, Op op, const std::string& device) {
  UOp sum = copy_to(chunk(0), device);
  for (size_t i = 1; i < n; i++) sum = alu(op, {sum, copy_to(chunk(i), device)});
  return sum;
}

std::vector<UOp> naive(const std::vector<UOp>& parts, Op op, std::span<const std::string> devices) {
  std::vector<UOp> out;
  for (const std::string& d : devices)
    out.push_back(folded([&](size_t i) { return parts[i]; }, parts.size(), op, d));
  return out;
}

// `chunk(i)` is one chunk of part i; the result on each device. The ring begins at device `first`.
std::vector<UOp> around_ring(auto chunk, Op op, std::span<const std::string> devices, size_t first) {
  const size_t n = devices.size();
  UOp sum = chunk(first);
  for (size_t i = 1; i < n; i++) {
    const size_t at = (first + i) % n;
    sum = alu(op, {copy_to(sum, devices[at]), chunk(at)});
  }
  std::vector<UOp> out(n);
  sum = in_memory(sum);
  for (size_t i = 0; i < n; i++) {
    const size_t at = (first + n - 1 + i) % n;
    out[at] = sum = copy_to(sum, devices[at]);
  }
  return out;
}

std::vector<UOp> on_one(auto chunk, Op op, std::span<const std::string> devices, size_t where) {
  const UOp sum = in_memory(folded(chunk, devices.size(), op, devices[where]));
  std::vector<UOp> out;
  for (const std::string& d : devices) out.push_back(copy_to(sum, d));
  return out;
}

}  // namespace

std::vector<UOp> all_reduce(const std::vector<UOp>& parts, Op op, std::span<const std::string> devices) {
  const size_t n = devices.size();
  std::vector<UOp> local;
  for (const UOp& p : parts) local.push_back(in_memory(p));
  const SInt count = prod(parts[0].shape());
  const bool is_large = n > 2 && count.is_const() && count.value() > knob(Knob::RING_ALLREDUCE_THRESHOLD);
  const auto wanted = [&](Knob k) { return count.is_const() && knob(k) >= (is_large ? 1 : 2); };
  const bool all_to_all = wanted(Knob::ALL2ALL);
  if (!all_to_all && !wanted(Knob::RING)) return naive(local, op, devices);

  std::vector<std::vector<UOp>> chunks(n);  // of each device
  int64_t first = 0;
  const std::vector<int64_t> sizes = chunk_sizes(count.value(), n);
  for (size_t c = 0; c < n && sizes[c] > 0; c++) {
    const auto chunk = [&](size_t i) {
      return shrink(reshape(local[i], {count}), {SInt(first)}, {SInt(sizes[c])});
    };
    const std::vector<UOp> sums =
        all_to_all ? on_one(chunk, op, devices, c) : around_ring(chunk, op, devices, c);
    for (size_t i = 0; i < n; i++) chunks[i].push_back(sums[i]);
    first += sizes[c];
  }
  std::vector<UOp> out;
  for (const auto& c : chunks) out.push_back(reshape(concatenate(c, 0), parts[0].shape()));
  return out;
}

}  // namespace lathe
