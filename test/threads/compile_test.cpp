// Kernels that compile side by side.
#include "base/knobs.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "tensor/tensor.h"

#include <string>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

// A kernel each; sizes that no other test has, so that none is in the cache of this process.
std::vector<Tensor> different(int64_t first, const std::string& device) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < 12; i++)
    out.push_back(Tensor::empty({first + i, 3}, {.device = device}).exp2().sum(1) * 2);
  return out;
}

std::string error_of(const std::vector<Tensor>& tensors) {
  try {
    Tensor::realize(tensors);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("kernels compile on all threads, equal ones once") {
  const KnobScope threads(Knob::CPU_COUNT, 4);
  std::vector<Tensor> all = different(7001, "CPU");
  for (const Tensor& again : different(7001, "CPU")) all.push_back(again);
  reset_counters();
  Tensor::realize(all);
  CHECK(counters().compiled == 12);
  CHECK(counters().kernels == 24);
}

TEST_CASE("the error of several kernels is that of the first, whatever the number of threads") {
  const KnobScope cc(Knob::CC, "no-such-compiler-here");
  std::vector<std::string> errors;
  for (const int n : {1, 4}) {
    const KnobScope threads(Knob::CPU_COUNT, n);
    ErrorContext context([] { return "trying"; });
    errors.push_back(error_of(different(7103, "CPU:C")));
  }
  CHECK(errors[0] == errors[1]);
  CHECK(test::contains(errors[0], "no-such-compiler-here"));
  CHECK(test::contains(errors[0], "7103"));
  CHECK(test::contains(errors[0], "while trying"));
}

TEST_CASE("cancel stops all threads that compile") {
  const KnobScope threads(Knob::CPU_COUNT, 4);
  const std::vector<Tensor> all = different(7201, "CPU");
  reset_counters();
  cancel();
  CHECK_THROWS_AS(Tensor::realize(all), Cancelled);
  CHECK(counters().compiled < 12);
  Tensor::realize(all);
  CHECK(counters().compiled == 12);
}
