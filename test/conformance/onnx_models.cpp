// Small graphs, exports, and whole models: of the conformance data, and from the wild.
#include "base/mmap.h"
#include "conformance/onnx_data.h"
#include "formats/onnx/session.h"
#include "nn/datasets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace lathe;

namespace {

// What the runner of the ONNX project feeds to the light models: rising from 0 to almost 1.
Tensor ramp(const std::vector<int64_t>& shape) {
  const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> values;
  for (int64_t i = 0; i < n; i++)
    values.push_back(static_cast<float>(static_cast<double>(i) / static_cast<double>(n)));
  return Tensor::from(values, Shape(shape.begin(), shape.end()));
}

bool near(double a, double b, double rtol = 1e-4) { return std::abs(a - b) <= rtol * (1 + std::abs(b)); }

}  // namespace

TEST_CASE("ONNX graphs and exports") {
  const auto folder = test::data_folder("onnx/backend-tests");
  if (!folder) return;
  const test::OnnxData data(*folder);
  test::check_set(data, "simple", 23);
  test::check_set(data, "pytorch-converted", 82);
  test::check_set(data, "pytorch-operator", 35);
}

TEST_CASE("ONNX light models") {
  const auto folder = test::data_folder("onnx/backend-tests");
  if (!folder) return;
  const test::OnnxData data(*folder);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data.root() / "light")) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string stem = (entry.path().parent_path() / entry.path().stem()).string();
    CAPTURE(stem);
    count++;
    const onnx::Session session(entry.path().string());
    std::map<std::string, onnx::Value> inputs;
    for (const onnx::ValueInfo& i : session.inputs()) inputs[i.name] = ramp({1, 3, 224, 224});
    const onnx::Values outputs = session.run(inputs);
    const onnx::Value expected = onnx::load_value(stem + "_output_0.pb", session.outputs()[0].type);
    CHECK(onnx::difference(outputs.at(0), expected, {.rtol = 2e-3, .atol = 1e-7}) == "");
  }
  CHECK(count == 9);
}

TEST_CASE("digits") {
  const auto models = test::data_folder("onnx/models"), digits = test::data_folder("mnist");
  if (!models || !digits) return;
  const onnx::Session session((*models / "mnist.onnx").string());
  const nn::ImageSet images = nn::load_mnist(digits->string()).test;
  REQUIRE(images.size() == 3000);
  int right = 0;
  for (int64_t i = 0; i < images.size(); i++) {
    const auto pixels = images.image(i);
    const std::vector<float> x(pixels.begin(), pixels.end());
    const auto y =
        session.run({{"Input3", Tensor::from(x, {1, 1, 28, 28})}}).at(0).tensor().to_vector<float>();
    right += std::max_element(y.begin(), y.end()) - y.begin() == images.labels[static_cast<size_t>(i)];
    if (i > 0) continue;
    const double expected[] = {-552.7100,  138.2690,   2178.5081, 2319.8616,  -3466.5378,
                               -1778.3539, -6441.8354, 8062.9590, -1860.2047, 1034.2357};
    for (size_t k = 0; k < 10; k++) CHECK(near(y[k], expected[k]));
  }
  CHECK(right == 2943);
}

TEST_CASE("voice activity") {
  const auto models = test::data_folder("onnx/models");
  if (!models) return;
  const onnx::Session session((*models / "silero_vad_16k_op15.onnx").string());
  const std::string wav = read_file((*models / "jfk.wav").string()),
                    stored = read_file((*models / "silero_jfk_probs.f32").string());
  std::vector<float> expected(stored.size() / 4);
  std::memcpy(expected.data(), stored.data(), stored.size());
  REQUIRE(expected.size() == 343);
  const size_t data = wav.find("data");
  REQUIRE(data != wav.npos);
  std::vector<int16_t> samples((wav.size() - data - 8) / 2);
  std::memcpy(samples.data(), wav.data() + data + 8, samples.size() * 2);
  std::vector<float> frame(576, 0.0F);
  onnx::Value state = Tensor::zeros({2, 1, 128});
  const onnx::Value rate = Tensor::from(std::vector<int64_t>{16000}, Shape{});
  int voiced = 0;
  double worst = 0;
  for (size_t f = 0; f < expected.size(); f++) {
    std::copy(frame.end() - 64, frame.end(), frame.begin());
    for (size_t i = 0; i < 512; i++) frame[64 + i] = static_cast<float>(samples[512 * f + i]) / 32768.0F;
    const onnx::Values out =
        session.run({{"input", Tensor::from(frame, {1, 576})}, {"state", state}, {"sr", rate}});
    const auto p = out.at(0).tensor().item<float>();
    state = out.at(1);
    voiced += p > 0.5F;
    worst = std::max(worst, std::abs(static_cast<double>(p) - static_cast<double>(expected[f])));
  }
  CHECK(worst < 1e-4);
  CHECK(voiced == 233);
}

TEST_CASE("faces") {
  const auto models = test::data_folder("onnx/models");
  if (!models) return;
  const onnx::Session session((*models / "Ultraface_version-RFB-320.onnx").string());
  std::vector<float> x;
  for (int64_t i = 0; i < 3 * 240 * 320; i++) x.push_back(static_cast<float>(i * 7919 % 255 - 127) / 128);
  const onnx::Values out = session.run({{"input", Tensor::from(x, {1, 3, 240, 320})}});
  const auto scores = out.at(0).tensor().to_vector<float>(), boxes = out.at(1).tensor().to_vector<float>();
  const double first_scores[] = {0.934535, 0.065465, 0.937050, 0.062950, 0.928625, 0.071375};
  const double first_boxes[] = {0.0034704, 0.0109735, 0.0205072, 0.0294534, -0.0113906, 0.0004916};
  for (size_t i = 0; i < 6; i++) {
    CHECK(near(scores[i], first_scores[i]));
    CHECK(near(boxes[i], first_boxes[i]));
  }
  CHECK(near(*std::max_element(scores.begin(), scores.end()), 0.994295));
  double sum = 0, absolute = 0;
  for (float b : boxes) sum += b, absolute += std::abs(b);
  CHECK(near(sum, 8821.146));
  CHECK(near(absolute, 8841.266));
}
