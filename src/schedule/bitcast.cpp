#include "schedule/passes.h"

namespace lathe {
namespace {

DType unsigned_word(int64_t bytes) {
  switch (bytes) {
    case 1: return DType::UInt8;
    case 2: return DType::UInt16;
    case 4: return DType::UInt32;
    default: return DType::UInt64;
  }
}

// (…, n) words to (…, n*parts) words of bits/parts.
UOp split_words(const UOp& words, int64_t parts, DType part, const Shape& to) {
  const int bits = bit_width(part);
  Shape apart = words.shape();
  apart.push_back(1);
  std::vector<UOp> shifts;
  for (int64_t i = 0; i < parts; i++) shifts.push_back(constant(words.dtype(), Scalar(i * bits)));
  return reshape(cast(reshape(words, apart) >> stack(shifts), part), to);
}

// (…, n*parts) words to (…, n) words of parts times their bits.
UOp join_words(const UOp& words, int64_t parts, DType whole, const Shape& to) {
  const int bits = bit_width(words.dtype());
  Shape apart = to;
  apart.push_back(parts);
  const UOp split = reshape(words, apart);
  Shape offset(apart.size(), SInt(0)), one = apart;
  one.back() = 1;
  UOp out;
  for (int64_t i = 0; i < parts; i++) {
    offset.back() = i;
    UOp word = cast(reshape(shrink(split, offset, one), to), whole);
    if (i) word = word << constant(whole, Scalar(i * bits));
    out = out ? out | word : word;
  }
  return out;
}

}  // namespace

UOp lower_resizing_bitcast(const UOp& u) {
  const UOp& x = u.src(0);
  const int64_t from = item_size(x.dtype()), to = item_size(u.dtype());
  if (from == to) return {};
  const UOp words = bitcast(x, unsigned_word(from));
  const UOp resized = from > to ? split_words(words, from / to, unsigned_word(to), u.shape())
                                : join_words(words, to / from, unsigned_word(to), u.shape());
  return bitcast(resized, u.dtype());
}

UOp store_below_bitcast(const UOp& u) {
  std::vector<UOp> views;  // above the bitcast, outermost first
  UOp at = u.src(0);
  for (; is_movement(at.op()) || at.op() == Op::Detach; at = at.src(0)) views.push_back(at);
  if (at.op() != Op::Bitcast) return {};
  const DType seen = at.dtype(), stored = at.src(0).dtype();
  CHECK(item_size(seen) == item_size(stored), "a store through a bitcast to elements of another size");
  UOp target = at.src(0);
  for (size_t i = views.size(); i-- > 0;) {
    SmallVec<UOp, 3> srcs(views[i].srcs().begin(), views[i].srcs().end());
    srcs[0] = target;
    target = views[i].with_srcs({srcs.data(), srcs.size()});
  }
  return store(target, bitcast(cast(u.src(1), seen), stored));
}

}  // namespace lathe
