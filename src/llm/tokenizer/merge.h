// Byte-pair merging: of all adjacent pairs that may be merged, the one of the lowest rank, leftmost first,
// until there is none.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace lathe {

struct Merge {
  static constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
  int32_t rank = kNever;
  int32_t symbol = -1;  // what the pair becomes
};

// Takes out (rank, position) pairs in order. Positions that come in ascending order at their rank, as those
// of monotonous text do, cost O(1) each, others O(log n).
class MergeQueue {
 public:
  void prepare(int32_t rank_count);  // ranks are below it; the queue is empty
  void push(int32_t rank, int32_t position);
  // False when there is nothing left.
  bool pop(int32_t& rank, int32_t& position);

 private:
  struct Node {
    int32_t position, next;
  };
  using Late = std::pair<int32_t, int32_t>;
  std::vector<int32_t> head_, tail_;  // a list a rank, ascending
  std::vector<Node> nodes_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ranks_;  // of lists that are not empty
  std::priority_queue<Late, std::vector<Late>, std::greater<>> late_;         // what came out of order
};

// A text as a list of symbols, merged in place.
class MergeList {
 public:
  void clear() { symbols_.clear(), begins_.clear(); }
  // `begin`: where the symbol starts in the text, -1 for one that no pair has.
  void add(int32_t symbol, uint32_t begin) { symbols_.push_back(symbol), begins_.push_back(begin); }
  // merge_of(left, right, begin, end) → Merge of the pair of these symbols, whose text that is. `text_size`
  // is where the last symbol ends; ranks are below `rank_count`.
  template <class MergeOf>
  void run(uint32_t text_size, int32_t rank_count, MergeOf&& merge_of);
  // f(symbol, begin, end) for what is left, from left to right.
  template <class F>
  void each(F&& f) const {
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = next_[at(i)])
      f(symbols_[at(i)], begins_[at(i)], end_of(i));
  }

 private:
  static constexpr size_t kScanned = 32;  // up to so many symbols, looking at all ranks beats a queue
  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  uint32_t end_of(int32_t i) const { return next_[at(i)] < 0 ? text_size_ : begins_[at(next_[at(i)])]; }
  void link(uint32_t text_size);
  int32_t best_by_scan() const;
  int32_t best_by_queue();
  void merge_at(int32_t left);

  std::vector<int32_t> symbols_, next_, prev_, merged_;
  std::vector<int32_t> ranks_;  // of the pair that starts here
  std::vector<uint32_t> begins_;
  uint32_t text_size_ = 0;
  MergeQueue queue_;
};

template <class MergeOf>
void MergeList::run(uint32_t text_size, int32_t rank_count, MergeOf&& merge_of) {
  link(text_size);
  const size_t count = symbols_.size();
  const bool queued = count > kScanned;
  if (queued) queue_.prepare(rank_count);
  const auto look_at = [&](int32_t i) {
    const int32_t right = next_[at(i)];
    const Merge merge =
        right < 0 ? Merge() : merge_of(symbols_[at(i)], symbols_[at(right)], begins_[at(i)], end_of(right));
    ranks_[at(i)] = merge.rank;
    merged_[at(i)] = merge.symbol;
    if (queued && merge.rank != Merge::kNever) queue_.push(merge.rank, i);
  };
  for (size_t i = 0; i < count; i++) look_at(static_cast<int32_t>(i));
  for (;;) {
    const int32_t left = queued ? best_by_queue() : best_by_scan();
    if (left < 0) return;
    merge_at(left);
    if (prev_[at(left)] >= 0) look_at(prev_[at(left)]);
    look_at(left);
  }
}

}  // namespace lathe
