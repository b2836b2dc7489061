// Result types of the tensor operations.
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("a new tensor has the type of its data") {
  CHECK(Tensor(true).dtype() == DType::Bool);
  CHECK(Tensor(2).dtype() == DType::WeakInt);
  CHECK(Tensor(2.3).dtype() == DType::WeakFloat);
  CHECK(Tensor().dtype() == DType::WeakFloat);
  CHECK(Tensor::from(std::initializer_list<NestedData>{}).dtype() == DType::Float32);
  CHECK(Tensor::from({1}).dtype() == DType::Int32);
  CHECK(Tensor::from({1.1}).dtype() == DType::Float32);
  CHECK(Tensor::from({true, false}).dtype() == DType::Bool);
  CHECK(Tensor::from({{1, 2}, {3, 4.5}}).dtype() == DType::Float32);
  CHECK(Tensor::from(std::vector<uint8_t>{1}).dtype() == DType::UInt8);
  CHECK(Tensor::full({2, 3}, 3.0).dtype() == DType::Float32);
  CHECK(Tensor::full({2, 3}, 3).dtype() == DType::Int32);
  CHECK(Tensor::full({2, 3}, true).dtype() == DType::Bool);
  CHECK(Tensor::eye(2).dtype() == DType::Float32);
  CHECK(Tensor::zeros({2}).dtype() == DType::Float32);
  CHECK(Tensor::ones({2}).dtype() == DType::Float32);
  CHECK(Tensor::arange(5).dtype() == DType::Int32);
  CHECK(Tensor::arange(5.0).dtype() == DType::Float32);
  CHECK(Tensor::arange(int64_t{3000000000}, int64_t{3000000002}).dtype() == DType::Int64);
}

TEST_CASE("a scalar takes the type of the tensor it meets") {
  const Tensor i8 = Tensor::from({1, 2}, {DType::Int8}), f32 = Tensor::ones({2}), half = f32.half();
  CHECK((i8 + 3).dtype() == DType::Int8);
  CHECK((f32 + 1).dtype() == DType::Float32);
  CHECK((f32 + 0.5).dtype() == DType::Float32);
  CHECK((half + 2).dtype() == DType::Float16);
  CHECK((3 - half).dtype() == DType::Float16);
  CHECK((i8 + 0.5).dtype() == DType::WeakFloat);
  CHECK((Tensor::from({1}) + 0.5).dtype() == DType::WeakFloat);
  CHECK((Tensor::from({true}).sum() + 1e-5).dtype() == DType::WeakFloat);
  CHECK((i8 / 2).dtype() == DType::Float32);
  CHECK(i8.pow(0.5).dtype() == DType::WeakFloat);
  CHECK(Tensor::from({1}, {DType::UInt8}).minimum(1).dtype() == DType::UInt8);
}

TEST_CASE("scalars stay literals in the graph") {
  const Tensor f32 = Tensor::ones({2}), i8 = Tensor::from({1, 2}, {DType::Int8});
  CHECK((f32 + 1).uop().src(1) == constant(Scalar(1.0)));
  CHECK((i8 + 3).uop().src(1) == constant(3));
  CHECK((i8 + 0.5).uop().src(1) == constant(Scalar(0.5)));
  CHECK((i8 + 2).uop() == (i8 + Tensor(2)).uop());
  CHECK((f32 - 1).uop().src(1) == constant(Scalar(-1.0)));
}

TEST_CASE("operands of different type meet at their join") {
  const Tensor i32 = Tensor::from({1, 2}), u8 = i32.cast(DType::UInt8), i8 = i32.cast(DType::Int8),
               f32 = Tensor::ones({2}), half = f32.half();
  CHECK((u8 + i8).dtype() == DType::Int16);
  CHECK((i32 + half).dtype() == DType::Float16);
  CHECK((half * f32).dtype() == DType::Float32);
  CHECK((half * half.bfloat16()).dtype() == DType::Float32);
  CHECK(f32.lt(0).where(i32, half).dtype() == DType::Float16);
  CHECK(Tensor::stack({i32, half}).dtype() == DType::Float16);
  CHECK(Tensor::cat({i8, u8}).dtype() == DType::Int16);
  CHECK(half.dot(f32).dtype() == DType::Float32);
  CHECK(i8.dot(i8).dtype() == DType::Int8);
  CHECK(i8.dot(i8).uop().op() == Op::Cast);
  CHECK(i8.dot(i8).uop().src(0).dtype() == DType::Int32);
}

TEST_CASE("sums widen, means are floats, comparisons are bools") {
  const Tensor t = Tensor::from({1, 2});
  const auto sum_of = [&](DType d) { return t.cast(d).sum().dtype(); };
  CHECK(sum_of(DType::Int8) == DType::Int32);
  CHECK(sum_of(DType::UInt8) == DType::UInt32);
  CHECK(sum_of(DType::Bool) == DType::Int32);
  CHECK(sum_of(DType::Int64) == DType::Int64);
  CHECK(sum_of(DType::Float16) == DType::Float16);
  CHECK(sum_of(DType::Float32) == DType::Float32);
  CHECK(t.half().sum(0, false, DType::Float32).dtype() == DType::Float32);
  CHECK(t.mean().dtype() == DType::Float32);
  CHECK(t.half().mean().dtype() == DType::Float16);
  CHECK(t.half().var().dtype() == DType::Float16);
  CHECK(t.cast(DType::Int8).prod().dtype() == DType::Int8);
  CHECK(t.argmax().dtype() == DType::Int32);
  CHECK(t.cummax().indices.dtype() == DType::Int32);
  CHECK(t.lt(1).dtype() == DType::Bool);
  CHECK(t.eq(1).dtype() == DType::Bool);
  CHECK(t.ge(t).dtype() == DType::Bool);
  CHECK(t.to_float().isnan().dtype() == DType::Bool);
  CHECK(t.to_float().isclose(t).dtype() == DType::Bool);
  CHECK(t.any().dtype() == DType::Bool);
  CHECK(t.all().dtype() == DType::Bool);
  CHECK(t.half().softmax(-1, DType::Float32).dtype() == DType::Float32);
  CHECK(t.half().softmax().dtype() == DType::Float16);
  CHECK(Tensor(3).expand({4}).sum().dtype() == DType::Int32);
  CHECK(Tensor(1.5).expand({4}).max().dtype() == DType::Float32);
  CHECK(t.one_hot(3).dtype() == DType::Int32);
}

TEST_CASE("float functions of integers give the default float") {
  for (DType d : {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32, DType::UInt32,
                  DType::Int64, DType::Bool}) {
    const Tensor t = Tensor::from({1, 4, 9, 16}).cast(d);
    for (const Tensor& y :
         {t.sqrt(), t.exp(), t.exp2(), t.log(), t.log2(), t.rsqrt(), t.sin(), t.cos(), t.tan()})
      CHECK(y.dtype() == DType::Float32);
  }
  const Tensor half = Tensor::ones({2}).half();
  for (const Tensor& y :
       {half.exp(), half.cos(), half.sigmoid(), half.tanh(), half.gelu(), half.log(), half.softplus()})
    CHECK(y.dtype() == DType::Float16);
  CHECK(half.exp().uop().src(0).dtype() == DType::Float32);
  CHECK(Tensor::from({1}).floor().dtype() == DType::Int32);
  CHECK(Tensor::from({1}).abs().dtype() == DType::Int32);
  CHECK(Tensor::from({1}).relu().dtype() == DType::Int32);
}

TEST_CASE("weak expressions read at the default types") {
  check_values(Tensor::from({1, 2}, {DType::Int8}) + 0.5, {1.5, 2.5});
  CHECK(Tensor(3).item<int>() == 3);
  CHECK((Tensor(3) + 4).item<int>() == 7);
  CHECK(Tensor(2.5).item<float>() == 2.5f);
  CHECK(Tensor(true).item<bool>());
}
