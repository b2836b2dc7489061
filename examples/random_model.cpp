// ctest: gpt-oss mxfp4
// prints: gpt-oss: 41 tensors, 167640 weights
// A GGUF file with random weights: of every family in sizes of tests, and one that is large enough to measure
// speed.
#include "options.h"

#include "support/model_file.h"

namespace {

constexpr const char* kHelp =
    R"(random_model MODEL TYPE [FILE.gguf] [options]: writes a model with random weights; without a file says how large it is.

MODEL is a family, such as llama, qwen3moe or kimi-linear (--families lists them), in a few ten thousand weights, or
llama-191m: 8 layers, 1024 wide, 16 heads over 8, hidden 4096, vocabulary 32000. TYPE is that of the matrices: f32, f16,
q8_0, q4_0, mxfp4 ...

  --families   lists the families
  --seed N     of the weights, 0 unless given

Examples:
  random_model llama-191m q8_0 llama-191m-q8_0.gguf
  random_model gpt-oss mxfp4 tiny.gguf
)";

int write(const std::vector<std::string>& words, uint64_t seed) {
  using namespace lathe;
  const std::string& model = words.at(0);
  const auto type = ggml_type(std::string_view(words.at(1)));
  if (!type) throw example::WrongUsage{words.at(1) + " is no type of tensors"};
  const std::vector<std::string> known = test::random_families();
  if (model != "llama-191m" && std::find(known.begin(), known.end(), model) == known.end())
    throw example::WrongUsage{model + " is no family; --families lists them"};
  const test::ModelSpec spec =
      model == "llama-191m" ? test::llama_191m_spec() : test::random_model_spec(model);
  const GgufWriter writer = test::random_gguf(spec, seed, *type);
  int64_t weights = 0;
  for (const test::TensorSpec& t : spec.tensors) {
    int64_t n = 1;
    for (const int64_t size : t.shape) n *= size;
    weights += n;
  }
  if (words.size() > 2) writer.write(words[2]);
  std::printf("%s: %zu tensors, %lld weights\n", model.c_str(), writer.tensors(),
              static_cast<long long>(weights));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, kHelp, [&](const example::Options& options) {
    if (options.has("--families")) {
      for (const std::string& name : lathe::test::random_families()) std::printf("%s\n", name.c_str());
      return 0;
    }
    std::vector<std::string> words(argv + 1, argv + argc);
    const auto seed = std::find(words.begin(), words.end(), "--seed");
    if (seed != words.end()) words.erase(seed, std::min(seed + 2, words.end()));
    if (words.size() < 2 || words.size() > 3) throw example::WrongUsage{"expected MODEL TYPE [FILE.gguf]"};
    return write(words, static_cast<uint64_t>(options.number("--seed", 0)));
  });
}
