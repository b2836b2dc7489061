#include "llm/evaluator.h"

#include "base/error.h"

#include <algorithm>

namespace lathe {
namespace {

// Rows of graphs: few, so that few are compiled, and a call is padded to the next.
constexpr int64_t kRows[] = {1, 8, 32, 128, 512, 2048};

}  // namespace

int64_t largest_call(const EvaluatorOptions& options) {
  int64_t out = 1;
  for (const int64_t rows : kRows)
    if (rows <= options.chunk && (out < options.context)) out = rows;
  return out;
}

WindowCache window_cache(int64_t window, const EvaluatorOptions& options) {
  const int64_t all = key_blocks(cache_positions(options)), call = largest_call(options);
  // Wherever the blocks begin: what the next row sees, and what all rows of a call do.
  const int64_t kept = key_blocks(window) + 1, read = key_blocks(window + call - 1) + 1;
  // Room for two calls, so that texts are cut back by less without a checkpoint.
  const int64_t blocks = kept + 2 * key_blocks(call);
  if (window == 0) return {};
  if (blocks >= all) return {window, all, 0, std::min(read, all)};
  return {window, blocks, kept, read};
}

Evaluator::Evaluator(const Model& model, const EvaluatorOptions& options)
    : model_(model),
      options_(options),
      window_(window_cache(model.config().window(), options)),
      state_(model.make_state(
          {cache_positions(options), window_.blocks * kKeyBlock, options.kv_type, options.device})),
      start_("start", 0, options.context - 1),
      count_("count", 1, largest_call(options)),
      key_blocks_("key_blocks", 1, key_blocks(cache_positions(options))),
      window_at_("window_at", 0, window_.blocks * kKeyBlock - 1),
      window_first_("window_first", 0, window_.blocks - window_.read),
      window_blocks_("window_blocks", 1, window_.read),
      kept_first_("kept_first", 0, window_.blocks - window_.kept),
      reset_([this] {
        std::vector<Tensor> done;
        for (Tensor& t : recurrent_) done.push_back(t.assign(t.const_like(0)));
        Tensor::realize(done);
      }),
      save_([this](V first) {
        std::vector<Tensor> out;
        for (const Tensor& t : recurrent_) out.push_back(t.clone());
        if (!window_.kept) return out;
        for (const Tensor& t : windows_)
          out.push_back(
              t.unflatten(1, {-1, kKeyBlock}).at(Slice{}, Slice{first, first + window_.kept}).contiguous());
        return out;
      }),
      restore_([this](const std::vector<Tensor>& saved) {
        std::vector<Tensor> done;
        for (size_t i = 0; i < saved.size(); i++) {
          if (i < recurrent_.size()) {
            done.push_back(recurrent_[i].assign(saved[i]));
            continue;
          }
          Tensor& t = windows_[i - recurrent_.size()];
          t.set({Slice{}, Slice{0, window_.kept * kKeyBlock}}, saved[i].flatten(1, 2));
          done.push_back(t);
        }
        Tensor::realize(done);
      }) {
  for (const LayerState& layer : state_) {
    recurrent_.insert(recurrent_.end(), layer.recurrent.begin(), layer.recurrent.end());
    windows_.insert(windows_.end(), layer.window.begin(), layer.window.end());
  }
  int64_t bytes = 0;
  for (const Tensor& t : recurrent_) bytes += t.nbytes().value();
  for (const Tensor& t : windows_) bytes += t.nbytes().value() / window_.blocks * window_.kept;
  if (bytes > 0) most_checkpoints_ = std::min(options.checkpoints, options.checkpoint_bytes / bytes);
}

Evaluator::Graph& Evaluator::graph(int64_t rows, Logits logits) {
  const auto found = graphs_.find({rows, logits});
  if (found != graphs_.end()) return found->second;
  const auto run = [this, rows, logits](const Tensor& tokens, V start, V count, V blocks, V window_at,
                                        V window_first, V window_blocks) {
    const Step step{.rows = rows,
                    .start = start,
                    .count = rows == 1 ? SInt(1) : SInt(count),
                    .full = {start, 0, blocks},
                    .window = {window_at, window_first, window_blocks}};
    const Tensor out = model_.forward(tokens, step, state_, logits).contiguous();
    if (logits == Logits::All) return std::vector<Tensor>{out};
    return std::vector<Tensor>{out, out.argmax(0, true)};
  };
  return graphs_.emplace(std::pair(rows, logits), Graph(run)).first->second;
}

std::vector<Tensor> Evaluator::call(int64_t rows, std::span<const int32_t> tokens, const Tensor& input,
                                    Logits logits) {
  const int64_t start = static_cast<int64_t>(live_.size()), count = static_cast<int64_t>(tokens.size());
  CHECK(recurrent_.empty() || recurrent_at_ == start);
  if (window_.kept && start - window_start_ + rows > window_.blocks * kKeyBlock)
    restore(copy_state(), std::vector(live_));
  recurrent_at_ = -1;
  const int64_t at = window_.window ? start - window_start_ : 0;
  const int64_t seen = std::max<int64_t>(0, at - window_.window + 1) / kKeyBlock;
  const int64_t first = std::min(seen, window_.blocks - window_.read);
  const int64_t last = std::min(key_blocks(at + rows), first + window_.read);
  std::vector<Tensor> out = graph(rows, logits)(
      input, start_.bind(start), count_.bind(count), key_blocks_.bind(key_blocks(start + rows)),
      window_at_.bind(at), window_first_.bind(first), window_blocks_.bind(last - first));
  live_.insert(live_.end(), tokens.begin(), tokens.end());
  recurrent_at_ = start + count;
  return out;
}

std::vector<std::pair<int64_t, int64_t>> Evaluator::calls(int64_t n) const {
  const int64_t most = largest_call(options_);
  std::vector<std::pair<int64_t, int64_t>> out;
  while (n > 0) {
    int64_t below = 1, rows = 1;
    for (const int64_t size : kRows) {
      if (size > most) break;
      rows = size;
      if (size >= n) break;
      below = size;
    }
    // Many rows cost as much as their number, few as much as reading the weights.
    constexpr int64_t kCheap = 32;
    if (rows > kCheap && n <= rows / 2) rows = below;
    out.emplace_back(rows, std::min(n, rows));
    n -= out.back().second;
  }
  return out;
}

void Evaluator::check(std::span<const int32_t> tokens) const {
  if (tokens.empty()) value_error("there are no tokens to evaluate; a text begins with at least one");
  if (static_cast<int64_t>(tokens.size()) > options_.context)
    value_error("{} tokens do not fit into a context of {}", tokens.size(), options_.context);
  for (const int32_t token : tokens)
    if (token < 0 || token >= model_.config().vocabulary)
      value_error("token {} is none of the {} of the vocabulary", token, model_.config().vocabulary);
}

int64_t Evaluator::resume(std::span<const int32_t> tokens) {
  const std::span<const int32_t> front = tokens.first(tokens.size() - 1);
  const auto shared = static_cast<int64_t>(
      std::mismatch(front.begin(), front.end(), live_.begin(), live_.end()).first - front.begin());
  int64_t start = recurrent_.empty() ? shared : std::min(shared, recurrent_at_);
  if (!can_go_on_after(start)) start = 0;
  const Checkpoint* back = nullptr;
  for (const Checkpoint& c : checkpoints_)
    if (c.length <= shared && c.length > start) back = &c, start = c.length;
  const auto length = static_cast<size_t>(start);
  if (back) {
    restore(*back, tokens.first(length));
  } else {
    live_.resize(length);
    if (!recurrent_.empty() && recurrent_at_ != start) {
      recurrent_at_ = -1;
      reset_();
      recurrent_at_ = 0;
    }
    if (start == 0) window_start_ = 0;
  }
  std::erase_if(checkpoints_, [&](const Checkpoint& c) { return c.length > start; });
  return start;
}

bool Evaluator::can_go_on_after(int64_t n) const {
  const bool sees_all = window_start_ == 0 || n - window_.window + 1 >= window_start_;
  return n >= 0 && sees_all && (recurrent_.empty() || recurrent_at_ == n);
}

Evaluator::Checkpoint Evaluator::copy_state() {
  const auto length = static_cast<int64_t>(live_.size());
  const int64_t used = key_blocks(length - window_start_);
  const int64_t first = window_.kept ? std::max<int64_t>(0, used - window_.kept) : 0;
  return {length, window_start_ + first * kKeyBlock, save_(kept_first_.bind(first))};
}

void Evaluator::restore(const Checkpoint& checkpoint, std::span<const int32_t> tokens) {
  live_.clear();
  recurrent_at_ = -1;
  window_start_ = 0;
  restore_(checkpoint.state);
  live_.assign(tokens.begin(), tokens.end());
  recurrent_at_ = checkpoint.length;
  window_start_ = checkpoint.window_start;
}

void Evaluator::save_checkpoint() {
  if (most_checkpoints_ < 1) return;
  const auto length = static_cast<int64_t>(live_.size());
  if (!checkpoints_.empty() && checkpoints_.back().length == length) return;
  if (static_cast<int64_t>(checkpoints_.size()) >= most_checkpoints_)
    checkpoints_.erase(checkpoints_.begin());
  checkpoints_.push_back(copy_state());
}

Prediction Evaluator::evaluate(std::span<const int32_t> tokens, int64_t* reused) {
  check(tokens);
  const int64_t start = resume(tokens);
  if (reused) *reused = start;
  int64_t at = start;
  std::vector<Tensor> out;
  const auto all = calls(static_cast<int64_t>(tokens.size()) - start);
  for (size_t i = 0; i < all.size(); i++) {
    const auto [rows, count] = all[i];
    const std::span<const int32_t> part = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    std::vector<int32_t> padded(part.begin(), part.end());
    padded.resize(static_cast<size_t>(rows));
    const Tensor input = Tensor::from(padded, {.device = options_.device}).realize();
    out = call(rows, part, input, Logits::Last);
    at += count;
    const int64_t last = checkpoints_.empty() ? 0 : checkpoints_.back().length;
    if (i + 2 >= all.size() || at - last >= options_.checkpoint_spacing) save_checkpoint();
  }
  return {out[0], out[1]};
}

Prediction Evaluator::append(int32_t token, const Tensor& next) {
  if (static_cast<int64_t>(live_.size()) >= options_.context)
    value_error("the context of {} positions is full", options_.context);
  if (live_.empty()) checkpoints_.clear();  // of a text that this one does not begin like
  std::vector<Tensor> out = call(1, {&token, 1}, next, Logits::Last);
  return {out[0], out[1]};
}

Prediction Evaluator::append(int32_t token) {
  check({&token, 1});
  return append(token, Tensor::from(std::vector<int32_t>{token}, {.device = options_.device}).realize());
}

std::vector<float> Evaluator::all_logits(std::span<const int32_t> tokens) {
  check(tokens);
  clear();
  resume(tokens.first(1));
  std::vector<float> out;
  for (const auto& [rows, count] : calls(static_cast<int64_t>(tokens.size()))) {
    const std::span<const int32_t> part = tokens.subspan(live_.size(), static_cast<size_t>(count));
    std::vector<int32_t> padded(part.begin(), part.end());
    padded.resize(static_cast<size_t>(rows));
    const Tensor input = Tensor::from(padded, {.device = options_.device}).realize();
    const std::vector<float> values = call(rows, part, input, Logits::All)[0].to_vector<float>();
    out.insert(out.end(), values.begin(), values.begin() + count * model_.config().vocabulary);
  }
  return out;
}

void Evaluator::clear() {
  live_.clear();
  checkpoints_.clear();
  recurrent_at_ = -1;
  window_start_ = 0;
}

void Evaluator::warm() {
  constexpr int kCalls = 3;  // one runs, one captures, one replays
  for (const int64_t rows : kRows) {
    if (rows > largest_call(options_)) break;
    const std::vector<int32_t> tokens(static_cast<size_t>(std::min(rows, options_.context)));
    for (int i = 0; i < kCalls; i++) {
      clear();
      resume({tokens.data(), 1});
      const Tensor input =
          Tensor::from(std::vector<int32_t>(static_cast<size_t>(rows)), {.device = options_.device})
              .realize();
      const std::vector<Tensor> out = call(rows, tokens, input, Logits::Last);
      Tensor::realize(out);
      if (!recurrent_.empty() || window_.kept) restore(copy_state(), tokens);
    }
  }
  clear();
}

}  // namespace lathe
