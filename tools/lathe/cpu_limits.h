// What the processor can do at most, measured.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace lathe {

struct CpuLimits {
  std::string cpu;  // its name
  int threads = 1;  // that took part
  struct Peak {
    std::string_view dtype;
    double flops = 0;  // per second: two a multiply-add; 0 where it was not measured
  };
  // float32 and float64 by multiply-adds of their own; bfloat16 and int8 by dot products into float32 and
  // int32, where the processor has them.
  std::array<Peak, 4> peaks{{{"float32"}, {"float64"}, {"bfloat16"}, {"int8"}}};
  double read_bytes = 0;  // per second, from memory that no cache holds
};

// Of all threads that kernels run on. Takes a second or two, and is kept in the kernel cache under the name
// of the processor; `anew` measures again. DeviceError where the LLVM device does not work.
CpuLimits cpu_limits(bool anew = false);

}  // namespace lathe
