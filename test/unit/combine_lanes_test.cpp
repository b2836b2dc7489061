// Gathers and scatters that become contiguous accesses and shuffles hold the same elements.
#include "tensor/custom_kernel.h"
#include "unit/tensor_check.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// out[to(i, j)] = in[from(i, j)] for i, j of n x m; loop 0 is i.
using Place = UOp (*)(const UOp& i, const UOp& j);
Tensor moved(const Tensor& in, int64_t n, int64_t m, Place to, Place from, std::vector<Action> actions) {
  const Tensor out = Tensor::full({in.numel()}, 0.0, {.dtype = in.dtype(), .device = in.device()});
  const auto kernel = [&](const std::vector<UOp>& args) {
    const UOp i = range(n, 0, AxisType::Loop), j = range(m, 1, AxisType::Loop);
    return UOp::make(Op::End, {store(index(args[0], to(i, j)), load(index(args[1], from(i, j)))), i, j});
  };
  return custom_kernel({out.contiguous(), in}, kernel, {.name = "moved", .actions = std::move(actions)})[0];
}

void check_moved(DType d, int64_t n, int64_t m, Place to, Place from, const std::vector<Action>& actions) {
  CAPTURE(dtype_name(d));
  const auto in = [&](const char* device) {
    return (Tensor::arange(n * m * 4, {.device = device}) % 251).cast(d).contiguous();
  };
  const auto expected = moved(in("INTERP"), n, m, to, from, std::vector<Action>{}).cast(DType::Int32);
  for (const char* device : {"CPU", "CPU:C", "INTERP"}) {
    CAPTURE(device);
    const auto got = moved(in(device), n, m, to, from, actions).cast(DType::Int32);
    CHECK(got.to_vector<int32_t>() == expected.to_vector<int32_t>());
  }
}

constexpr DType kTypes[] = {DType::Float32, DType::Float64,  DType::UInt8, DType::Float16,
                            DType::Int64,   DType::BFloat16, DType::Bool};
using enum ActionKind;

}  // namespace

TEST_CASE("rows become columns in registers") {
  const auto rows = [](const UOp& i, const UOp& j) { return i * 64 + j; };
  const auto columns = [](const UOp& i, const UOp& j) { return j * 48 + i; };
  for (const DType d : kTypes) {
    check_moved(d, 48, 64, rows, columns, {{Vector, 1, 64}, {Upcast, 0, 16}});
    check_moved(d, 48, 64, rows, columns, {{Vector, 1, 16}, {Upcast, 0, 12}});
    check_moved(d, 48, 64, columns, rows, {{Vector, 1, 32}, {Upcast, 0, 16}});
    check_moved(d, 48, 64, columns, rows, {{Vector, 0, 48}, {Upcast, 1, 4}});
  }
  check_moved(DType::Float32, 48, 64, rows, columns, {{Vector, 1, 64}, {Upcast, 0, 3}});
}

TEST_CASE("lanes in few runs") {
  const auto all = [](const UOp& i, const UOp& j) { return i * 64 + j; };
  for (const DType d : {DType::Float32, DType::UInt8}) {
    check_moved(d, 6, 64, all, [](const UOp& i, const UOp& j) { return i * 128 + j * 2 + 1; },
                {{Vector, 1, 32}});
    check_moved(d, 6, 64, all, [](const UOp& i, const UOp& j) { return i * 64 + (j * -1 + 63); },
                {{Vector, 1, 64}});
    check_moved(d, 6, 64, all, [](const UOp& i, const UOp& j) { return i + j / 16 * 30; }, {{Vector, 1, 64}});
    check_moved(d, 6, 64, all, [](const UOp& i, const UOp& j) { return i * 32 + j / 16 * 100 + j % 16; },
                {{Vector, 1, 64}});
    check_moved(d, 6, 64, [](const UOp& i, const UOp& j) { return j * 2 + i % 2 + i / 2 * 128; }, all,
                {{Vector, 1, 64}, {Upcast, 0, 2}});
    check_moved(d, 6, 64, [](const UOp& i, const UOp& j) { return i * 32 + j / 32 * 300 + j % 32; }, all,
                {{Vector, 1, 64}});
  }
}

TEST_CASE("lanes that a border closes take the alternative") {
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t pad : {1, 2})
      for (const int64_t size : {32, 50, 113}) {
        CAPTURE(stride);
        CAPTURE(pad);
        CAPTURE(size);
        const auto pooled = [&](const char* device) {
          const Tensor x = (Tensor::arange(3 * 9 * size, {.device = device}) % 97).cast(DType::Float32) - 50;
          const PoolOptions options{.stride = stride, .padding = pad};
          return x.reshape({1, 3, 9, size}).contiguous().max_pool2d({5, 5}, options);
        };
        const std::vector<float> expected = pooled("INTERP").to_vector<float>();
        for (const char* device : {"CPU", "CPU:C"}) CHECK(pooled(device).to_vector<float>() == expected);
      }
}
