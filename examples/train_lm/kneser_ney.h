// The yardstick of a language model: counts of short sequences of tokens.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace train_lm {

// Interpolated Kneser-Ney smoothing with three discounts an order, over up to four tokens of a vocabulary of
// at most 2^16. Chen and Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1998,
// section 3.
class KneserNey {
 public:
  static constexpr size_t kOrder = 4;

  KneserNey(std::span<const int32_t> text, size_t vocabulary) : vocabulary_(vocabulary) {
    for (size_t at = kOrder - 1; at < text.size(); at++) orders_[kOrder - 1].counts[key(text, at, kOrder)]++;
    // Of a shorter sequence it counts how many different tokens stand before it.
    for (size_t n = kOrder - 1; n > 0; n--)
      for (const auto& [longer, count] : orders_[n].counts)
        orders_[n - 1].counts[longer & ((uint64_t{1} << 16 * n) - 1)]++;
    for (Order& order : orders_) order.finish();
  }
  // Of the token at `at`, after those before it.
  double probability(std::span<const int32_t> text, size_t at) const {
    double p = 1 / static_cast<double>(vocabulary_);
    for (size_t n = 1; n <= kOrder && n <= at + 1; n++) p = orders_[n - 1].interpolate(key(text, at, n), p);
    return p;
  }
  // The mean of -ln(probability) over the tokens [begin, end).
  double loss(std::span<const int32_t> text, size_t begin, size_t end) const {
    double sum = 0;
    for (size_t at = begin; at < end; at++) sum -= std::log(probability(text, at));
    return sum / static_cast<double>(end - begin);
  }

 private:
  // What follows a context: how often in all, and how many tokens follow it once, twice and more often.
  struct Context {
    double total = 0;
    std::array<double, 3> followers{};
  };
  struct Order {
    std::unordered_map<uint64_t, uint32_t> counts;   // of sequences
    std::unordered_map<uint64_t, Context> contexts;  // of all but the last token
    std::array<double, 3> discounts{};

    void finish() {
      std::array<double, 5> of{};  // number of sequences that were counted 1 … 4 times
      for (const auto& [sequence, count] : counts) {
        if (count <= 4) of[count]++;
        Context& context = contexts[sequence >> 16];
        context.total += count;
        context.followers[std::min<size_t>(count, 3) - 1]++;
      }
      const double y = of[1] / std::max(1.0, of[1] + 2 * of[2]);
      for (size_t i = 1; i <= 3; i++)
        discounts[i - 1] = std::clamp(
            static_cast<double>(i) - static_cast<double>(i + 1) * y * of[i + 1] / std::max(1.0, of[i]), 0.0,
            static_cast<double>(i));
    }
    double interpolate(uint64_t sequence, double shorter) const {
      const auto context = contexts.find(sequence >> 16);
      if (context == contexts.end()) return shorter;
      double kept_back = 0;
      for (size_t i = 0; i < 3; i++) kept_back += discounts[i] * context->second.followers[i];
      const auto count = counts.find(sequence);
      const double own =
          count == counts.end() ? 0 : count->second - discounts[std::min<size_t>(count->second, 3) - 1];
      return (own + kept_back * shorter) / context->second.total;
    }
  };
  // The `n` tokens up to `at`, 16 bits each, the last one lowest.
  static uint64_t key(std::span<const int32_t> text, size_t at, size_t n) {
    uint64_t out = 0;
    for (size_t i = at + 1 - n; i <= at; i++) out = out << 16 | static_cast<uint64_t>(text[i]);
    return out;
  }

  size_t vocabulary_;
  std::array<Order, kOrder> orders_;
};

}  // namespace train_lm
