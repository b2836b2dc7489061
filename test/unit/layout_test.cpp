#include "tensor/layout.h"

#include "nn/layers.h"
#include "nn/state.h"
#include "tensor/view.h"

#include <doctest/doctest.h>

namespace lathe {
namespace {

TEST_CASE("layout: packed weights are the same tensor with neighbouring outputs side by side") {
  const Tensor w =
      Tensor::arange(64 * 128 * 3 * 3, {.dtype = DType::Float32}).reshape({64, 128, 3, 3}).clone();
  w.realize();
  const Tensor packed = pack_outputs(w);
  CHECK(packed.shape() == w.shape());
  CHECK(packed.to_vector<float>() == w.to_vector<float>());
  // Outputs 0 … 31 of the first input and tap lead the memory.
  const Tensor memory(view_base(packed.uop()));
  CHECK(memory.reshape({-1}).shrink_to({33}).to_vector<float>() == [&] {
    std::vector<float> out;
    for (int64_t o = 0; o < 32; o++) out.push_back(static_cast<float>(o * 128 * 9));
    out.push_back(1);
    return out;
  }());
}

TEST_CASE("layout: what packing does not speed up stays as it is") {
  for (const Shape& s : {Shape{64, 2048}, Shape{48, 512, 3, 3}, Shape{32, 8, 3, 3}}) {
    const Tensor w = Tensor::ones(s).clone();
    w.realize();
    CHECK(pack_outputs(w).is_same(w));
  }
  const Tensor lazy = Tensor::ones({64, 128, 3, 3}) * 2;
  CHECK(pack_outputs(lazy).is_same(lazy));
}

TEST_CASE("layout: a model with packed weights gives what it gave, and trains and loads as before") {
  nn::Conv2d conv(128, 64, 3, {.padding = 1});
  const Tensor x = Tensor::rand({2, 128, 7, 7}).clone();
  const std::vector<float> before = conv(x).to_vector<float>();
  const std::vector<float> weights = conv.weight.to_vector<float>();
  nn::pack_weights(conv);
  CHECK(conv.weight.to_vector<float>() == weights);
  const std::vector<float> after = conv(x).to_vector<float>();
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); i++) CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-4));
  conv.weight.assign(conv.weight * 0);
  for (const float v : (conv(x) - conv.bias->reshape({1, -1, 1, 1})).to_vector<float>()) CHECK(v == 0);
}

}  // namespace
}  // namespace lathe
