// The table of docs/accuracy.md: every float32 number. A function takes minutes; -sc=NAME runs one.
#include "unit/accuracy.h"

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("every float32 number") {
  for (const Function& f : functions()) SUBCASE(f.name.c_str()) {
      const Accuracy a = sweep32(f, 1);
      print_row(f.name, "float32", a);
      CHECK_MESSAGE(a.worst <= f.limit32, f.name, " at ", a.at);
    }
}

TEST_CASE("many float64 numbers and powers") {
  for (const Function& f : functions())
    if (f.limit64 > 0) {
      const Accuracy a = sample64(f, 1 << 22);
      print_row(f.name, "float64", a);
      CHECK_MESSAGE(a.worst <= f.limit64, f.name, " at ", a.at);
    }
  for (const DType d : {DType::Float32, DType::Float64})
    print_row("pow", dtype_name(d), sample_pow(1 << 22, d));
}
