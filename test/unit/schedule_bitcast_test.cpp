// Bitcasts between element sizes.
#include "engine/counters.h"
#include "schedule/passes.h"
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

#include <cstring>

using namespace lathe;
using namespace lathe::test;

namespace {

template <class To, class From>
std::vector<To> reinterpreted(const std::vector<From>& v) {
  std::vector<To> out(v.size() * sizeof(From) / sizeof(To));
  std::memcpy(out.data(), v.data(), out.size() * sizeof(To));
  return out;
}

template <class To, class From>
void check_bitcast(const std::vector<From>& values, DType to) {
  const Tensor memory = Tensor::from(values, Shape{SInt(2), SInt(static_cast<int64_t>(values.size() / 2))});
  CHECK(memory.bitcast(to).to_vector<To>() == reinterpreted<To>(values));
  // Of a computed value, and with a computation behind it.
  CHECK((memory + memory * 0).bitcast(to).flip(0).flip(0).to_vector<To>() == reinterpreted<To>(values));
}

}  // namespace

TEST_CASE("to smaller elements, the low bytes first") {
  check_bitcast<uint8_t>(std::vector<float>{1.5f, -2, 3e-30f, 4e30f}, DType::UInt8);
  check_bitcast<int8_t>(std::vector<float>{1.5f, -2, 3e-30f, 4e30f}, DType::Int8);
  check_bitcast<int16_t>(std::vector<int64_t>{1, -2, 0x0123456789abcdef, INT64_MIN}, DType::Int16);
  check_bitcast<float>(std::vector<double>{1.5, -2, 3e-300, 4e300}, DType::Float32);
}

TEST_CASE("to larger elements") {
  check_bitcast<float>(std::vector<uint8_t>{0, 0, 192, 63, 1, 2, 3, 4, 255, 255, 127, 127, 0, 0, 0, 128},
                       DType::Float32);
  check_bitcast<int64_t>(std::vector<int16_t>{1, 2, -3, 4, -1, 0, 5, -6}, DType::Int64);
  check_bitcast<double>(std::vector<int32_t>{0, 0x3ff80000, -1, 0x400921fb}, DType::Float64);
}

TEST_CASE("there and back again") {
  const Tensor x = floats({1.5, -2, 3, 1e10});
  check_values(x.bitcast(DType::UInt8).bitcast(DType::Float32), {1.5, -2, 3, 1e10}, 0);
  check_values(x.bitcast(DType::UInt16).bitcast(DType::UInt64).bitcast(DType::Float32), {1.5, -2, 3, 1e10},
               0);
}

TEST_CASE("bytes of a part of an axis") {
  const Tensor raw = Tensor::from(std::vector<uint8_t>{9, 9, 9, 9, 0, 0, 192, 63, 9, 9, 9, 9});
  check_values(raw.shrink({{4, 8}}).bitcast(DType::Float32), {1.5});
}

TEST_CASE("one size stays one operation") {
  const UOp x = new_buffer({SInt(4)}, DType::Float32, "CPU");
  CHECK(!lower_resizing_bitcast(bitcast(x, DType::Int32)));
  CHECK(lower_resizing_bitcast(bitcast(x, DType::Int16)).shape() == Shape{SInt(8)});
}

TEST_CASE("a store through a bitcast writes the memory") {
  const UOp memory = new_buffer({SInt(2)}, DType::UInt32, "CPU");
  const UOp flipped = flip(bitcast(memory, DType::Float32), std::vector<int>{1});
  const UOp same = store_below_bitcast(store(flipped, constant(1.0)));
  CHECK(same.src(0) == flip(memory, std::vector<int>{1}));
  CHECK(same.src(1).dtype() == DType::UInt32);
  CHECK(!store_below_bitcast(store(memory, constant(1))));
}
