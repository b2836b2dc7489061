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

Evaluator::Evaluator(const Model& model, const EvaluatorOptions& options)
    : model_(model),
      options_(options),
      state_(model.make_state({cache_positions(options), options.kv_type, options.device})),
      is_recurrent_(model.config().is_recurrent()),
      start_("start", 0, options.context - 1),
      count_("count", 1, largest_call(options)),
      key_blocks_("key_blocks", 1, key_blocks(cache_positions(options))),
      reset_([this] {
        std::vector<Tensor> done;
        for (Tensor t : recurrent_state()) done.push_back(t.assign(t.const_like(0)));
        Tensor::realize(done);
      }),
      save_([this] {
        std::vector<Tensor> out;
        for (const Tensor& t : recurrent_state()) out.push_back(t.clone());
        return out;
      }),
      restore_([this](const std::vector<Tensor>& saved) {
        std::vector<Tensor> done = recurrent_state();
        for (size_t i = 0; i < done.size(); i++) done[i].assign(saved[i]);
        Tensor::realize(done);
      }) {}

std::vector<Tensor> Evaluator::recurrent_state() const {
  std::vector<Tensor> out;
  for (const LayerState& layer : state_)
    out.insert(out.end(), layer.recurrent.begin(), layer.recurrent.end());
  return out;
}

Evaluator::Graph& Evaluator::graph(int64_t rows, Logits logits) {
  const auto found = graphs_.find({rows, logits});
  if (found != graphs_.end()) return found->second;
  const auto run = [this, rows, logits](const Tensor& tokens, const Variable& start, const Variable& count,
                                        const Variable& blocks) {
    const Step step{rows, start, rows == 1 ? SInt(1) : SInt(count), blocks};
    const Tensor out = model_.forward(tokens, step, state_, logits).contiguous();
    if (logits == Logits::All) return std::vector<Tensor>{out};
    return std::vector<Tensor>{out, out.argmax(0, true)};
  };
  return graphs_.emplace(std::pair(rows, logits), Graph(run)).first->second;
}

std::vector<Tensor> Evaluator::call(int64_t rows, std::span<const int32_t> tokens, const Tensor& input,
                                    Logits logits) {
  const int64_t start = static_cast<int64_t>(live_.size()), count = static_cast<int64_t>(tokens.size());
  CHECK(!is_recurrent_ || recurrent_at_ == start);
  if (is_recurrent_) recurrent_at_ = -1;
  std::vector<Tensor> out = graph(rows, logits)(input, start_.bind(start), count_.bind(count),
                                                key_blocks_.bind(key_blocks(start + rows)));
  live_.insert(live_.end(), tokens.begin(), tokens.end());
  if (is_recurrent_) recurrent_at_ = start + count;
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
  int64_t start = shared;
  const Checkpoint* back = nullptr;
  if (is_recurrent_) {
    start = recurrent_at_ >= 0 && recurrent_at_ <= shared ? recurrent_at_ : 0;
    for (const Checkpoint& c : checkpoints_)
      if (c.length <= shared && c.length > start) back = &c, start = c.length;
  }
  live_.resize(static_cast<size_t>(start));
  const auto stale = [&](const Checkpoint& c) { return c.length > start; };
  if (is_recurrent_ && recurrent_at_ != start) {
    recurrent_at_ = -1;
    if (back)
      restore_(back->state);
    else
      reset_();
    recurrent_at_ = start;
  }
  std::erase_if(checkpoints_, stale);
  return start;
}

void Evaluator::save_checkpoint() {
  const auto length = static_cast<int64_t>(live_.size());
  if (!is_recurrent_ || options_.checkpoints < 1) return;
  if (!checkpoints_.empty() && checkpoints_.back().length == length) return;
  if (static_cast<int64_t>(checkpoints_.size()) >= options_.checkpoints)
    checkpoints_.erase(checkpoints_.begin());
  checkpoints_.push_back({length, save_()});
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
      save_checkpoint();
      if (is_recurrent_) restore_(checkpoints_.back().state);
    }
  }
  clear();
}

}  // namespace lathe
