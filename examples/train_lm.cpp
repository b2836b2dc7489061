// ctest: --short
// Trains a language model from nothing: it learns a vocabulary from texts, then a model in the shape of
// Llama, and writes both as a GGUF file with 8-bit weights. The model that lathe carries was made by it
// (data/model).
#include "base/hash.h"
#include "base/mmap.h"
#include "llm/likelihood.h"
#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/train_bpe.h"
#include "options.h"
#include "train_lm/batches.h"
#include "train_lm/corpus.h"
#include "train_lm/gguf_export.h"
#include "train_lm/kneser_ney.h"
#include "train_lm/llama.h"
#include "train_lm/loss_plot.h"

#include <unistd.h>

#include <map>
#include <random>

using namespace train_lm;

namespace {

constexpr const char* kHelp =
    R"(train_lm [options] [FILE|FOLDER]: trains a small language model on texts, and writes it as a GGUF file.

  FILE|FOLDER    a text, or a folder of *.txt; the books and plays of ../shared/data/text unless given
  --out DIR      folder for checkpoint.safetensors, model.gguf, loss.svg and results.md; train_lm unless given
  --resume       go on from the checkpoint in that folder; the result is that of a run without a break. With
                 another --steps the learning rate goes on as it is at this step of so many
  --stop N       stop after step N with a checkpoint, as if the run had been ended there
  --vocab N      tokens, 4096 unless given
  --dim N        features of a token, 192 unless given, a multiple of 32 times the number of groups of heads
  --layers N     blocks, 6 unless given
  --hidden N     features inside of a feed-forward part, 512 unless given, a multiple of 32
  --length N     tokens of a window, 256 unless given
  --batch N      windows a step, 8 unless given
  --steps N      steps of training, 6000 unless given
  --adamw        AdamW for all parameters; unless given Muon takes the matrices of the blocks
  --rate N       learning rate of AdamW in millionths, 3000 unless given
  --muon-rate N  of Muon likewise, 20000 unless given
  --every N      steps between checkpoints and measurements, 250 unless given
  --seed N       of all random numbers, 1 unless given
  --short        a test: a tiny model, two runs of a few steps, one of them resumed

Examples:
  train_lm --out my_model
  train_lm --steps 500 --layers 2 my_mails.txt
  train_lm --out my_model --resume
)";

struct Settings {
  std::filesystem::path out;
  Sizes sizes;
  int64_t batch, steps, every;
  bool adamw;
  double rate, muon_rate;
  uint64_t seed;
};

Settings settings_of(const example::Options& o) {
  const bool is_short = o.has("--short");
  Settings s{.out = o.text("--out", "train_lm"),
             .sizes = {.vocabulary = o.number("--vocab", is_short ? 320 : 4096),
                       .length = o.number("--length", is_short ? 32 : 256),
                       .dim = o.number("--dim", is_short ? 64 : 192),
                       .layers = o.number("--layers", is_short ? 2 : 6),
                       .heads = 0,
                       .kv_heads = 0,
                       .hidden = o.number("--hidden", is_short ? 96 : 512)},
             .batch = o.number("--batch", 8),
             .steps = o.number("--steps", is_short ? 8 : 6000),
             .every = std::max<int64_t>(o.number("--every", is_short ? 4 : 250), 1),
             .adamw = o.has("--adamw"),
             .rate = 1e-6 * static_cast<double>(o.number("--rate", 3000)),
             .muon_rate = 1e-6 * static_cast<double>(o.number("--muon-rate", 20000)),
             .seed = static_cast<uint64_t>(o.number("--seed", 1))};
  constexpr int64_t kHead = 32;
  if (s.sizes.dim < 2 * kHead || s.sizes.dim % kHead != 0 || s.sizes.hidden < 32 || s.sizes.hidden % 32 != 0)
    throw example::WrongUsage{"--dim and --hidden want multiples of 32, --dim at least 64"};
  if (s.sizes.length < 8 || s.sizes.layers < 1 || s.batch < 1 || s.steps < 1)
    throw example::WrongUsage{"--length wants at least 8, --layers, --batch and --steps at least 1"};
  if (s.sizes.vocabulary < 300 || s.sizes.vocabulary > 65536)
    throw example::WrongUsage{"--vocab wants 300 to 65536"};
  s.sizes.heads = s.sizes.dim / kHead;
  s.sizes.kv_heads = s.sizes.heads % 3 == 0   ? s.sizes.heads / 3
                     : s.sizes.heads % 4 == 0 ? s.sizes.heads / 4
                                              : 1;
  return s;
}

// What is trained on, as tokens.
struct Data {
  lathe::Tokenizer tokenizer;
  std::vector<int32_t> train, held_out;
  size_t held_out_bytes;
};

std::optional<Corpus> read_corpus(const example::Options& o) {
  std::vector<std::string> paths;
  if (const auto given = o.path()) {
    if (std::filesystem::is_directory(*given))
      for (const auto& entry : std::filesystem::directory_iterator(*given))
        if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
    if (!std::filesystem::is_directory(*given)) paths.push_back(*given);
    std::sort(paths.begin(), paths.end());
  } else {
    const auto folder = example::data("text");
    if (!folder) return std::nullopt;
    for (const char* name : {"bronte", "darwin", "dubois", "tinyshakespeare"})
      paths.push_back(*folder + "/" + name + ".txt");
  }
  Corpus corpus;
  for (const std::string& path : paths) {
    const std::string text = lathe::read_file(path);
    // A test has the beginning of each text.
    add_text(corpus, o.has("--short") ? std::string_view(text).substr(0, 100'000) : std::string_view(text));
  }
  return corpus;
}

Data tokenize(const Corpus& corpus, const Settings& s) {
  lathe::TrainBpeOptions options;
  options.vocabulary = static_cast<size_t>(s.sizes.vocabulary);
  options.control_tokens.assign(kControlTokens.begin(), kControlTokens.end());
  const double start = lathe::now_seconds();
  lathe::Vocabulary vocabulary = lathe::train_bpe(plain_parts(corpus.train), options);
  const auto id = [&](std::string_view name) {
    return static_cast<int32_t>(std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), name) -
                                vocabulary.tokens.begin());
  };
  vocabulary.bos = vocabulary.padding = id(kEndOfText), vocabulary.eos = id(kEndOfTurn);
  vocabulary.add_bos = false;
  lathe::Tokenizer tokenizer(std::move(vocabulary));
  const lathe::EncodeOptions whole{.add_special = false, .parse_special = true};
  Data data{tokenizer, tokenizer.encode(corpus.train, whole), tokenizer.encode(corpus.held_out, whole),
            corpus.held_out.size()};
  if (tokenizer.decode(data.held_out, {.show_special = true}) != corpus.held_out)
    throw lathe::UserError(lathe::UserError::Kind::Runtime, "the vocabulary does not give a text back");
  std::printf("%.1f s; %zu tokens of vocabulary, %zu to train on, %zu held out (%.2f bytes each)\n",
              lathe::now_seconds() - start, static_cast<size_t>(tokenizer.size()), data.train.size(),
              data.held_out.size(),
              static_cast<double>(data.held_out_bytes) / static_cast<double>(data.held_out.size()));
  std::fflush(stdout);
  return data;
}

// A model, what trains it, and how far that is.
class Training {
 public:
  Training(const Settings& s, const Data& data)
      : settings_(s),
        text_(data.train, s.sizes.length, s.batch),
        held_out_(data.held_out, s.sizes.length, s.batch),
        data_hash_(lathe::to_hex(lathe::hash_bytes(data.train.data(), data.train.size() * sizeof(int32_t)))) {
    if (text_.batches() < 2 || held_out_.batches() < 1)
      throw example::WrongUsage{
          fmt::format("texts of {} and {} tokens are too short for batches of {} windows of {} tokens; "
                      "choose a smaller --batch",
                      data.train.size(), data.held_out.size(), s.batch, s.sizes.length)};
    lathe::Tensor::manual_seed(static_cast<uint32_t>(s.seed));
    model_.emplace(s.sizes);
    Tensor::realize(nn::parameters(*model_));
    std::vector<Tensor> inner, outer;
    nn::visit_tensors(*model_, "", [&](const std::string& name, const Tensor& t) {
      (!s.adamw && name.starts_with("blk.") && t.ndim() == 2 ? inner : outer).push_back(t);
    });
    adamw_.emplace(outer, nn::AdamOptions{.lr = s.rate, .b1 = 0.9, .b2 = 0.95, .weight_decay = 0.01});
    if (!inner.empty()) muon_.emplace(inner, nn::Muon::Options{.lr = s.muon_rate, .weight_decay = 0.01});
  }

  int64_t step() const { return static_cast<int64_t>(losses_.size()); }
  const Llama& model() const { return *model_; }
  double tokens_per_second() const { return tokens_per_second_; }

  // Goes on to step `last`, with a measurement and a checkpoint now and then.
  void run(int64_t last) {
    nn::TrainingScope training;
    const std::vector<Tensor> all = nn::parameters(*model_);
    auto take_step = lathe::jit([&](const Tensor& tokens, const Tensor& next) {
      adamw_->zero_grad();
      if (muon_) muon_->zero_grad();
      const Tensor loss = model_->loss(tokens, next);
      loss.backward();
      const Tensor norm = nn::clip_grad_norm(all, 1);
      if (muon_)
        nn::OptimizerGroup{*muon_, *adamw_}.step(std::vector{loss, norm});
      else
        adamw_->step(std::vector{loss, norm});
      return loss;
    });
    const int64_t warm = std::max<int64_t>(settings_.steps / 25, 1);
    const nn::LrSchedule rate =
        nn::warmup(warm, nn::cosine_lr(1, std::max<int64_t>(settings_.steps - warm, 1), 0.05));
    lathe::Progress progress("training", settings_.steps);
    double start = lathe::now_seconds();
    for (int64_t i = step(); i < last; i++) {
      adamw_->set_lr(settings_.rate * rate(i));
      if (muon_) muon_->set_lr(settings_.muon_rate * rate(i));
      const Batch batch = text_.of_step(i, settings_.seed);
      losses_.push_back(take_step(batch.tokens, batch.next).item<float>());
      progress.update(i + 1, fmt::format("loss {:.3f}", losses_.back()));
      if ((i + 1) % settings_.every != 0 && i + 1 != last) continue;
      const double seconds = lathe::now_seconds() - start;
      const auto steps = static_cast<double>((i % settings_.every) + 1);
      tokens_per_second_ = steps * static_cast<double>(settings_.batch * settings_.sizes.length) / seconds;
      validation_.push_back(static_cast<float>(i + 1));
      validation_.push_back(static_cast<float>(held_out_loss(16)));
      save();
      std::printf("step %d: loss %.3f, held out %.3f, %.0f tokens/s\n", static_cast<int>(i + 1),
                  losses_.back(), validation_.back(), tokens_per_second_);
      std::fflush(stdout);
      start = lathe::now_seconds();
    }
  }

  // Nats a token of the held-out text, of at most `most` batches spread over it.
  double held_out_loss(int64_t most = INT64_MAX) {
    const int64_t all = held_out_.batches(), count = std::min(all, most);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
      const Batch batch = held_out_.in_order(i * all / count);
      sum += measure_(batch.tokens, batch.next).item<float>();
    }
    return sum / static_cast<double>(count);
  }
  // The same of the first batch alone.
  double first_held_out_loss() {
    const Batch batch = held_out_.in_order(0);
    return measure_(batch.tokens, batch.next).item<float>();
  }
  // Tokens that held_out_loss() predicts: from the second on.
  size_t held_out_tokens() const {
    return static_cast<size_t>(held_out_.batches() * settings_.batch * settings_.sizes.length);
  }

  std::filesystem::path checkpoint() const { return settings_.out / "checkpoint.safetensors"; }
  void save() const {
    lathe::NamedTensors state = named_state();
    state.emplace_back("history.loss", Tensor::from(losses_));
    state.emplace_back("history.held_out", Tensor::from(validation_));
    lathe::safe_save(state, checkpoint().string(), {{"settings", settings_text()}});
  }
  void load() {
    const std::string path = checkpoint().string();
    for (const auto& [key, value] : lathe::safe_load_metadata(path))
      if (key == "settings" && value != settings_text())
        throw lathe::UserError(lathe::UserError::Kind::Value,
                               fmt::format("{} is of a training with other settings:\n  {}\nnow:\n  {}", path,
                                           value, settings_text()));
    lathe::NamedTensors values;
    for (const auto& [name, t] : lathe::safe_load(path)) {
      if (name == "history.loss")
        losses_ = t.to_vector<float>();
      else if (name == "history.held_out")
        validation_ = t.to_vector<float>();
      else
        values.emplace_back(name, t.clone().realize());  // training writes into them, and not into the file
    }
    nn::load_state(named_state(), values);
  }

  std::string plot(double baseline) const {
    std::vector<Point> held_out;
    for (size_t i = 0; i + 1 < validation_.size(); i += 2)
      held_out.push_back({validation_[i], validation_[i + 1]});
    const size_t window = std::max<size_t>(losses_.size() / 200, 1);
    return loss_plot({{"training", "#5b8bd0", smoothed(losses_, window)}, {"held out", "#c0392b", held_out}},
                     "counts of four tokens", baseline, static_cast<double>(settings_.steps));
  }

 private:
  lathe::NamedTensors named_state() const {
    lathe::NamedTensors out = nn::state_dict(*model_, "model");
    for (auto& named : nn::state_dict(*adamw_, "adamw")) out.push_back(std::move(named));
    if (muon_)
      for (auto& named : nn::state_dict(*muon_, "muon")) out.push_back(std::move(named));
    return out;
  }
  // What decides the next step beside the state; but the number of steps, and with it the schedule, may
  // change.
  std::string settings_text() const {
    const Sizes& s = settings_.sizes;
    return fmt::format(
        "vocab {} length {} dim {} layers {} hidden {} batch {} seed {} rate {} muon {} text {}",
        s.vocabulary, s.length, s.dim, s.layers, s.hidden, settings_.batch, settings_.seed, settings_.rate,
        settings_.adamw ? 0 : settings_.muon_rate, data_hash_);
  }

  Settings settings_;
  Windows text_, held_out_;
  std::string data_hash_;
  std::optional<Llama> model_;
  std::optional<nn::AdamW> adamw_;
  std::optional<nn::Muon> muon_;
  std::vector<float> losses_, validation_;  // of every step; (step, loss) pairs
  double tokens_per_second_ = 0;
  lathe::Jit<std::function<Tensor(const Tensor&, const Tensor&)>> measure_{
      [this](const Tensor& tokens, const Tensor& next) { return model_->loss(tokens, next); }};
};

// What the model writes after `prompt`, at temperature 0.8, up to `count` tokens or the end of a text.
std::string write(const Llama& model, const lathe::Tokenizer& tokenizer, const Settings& s,
                  const std::string& prompt, int64_t count) {
  auto predict = lathe::jit([&](const Tensor& tokens) { return (model(tokens) / 0.8).softmax(); });
  std::vector<int32_t> ids = tokenizer.encode(prompt, {.add_special = false, .parse_special = true});
  const size_t given = ids.size(), window = static_cast<size_t>(s.sizes.length);
  const auto n = static_cast<std::ptrdiff_t>(s.sizes.vocabulary);
  std::mt19937_64 random(s.seed);
  while (ids.size() < given + static_cast<size_t>(count)) {
    // The last tokens, at the start of a window whose rest no prediction sees.
    const size_t known = std::min(ids.size(), window);
    std::vector<int32_t> seen(ids.end() - static_cast<std::ptrdiff_t>(known), ids.end());
    seen.resize(window);
    const std::vector<float> chances =
        predict(Tensor::from(seen, lathe::Shape{1, s.sizes.length}).realize()).to_vector<float>();
    const auto row = chances.begin() + static_cast<std::ptrdiff_t>(known - 1) * n;
    const int32_t next = std::discrete_distribution<int32_t>(row, row + n)(random);
    if (tokenizer.is_end_of_generation(next)) break;
    ids.push_back(next);
  }
  return tokenizer.decode(std::vector<int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(given), ids.end()));
}

struct Verdict {
  bool beats_counts, file_is_right;
};

// Nats a token of the first `windows` windows of a text, by the model in a GGUF file.
double loss_of_file(const std::string& path, std::span<const int32_t> text, int64_t length, int64_t windows) {
  lathe::LanguageModel model = lathe::LanguageModel::load(path);
  lathe::LossMean mean;
  const auto size = static_cast<size_t>(length);
  for (size_t start = 0; start < size * static_cast<size_t>(windows); start += size) {
    const std::vector<float> logits = model.logits(text.subspan(start, size));
    const size_t vocabulary = logits.size() / size;
    for (size_t i = 0; i < size; i++)
      mean.add(lathe::token_loss(std::span(logits).subspan(i * vocabulary, vocabulary), text[start + i + 1]));
  }
  return mean.mean();
}

// Losses and samples for a model card; the model and its picture as files. Whether the model beats the
// counts.
Verdict report(Training& training, const Data& data, const Settings& s) {
  const double baseline = KneserNey(data.train, static_cast<size_t>(s.sizes.vocabulary))
                              .loss(data.held_out, 1, training.held_out_tokens() + 1);
  const double loss = training.held_out_loss();
  const auto row = [&](std::string_view what, double nats) {
    const double bits = nats / std::log(2) * static_cast<double>(data.held_out.size()) /
                        static_cast<double>(data.held_out_bytes);
    return fmt::format("| {} | {:.4f} | {:.1f} | {:.3f} |\n", what, nats, std::exp(nats), bits);
  };
  const int64_t tokens = training.step() * s.batch * s.sizes.length;
  std::string text = fmt::format(
      "## Results\n\n{} of {} steps of {} tokens, {:.2f} times the {} tokens of the training text; "
      "vocabulary {}, {} "
      "blocks of {} features.\n\n| {} held-out tokens | nats a token | perplexity | bits a byte |\n"
      "|---|---|---|---|\n",
      training.step(), s.steps, s.batch * s.sizes.length,
      static_cast<double>(tokens) / static_cast<double>(data.train.size()), data.train.size(),
      s.sizes.vocabulary, s.sizes.layers, s.sizes.dim, training.held_out_tokens());
  const std::string file = (s.out / "model.gguf").string();
  export_gguf(training.model(), s.sizes, data.tokenizer.vocabulary(),
              {.steps = training.step(), .tokens = tokens, .loss = loss, .baseline = baseline}, file);
  const double first = training.first_held_out_loss();
  const double of_file = loss_of_file(file, data.held_out, s.sizes.length, s.batch);
  text += row("model", loss) + row("counts of four tokens (Kneser-Ney)", baseline);
  text += row("model on the first batch of them", first) +
          row("the same from the GGUF file, with Q8_0 weights", of_file);
  text += "\n![losses](loss.svg)\n\nSamples at temperature 0.8, none left out:\n\n";
  for (const char* prompt : {"It was a cold morning, and", "The origin of species", "The school was built",
                             "<|im_start|>user\nWho are you, my lord?<|im_end|>\n<|im_start|>assistant\n"})
    text +=
        fmt::format("```text\n{}>>>{}\n```\n\n", prompt,
                    write(training.model(), data.tokenizer, s, prompt, s.sizes.vocabulary < 1000 ? 8 : 120));
  std::printf("%s", text.c_str());
  lathe::write_file_atomically((s.out / "results.md").string(), text);
  lathe::write_file_atomically((s.out / "loss.svg").string(), training.plot(baseline));
  return {.beats_counts = loss < baseline, .file_is_right = std::abs(of_file - first) < 0.02};
}

// Two runs, one of them with a break, end with the same bytes, and with files that hold the model.
bool resumes_exactly(const Settings& s, const Data& data) {
  std::map<bool, std::string> ends;
  for (const bool is_broken : {false, true}) {
    std::filesystem::remove_all(s.out);
    std::filesystem::create_directories(s.out);
    for (int64_t last = is_broken ? s.every : s.steps; last <= s.steps; last += s.every) {
      Training training(s, data);
      if (training.step() == 0 && std::filesystem::exists(training.checkpoint())) training.load();
      training.run(last);
      ends[is_broken] = lathe::read_file(training.checkpoint().string());
      if (last == s.steps && !report(training, data, s).file_is_right) return false;
    }
  }
  return ends[false] == ends[true];
}

int train(const example::Options& options) {
  Settings s = settings_of(options);
  const auto corpus = read_corpus(options);
  if (!corpus) return example::kSkipped;
  const Data data = tokenize(*corpus, s);
  s.sizes.vocabulary = data.tokenizer.size();
  if (options.has("--short")) {
    s.out = std::filesystem::temp_directory_path() / fmt::format("lathe_train_lm_{}", ::getpid());
    const bool same = resumes_exactly(s, data);
    std::filesystem::remove_all(s.out);
    return example::expect(same,
                           "a run that is resumed ends as one without a break, and files hold the model")
               ? 0
               : 1;
  }
  std::filesystem::create_directories(s.out);
  Training training(s, data);
  const bool has_checkpoint = std::filesystem::exists(training.checkpoint());
  if (has_checkpoint != options.has("--resume"))
    throw example::WrongUsage{training.checkpoint().string() +
                              (has_checkpoint ? " exists: --resume goes on with it" : " does not exist")};
  if (has_checkpoint) training.load();
  int64_t parameters = 0;
  for (const Tensor& t : nn::parameters(training.model())) parameters += t.numel().value();
  std::printf("%.2f million parameters; from step %d of %d\n", 1e-6 * static_cast<double>(parameters),
              static_cast<int>(training.step()), static_cast<int>(s.steps));
  training.run(std::min(options.number("--stop", s.steps), s.steps));
  const Verdict verdict = report(training, data, s);
  const bool is_good = example::expect(verdict.beats_counts || training.step() < s.steps,
                                       "the model predicts better than counts");
  return example::expect(verdict.file_is_right, "the file predicts as the model does") && is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, train); }
