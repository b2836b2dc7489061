// One operator a case, or the function body that stands for it.
#include "conformance/onnx_data.h"

using namespace lathe;

TEST_CASE("ONNX operators") {
  const auto folder = test::data_folder("onnx/backend-tests");
  if (!folder) return;
  test::check_set(test::OnnxData(*folder), "node", 1765);
}
