#include "uop/op.h"

#include <algorithm>
#include <array>

namespace lathe {
namespace {

constexpr std::array<Op, kNumOps> ops_by_name() {
  std::array<Op, kNumOps> ops{};
  for (int i = 0; i < kNumOps; i++) ops[i] = static_cast<Op>(i);
  std::sort(ops.begin(), ops.end(), [](Op a, Op b) { return op_name(a) < op_name(b); });
  return ops;
}
constexpr std::array<Op, kNumOps> kByName = ops_by_name();

}  // namespace

std::optional<Op> parse_op(std::string_view name) {
  const auto it = std::lower_bound(kByName.begin(), kByName.end(), name,
                                   [](Op op, std::string_view n) { return op_name(op) < n; });
  if (it == kByName.end() || op_name(*it) != name) return std::nullopt;
  return *it;
}

}  // namespace lathe
