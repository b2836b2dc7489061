// ctest: --count 200
// onnx_classify [MODEL] [--count N]: shows handwritten digits to a network that another program has trained,
// the mnist.onnx of ../shared/data/onnx/models unless given, and prints how many of them it knows.
#include <lathe/lathe.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace nn = lathe::nn;
namespace onnx = lathe::onnx;
using lathe::Tensor;

namespace {

constexpr int kSkipped = 77;  // what ctest takes for skipped

int run(const std::string& model, const std::string& digits, int64_t count) {
  const onnx::Session session(model);
  const std::string input = session.inputs().at(0).name;
  const nn::ImageSet images = nn::load_mnist(digits).test;
  count = std::min(count, images.size());
  int64_t right = 0;
  for (int64_t i = 0; i < count; i++) {
    const auto pixels = images.image(i);
    const Tensor image = Tensor::from(std::vector<float>(pixels.begin(), pixels.end()), {1, 1, 28, 28});
    // The first run builds and compiles the network, the others launch it.
    const Tensor scores = session.run({{input, image}}).at(0).tensor();
    right += scores.argmax().item<int64_t>() == images.labels[static_cast<size_t>(i)];
  }
  std::printf("%lld of %lld digits\n", static_cast<long long>(right), static_cast<long long>(count));
  return right * 10 >= count * 9 && count > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* data = std::getenv("LATHE_DATA");
  const std::filesystem::path folder = data ? data : "../shared/data";
  std::string model = (folder / "onnx/models/mnist.onnx").string();
  int64_t count = 3000;
  for (int i = 1; i < argc; i++) {
    if (std::string_view(argv[i]) == "--count" && i + 1 < argc)
      count = std::atoll(argv[++i]);
    else
      model = argv[i];
  }
  if (!std::filesystem::exists(model) || !std::filesystem::exists(folder / "mnist")) {
    std::printf("skipped: %s or %s not found\n", model.c_str(), (folder / "mnist").c_str());
    return kSkipped;
  }
  try {
    return run(model, (folder / "mnist").string(), count);
  } catch (const lathe::Error& e) {
    std::fprintf(stderr, "onnx_classify: %s\n", e.what());
    return 1;
  }
}
