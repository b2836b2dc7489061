#include "llm/tokenizer/merge.h"

#include <algorithm>

namespace lathe {

void MergeQueue::prepare(int32_t rank_count) {
  if (head_.size() < static_cast<size_t>(rank_count)) {
    head_.resize(static_cast<size_t>(rank_count), -1);
    tail_.resize(static_cast<size_t>(rank_count), -1);
  }
  nodes_.clear();
}

void MergeQueue::push(int32_t rank, int32_t position) {
  const auto r = static_cast<size_t>(rank);
  const auto fresh = static_cast<int32_t>(nodes_.size());
  if (head_[r] < 0) {
    head_[r] = fresh;
    ranks_.push(rank);
  } else if (nodes_[static_cast<size_t>(tail_[r])].position > position) {
    late_.push({rank, position});
    return;
  } else {
    nodes_[static_cast<size_t>(tail_[r])].next = fresh;
  }
  tail_[r] = fresh;
  nodes_.push_back({position, -1});
}

bool MergeQueue::pop(int32_t& rank, int32_t& position) {
  if (ranks_.empty() && late_.empty()) return false;
  if (!ranks_.empty()) {
    const auto r = static_cast<size_t>(ranks_.top());
    const Node node = nodes_[static_cast<size_t>(head_[r])];
    if (late_.empty() || Late(ranks_.top(), node.position) < late_.top()) {
      rank = ranks_.top();
      position = node.position;
      head_[r] = node.next;
      if (node.next < 0) ranks_.pop();
      return true;
    }
  }
  std::tie(rank, position) = late_.top();
  late_.pop();
  return true;
}

void MergeList::link(uint32_t text_size) {
  text_size_ = text_size;
  const size_t count = symbols_.size();
  next_.resize(count);
  prev_.resize(count);
  merged_.resize(count);
  ranks_.resize(count);
  for (size_t i = 0; i < count; i++) {
    prev_[i] = static_cast<int32_t>(i) - 1;
    next_[i] = i + 1 < count ? static_cast<int32_t>(i + 1) : -1;
  }
}

int32_t MergeList::best_by_scan() const {
  const auto best = std::min_element(ranks_.begin(), ranks_.end());
  return best == ranks_.end() || *best == Merge::kNever ? -1 : static_cast<int32_t>(best - ranks_.begin());
}

int32_t MergeList::best_by_queue() {
  // An entry whose pair has changed since is passed over, unless the new pair is of the same rank: then it is
  // the best one too.
  for (int32_t rank = 0, position = 0; queue_.pop(rank, position);)
    if (ranks_[at(position)] == rank) return position;
  return -1;
}

void MergeList::merge_at(int32_t left) {
  const int32_t right = next_[at(left)];
  symbols_[at(left)] = merged_[at(left)];
  next_[at(left)] = next_[at(right)];
  if (next_[at(right)] >= 0) prev_[at(next_[at(right)])] = left;
  ranks_[at(right)] = Merge::kNever;
}

}  // namespace lathe
