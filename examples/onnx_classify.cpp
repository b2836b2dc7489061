// ctest: --count 200
// A network that another program has trained reads handwritten digits.
#include "options.h"

#include <algorithm>

namespace nn = lathe::nn;
namespace onnx = lathe::onnx;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(onnx_classify [options] [MODEL]: shows the digits of MNIST to a network from an ONNX file and counts those it knows.

  MODEL      mnist.onnx of ../shared/data/onnx/models unless given
  --count N  how many digits, 3000 unless given

Examples:
  onnx_classify --count 100
  onnx_classify ~/models/mnist.onnx
)";

int classify(const example::Options& options) {
  const auto model = options.path_or_data("onnx/models/mnist.onnx");
  const auto digits = example::data("mnist");
  if (!model || !digits) return example::kSkipped;
  const onnx::Session session(*model);
  const std::string input = session.inputs().at(0).name;
  const nn::ImageSet images = nn::load_mnist(*digits).test;
  const int64_t count = std::min(options.number("--count", 3000), images.size());
  int64_t right = 0;
  for (int64_t i = 0; i < count; i++) {
    const auto pixels = images.image(i);
    const Tensor image = Tensor::from(std::vector<float>(pixels.begin(), pixels.end()), {1, 1, 28, 28});
    // The first run builds and compiles the network, the others launch it.
    const Tensor scores = session.run({{input, image}}).at(0).tensor();
    right += scores.argmax().item<int64_t>() == images.labels[static_cast<size_t>(i)];
  }
  std::printf("%lld of %lld digits\n", static_cast<long long>(right), static_cast<long long>(count));
  return example::expect(right * 10 >= count * 9 && count > 0, "it knows nine of ten") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, classify); }
