#include "golden/golden.h"
#include "uop/print.h"
#include "uop/simplify.h"
#include "uop/spec.h"

namespace lathe::test {
namespace {

// A pass over graphs, as a row's function.
GoldenFunction graph_pass(UOp (*pass)(const UOp&)) {
  return [pass](const GoldenValue& v) -> GoldenValue { return pass(std::get<UOp>(v)); };
}

GoldenFunction verify_pass(SpecLevel level) {
  return [level](const GoldenValue& v) -> GoldenValue {
    if (const auto* list = std::get_if<std::vector<UOp>>(&v))
      verify(*list, "golden");
    else
      verify(std::get<UOp>(v), level, "golden");
    return v;
  };
}

GoldenValue to_expression(const GoldenValue& v) { return expression(std::get<UOp>(v)) + "\n"; }
GoldenValue with_shapes(const GoldenValue& v) {
  return print(std::get<UOp>(v), {.renumber = true, .shapes = true});
}
GoldenValue to_list(const GoldenValue& v) { return toposort(std::get<UOp>(v)); }

}  // namespace

std::span<const GoldenPass> golden_passes() {
  static const GoldenPass kPasses[] = {
      {"simplify", graph_pass(simplify)},
      {"expression", to_expression},
      {"shapes", with_shapes},
      {"toposort", to_list},
      {"verify_tensor", verify_pass(SpecLevel::Tensor)},
      {"verify_kernel", verify_pass(SpecLevel::Kernel)},
      {"verify_program", verify_pass(SpecLevel::Program)},
  };
  return kPasses;
}

}  // namespace lathe::test
