// ctest: --short
// A small GPT learns to write, character by character, and has to do better than counts of pairs of
// characters.
#include "options.h"

#include <array>
#include <cmath>
#include <fstream>
#include <random>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(char_lm [options] [FILE]: trains a language model on the characters of a text, then lets it write.

  FILE          the text; ../shared/data/text/tinyshakespeare.txt unless given
  --steps N     steps of training, 2000 unless given
  --batch N     windows of text a step, 32 unless given
  --dim N       features of a character, 64 unless given, a multiple of 16
  --layers N    blocks, 2 unless given
  --length N    characters of a window, 64 unless given
  --write N     characters to write at the end, 400 unless given
  --seed N      of all random numbers, 1 unless given
  --short       a test: fewer, smaller steps

Examples:
  char_lm --steps 5000 --dim 128 --layers 4
  char_lm --write 1000 my_mails.txt
)";

struct Sizes {
  int64_t vocabulary, length, dim, layers;
};

struct Block {
  explicit Block(int64_t dim)
      : attention_norm(dim), attention(dim, dim / 16), mlp_norm(dim), up(dim, 4 * dim), down(4 * dim, dim) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(attention_norm(x), {.is_causal = true});
    return y + down(up(mlp_norm(y)).gelu());
  }
  void each(auto&& visit) const {
    visit("attention_norm", attention_norm), visit("attention", attention);
    visit("mlp_norm", mlp_norm), visit("up", up), visit("down", down);
  }
  nn::LayerNorm attention_norm;
  nn::MultiheadAttention attention;
  nn::LayerNorm mlp_norm;
  nn::Linear up, down;
};

struct Gpt {
  explicit Gpt(const Sizes& s)
      : characters(s.vocabulary, s.dim),
        positions(Tensor::normal({s.length, s.dim}, 0, 0.02)),
        norm(s.dim),
        head(s.dim, s.vocabulary) {
    for (int64_t i = 0; i < s.layers; i++) blocks.emplace_back(s.dim);
  }
  // (batch, length) characters to (batch, length, vocabulary) logits of the next ones.
  Tensor operator()(const Tensor& text) const {
    Tensor x = characters(text) + positions;
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
  void each(auto&& visit) const {
    visit("characters", characters), visit("positions", positions);
    visit("blocks", blocks), visit("norm", norm), visit("head", head);
  }
  nn::Embedding characters;
  Tensor positions;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
};

// A text as numbers from 0 to vocabulary-1; the last tenth is held out.
struct Text {
  explicit Text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::array<int, 256> number;
    number.fill(-1);
    for (const char c : bytes) number[static_cast<uint8_t>(c)] = 0;
    for (int c = 0; c < 256; c++) {
      if (number[static_cast<size_t>(c)] < 0) continue;
      number[static_cast<size_t>(c)] = static_cast<int>(alphabet.size());
      alphabet += static_cast<char>(c);
    }
    for (const char c : bytes) ids.push_back(number[static_cast<uint8_t>(c)]);
    train = ids.size() / 10 * 9;
  }
  std::string alphabet;
  std::vector<int32_t> ids;
  size_t train;
};

struct Batch {
  Tensor text, next;  // (batch, length)
};

Batch batch_at(const Text& text, const std::vector<size_t>& starts, int64_t length) {
  std::vector<int32_t> now, next;
  for (const size_t start : starts)
    for (size_t i = start; i < start + static_cast<size_t>(length); i++) {
      now.push_back(text.ids[i]);
      next.push_back(text.ids[i + 1]);
    }
  const lathe::Shape shape{static_cast<int64_t>(starts.size()), length};
  return {Tensor::from(now, shape), Tensor::from(next, shape)};
}

Tensor loss_of(const Gpt& gpt, const Batch& batch) {
  return gpt(batch.text).flatten(0, 1).sparse_categorical_crossentropy(batch.next.flatten());
}

// Nats a character of the held-out text, where counts of pairs in the other part (and one of each) predict
// it.
double bigram_loss(const Text& text) {
  const size_t n = text.alphabet.size();
  std::vector<double> pairs(n * n, 1), firsts(n, static_cast<double>(n));
  for (size_t i = 0; i + 1 < text.train; i++) {
    const auto first = static_cast<size_t>(text.ids[i]);
    pairs[first * n + static_cast<size_t>(text.ids[i + 1])]++;
    firsts[first]++;
  }
  double sum = 0;
  for (size_t i = text.train; i + 1 < text.ids.size(); i++) {
    const auto first = static_cast<size_t>(text.ids[i]);
    sum -= std::log(pairs[first * n + static_cast<size_t>(text.ids[i + 1])] / firsts[first]);
  }
  return sum / static_cast<double>(text.ids.size() - 1 - text.train);
}

// The same by the network, over `batches` batches of windows spread over the held-out text.
double held_out_loss(const Gpt& gpt, const Text& text, int64_t length, int64_t batch, int64_t batches) {
  const size_t room = text.ids.size() - text.train - static_cast<size_t>(length) - 1;
  const size_t windows = static_cast<size_t>(batch * batches);
  double sum = 0;
  for (size_t at = 0; at < windows; at += static_cast<size_t>(batch)) {
    std::vector<size_t> starts;
    for (size_t i = at; i < at + static_cast<size_t>(batch); i++)
      starts.push_back(text.train + room * i / windows);
    sum += loss_of(gpt, batch_at(text, starts, length)).item<float>();
  }
  return sum / static_cast<double>(batches);
}

void train(const Gpt& gpt, const Text& text, int64_t length, int64_t batch, int64_t steps, uint64_t seed) {
  nn::TrainingScope training;
  // Muon for the matrices inside, AdamW for what goes in and out and for vectors.
  const std::vector<Tensor> all = nn::parameters(gpt);
  std::vector<Tensor> inner, outer;
  nn::visit_tensors(gpt, "", [&](const std::string& name, const Tensor& t) {
    (name.starts_with("blocks.") && t.ndim() == 2 ? inner : outer).push_back(t);
  });
  nn::Muon muon(inner);
  nn::AdamW adam(outer, {.b2 = 0.99, .weight_decay = 0.01});
  nn::OptimizerGroup optimizer{muon, adam};
  const nn::LrSchedule rate = nn::warmup(steps / 20, nn::cosine_lr(1, steps - steps / 20, 0.1));

  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> start(0, text.train - static_cast<size_t>(length) - 2);
  lathe::Progress progress("training", steps);
  for (int64_t step = 0; step < steps; step++) {
    std::vector<size_t> starts(static_cast<size_t>(batch));
    for (size_t& s : starts) s = start(random);
    muon.set_lr(0.02 * rate(step));
    adam.set_lr(0.006 * rate(step));
    optimizer.zero_grad();
    const Tensor loss = loss_of(gpt, batch_at(text, starts, length));
    loss.backward();
    nn::clip_grad_norm(all, 1);
    optimizer.step(std::vector{loss});
    progress.update(step + 1, "loss " + std::to_string(loss.item<float>()));
  }
}

std::string write(const Gpt& gpt, const Text& text, int64_t length, int64_t count, uint64_t seed) {
  const size_t n = text.alphabet.size(), window = static_cast<size_t>(length);
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids{text.ids[0]};
  while (ids.size() < static_cast<size_t>(count) + 1) {
    // The last characters, at the start of a window whose rest no prediction sees.
    const size_t known = std::min(ids.size(), window);
    std::vector<int32_t> seen(ids.end() - static_cast<std::ptrdiff_t>(known), ids.end());
    seen.resize(window);
    const Tensor logits = gpt(Tensor::from(seen, lathe::Shape{1, length}));
    const std::vector<float> chances = (logits / 0.8).softmax().to_vector<float>();
    const auto row = chances.begin() + static_cast<std::ptrdiff_t>((known - 1) * n);
    std::discrete_distribution<int32_t> next(row, row + static_cast<std::ptrdiff_t>(n));
    ids.push_back(next(random));
  }
  std::string out;
  for (const int32_t id : ids) out += text.alphabet[static_cast<size_t>(id)];
  return out;
}

int char_lm(const example::Options& options) {
  const bool is_short = options.has("--short");
  const auto path = options.path_or_data("text/tinyshakespeare.txt");
  if (!path) return example::kSkipped;
  const Text text(*path);
  const Sizes sizes{.vocabulary = static_cast<int64_t>(text.alphabet.size()),
                    .length = options.number("--length", is_short ? 32 : 64),
                    .dim = options.number("--dim", is_short ? 48 : 64),
                    .layers = options.number("--layers", is_short ? 1 : 2)};
  if (text.ids.size() < 20 * static_cast<size_t>(sizes.length))
    throw example::WrongUsage{"a text of " + std::to_string(text.ids.size()) + " characters is too short"};
  const int64_t steps = options.number("--steps", is_short ? 150 : 2000);
  const int64_t batch = options.number("--batch", 32);
  const auto seed = static_cast<uint64_t>(options.number("--seed", 1));
  Tensor::manual_seed(static_cast<uint32_t>(seed));
  const Gpt gpt(sizes);
  Tensor::realize(nn::parameters(gpt));

  const double start = lathe::now_seconds();
  train(gpt, text, sizes.length, batch, steps, seed);
  const double bigram = bigram_loss(text), loss = held_out_loss(gpt, text, sizes.length, batch, 8);
  std::printf("%.1f s; nats a character of the held-out text: %.3f, by pairs of characters %.3f\n",
              lathe::now_seconds() - start, loss, bigram);
  std::printf("%s\n",
              write(gpt, text, sizes.length, options.number("--write", is_short ? 60 : 400), seed).c_str());
  return example::expect(loss < bigram, "the network predicts better than pairs of characters") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, char_lm); }
