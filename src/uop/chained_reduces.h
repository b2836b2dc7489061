// Reductions whose terms hold other reductions: products of products, as in attention and its gradients.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <span>
#include <vector>

namespace lathe {

// A Reduce over one Range of constant size, with reductions below that depend on the Range.
struct ChainedReduce {
  UOp reduce;
  UOp term;          // what is folded, over ChainedReduces::step in place of the Range
  UOp largest;       // the Max over the same steps that the term depends on, or null
  double slope = 0;  // the term is exp2(slope * largest) times what does not depend on it; below 0
  bool is_max() const { return reduce.arg_as<ReduceArg>().op == Op::Max; }
};

// Whether `u` is a Reduce over ranges that reductions below depend on.
bool is_chained(const UOp& u);

// Those of a value that one walk over the steps can compute: a sum whose terms are scaled by exp2 of a
// maximum over the same steps is brought up to date whenever the maximum grows.
struct ChainedReduces {
  UOp step;
  UOp row;                             // the loop that repeats most of what the inner reductions read
  std::vector<ChainedReduce> members;  // a Max before its sums
  std::vector<UOp> scores;  // what each step computes once: the terms of the Maxes, other reductions below
};

// Of a value over `loops`; nothing where it has none, where one depends on another in any other way, or where
// no loop repeats what the inner reductions read.
std::optional<ChainedReduces> chained_reduces(const UOp& value, std::span<const UOp> loops);

}  // namespace lathe
