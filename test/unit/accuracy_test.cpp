// The accuracy of compiled functions on samples, as docs/accuracy.md states it; accuracy_slow.cpp takes every
// number.
#include "unit/accuracy.h"

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("float32, a stride over all numbers, and corners") {
  for (const Function& f : functions()) {
    Accuracy a = sweep32(f, 2039);
    a.merge(measure(f, corners(), DType::Float32));
    print_row(f.name, "float32", a);
    CHECK_MESSAGE(a.worst <= f.limit32, f.name, " at ", a.at);
  }
}

TEST_CASE("half and bfloat16, all codes") {
  for (const DType d : {DType::Float16, DType::BFloat16})
    for (const Function& f : functions()) {
      const Accuracy a = all_codes(f, d);
      print_row(f.name, dtype_name(d), a);
      CHECK_MESSAGE(a.worst <= 0.51, f.name, " of ", dtype_name(d), " at ", a.at);
    }
}

TEST_CASE("float64, samples") {
  for (const Function& f : functions()) {
    if (f.limit64 == 0) continue;
    const Accuracy a = sample64(f, 1 << 16);
    print_row(f.name, "float64", a);
    CHECK_MESSAGE(a.worst <= f.limit64, f.name, " at ", a.at);
  }
}

TEST_CASE("pow, samples") {
  const Accuracy single = sample_pow(1 << 18, DType::Float32), full = sample_pow(1 << 16, DType::Float64);
  print_row("pow", "float32", single);
  print_row("pow", "float64", full);
  CHECK(single.worst <= 0.51);
  CHECK(full.worst <= 1.5);
}

TEST_CASE("gradients stay finite where the functions are flat") {
  const std::vector<float> far{-1e10f, -1000, -100, -89, -45, 0, 45, 89, 100, 1000, 1e10f};
  for (const char* name : {"sigmoid", "tanh", "erf", "gelu", "gelu tanh"})
    for (const Function& f : functions()) {
      if (f.name != name) continue;
      const Tensor x = Tensor::from(far);
      f.compute(x).sum().backward();
      for (const float g : x.grad()->to_vector<float>()) CHECK_MESSAGE(std::isfinite(g), f.name);
    }
}

TEST_CASE("powers of minus infinity, and their gradient") {
  const Tensor x = Tensor::from(std::vector<float>{-std::numeric_limits<float>::infinity()});
  const Tensor y = x.pow(0.3);
  y.sum().backward();
  CHECK(y.to_vector<float>()[0] == std::numeric_limits<float>::infinity());
  CHECK(x.grad()->to_vector<float>()[0] == 0);
  CHECK(x.pow(3.3).to_vector<float>()[0] == std::numeric_limits<float>::infinity());
}
