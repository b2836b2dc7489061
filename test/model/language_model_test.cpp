// Models from files against what is known of them.
#include "formats/gguf/gguf.h"
#include "llm/evaluator.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;

namespace {

template <class T>
std::vector<T> numbers_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

struct Loaded {
  explicit Loaded(const std::filesystem::path& path, EvaluatorOptions options)
      : model(std::make_shared<const GgufFile>(GgufFile::open(path.string()).or_throw()), options.device,
              options.context, cache_positions(options)),
        evaluator(model, options) {}
  Model model;
  Evaluator evaluator;
};

}  // namespace

TEST_CASE("stories260K continues as published") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::filesystem::path at = *folder / "stories260K";
  const std::vector<int32_t> ids = numbers_in<int32_t>(at / "golden_greedy_ids.i32");
  const std::vector<float> logits = numbers_in<float>(at / "golden_greedy_logits.f32");
  Loaded m(at / "stories260K-f32.gguf", {.context = 512, .kv_type = KvType::F32});
  Prediction out = m.evaluator.evaluate({ids.data(), 1});
  double worst = 0;
  for (size_t i = 0; i < 256; i++) {
    const std::vector<float> got = out.logits.to_vector<float>();
    for (size_t j = 0; j < got.size(); j++)
      worst = std::max<double>(worst, std::abs(got[j] - logits[i * got.size() + j]));
    REQUIRE(out.best.item<int32_t>() == ids[i + 1]);
    if (i < 255) out = m.evaluator.append(ids[i + 1], out.best);
  }
  CHECK(worst < 1e-4);
}
