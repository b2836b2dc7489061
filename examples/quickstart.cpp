// ctest:
// prints: 3.5 0 8 0 5 0 7 0 9 0
#include <lathe/lathe.h>

#include <cstdio>

using lathe::Tensor;

int main() {
  const Tensor x = Tensor::from({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  const Tensor w = Tensor::from({{0.5, -1.0}, {0.0, 1.0}, {1.0, -0.5}});
  const Tensor y = x.matmul(w).relu();  // nothing has run so far
  y.sum().backward();                   // nor now: gradients are graph too
  for (float v : y.to_vector<float>()) std::printf("%g ", v);
  for (float v : w.grad()->to_vector<float>()) std::printf("%g ", v);
  std::printf("\n");
}
