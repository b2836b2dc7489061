// Windows of a text of tokens, in the order that training and measuring take them.
#pragma once
#include <lathe/lathe.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace train_lm {

struct Batch {
  lathe::Tensor tokens, next;  // (batch, length), realised
};

class Windows {
 public:
  // `text` outlives this.
  Windows(std::span<const int32_t> text, int64_t length, int64_t batch)
      : text_(text), length_(static_cast<size_t>(length)), batch_(static_cast<size_t>(batch)) {}
  // Batches that do not overlap.
  int64_t batches() const {
    return text_.empty() ? 0 : static_cast<int64_t>((text_.size() - 1) / length_ / batch_);
  }
  // Batch `i` of them, in the order of the text.
  Batch in_order(int64_t i) const {
    std::vector<size_t> starts(batch_);
    for (size_t b = 0; b < batch_; b++) starts[b] = (static_cast<size_t>(i) * batch_ + b) * length_;
    return at(starts);
  }
  // The batch of a step of training, a function of its number and the seed. An epoch has every window once,
  // in an order and from an offset of its own.
  Batch of_step(int64_t step, uint64_t seed) {
    const int64_t per_epoch = std::max<int64_t>(batches() - 1, 1), epoch = step / per_epoch;
    if (epoch != epoch_) shuffle(epoch, seed);
    std::vector<size_t> starts(batch_);
    for (size_t b = 0; b < batch_; b++)
      starts[b] = order_[(static_cast<size_t>(step % per_epoch) * batch_ + b) % order_.size()];
    return at(starts);
  }

 private:
  void shuffle(int64_t epoch, uint64_t seed) {
    std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(epoch));
    const size_t offset = random() % std::min(length_, text_.size() - length_);
    order_.clear();
    for (size_t at = offset; at + length_ < text_.size(); at += length_) order_.push_back(at);
    for (size_t i = order_.size(); i > 1; i--) std::swap(order_[i - 1], order_[random() % i]);
    epoch_ = epoch;
  }
  Batch at(const std::vector<size_t>& starts) const {
    std::vector<int32_t> tokens, next;
    for (const size_t start : starts) {
      const auto from = text_.begin() + static_cast<std::ptrdiff_t>(start);
      const auto to = from + static_cast<std::ptrdiff_t>(length_);
      tokens.insert(tokens.end(), from, to), next.insert(next.end(), from + 1, to + 1);
    }
    const lathe::Shape shape{static_cast<int64_t>(batch_), static_cast<int64_t>(length_)};
    return {lathe::Tensor::from(tokens, shape).realize(), lathe::Tensor::from(next, shape).realize()};
  }

  std::span<const int32_t> text_;
  size_t length_, batch_;
  int64_t epoch_ = -1;
  std::vector<size_t> order_;
};

}  // namespace train_lm
