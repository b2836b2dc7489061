#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace lathe {

// A map from pointers to small values, for tables that live as long as one pass: open addressing with linear
// probing in one allocation, no erase. Null is no key. A position stays good until `capacity()` changes.
template <class Key, class Value>
  requires std::is_pointer_v<Key> && std::is_trivially_copyable_v<Value>
class FlatMap {
 public:
  struct Slot {
    Key key;
    Value value;
  };

  explicit FlatMap(std::size_t expected = 0) {
    allocate(std::bit_ceil(expected * 2 < 16 ? 16 : expected * 2));
  }

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return mask_ + 1; }

  // The value of `key`, or null.
  Value* find(Key key) {
    Slot& slot = slots_[position(key)];
    return slot.key ? &slot.value : nullptr;
  }
  const Value* find(Key key) const { return const_cast<FlatMap*>(this)->find(key); }

  struct Inserted {
    std::size_t position;
    bool fresh;
  };
  // Puts `value` under a key that is missing; a present key keeps its value.
  Inserted try_emplace(Key key, Value value) {
    std::size_t i = position(key);
    if (slots_[i].key) return {i, false};
    if ((size_ + 1) * 2 > capacity()) {
      grow();
      i = position(key);
    }
    slots_[i] = {key, value};
    size_++;
    return {i, true};
  }
  Slot& at(std::size_t position) { return slots_[position]; }
  const Slot& at(std::size_t position) const { return slots_[position]; }
  // Starts to load what a look-up of `key` will touch.
  void prefetch(Key key) const { __builtin_prefetch(&slots_[hash(key)]); }
  // Where `key` is, or the empty slot where it would go.
  std::size_t position(Key key) const {
    std::size_t i = hash(key);
    while (slots_[i].key && slots_[i].key != key) i = (i + 1) & mask_;
    return i;
  }

 private:
  // Fibonacci hashing: the high bits of the product depend on every bit of the address.
  std::size_t hash(Key key) const {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15u) >> shift_);
  }
  void allocate(std::size_t capacity) {
    slots_ = std::make_unique<Slot[]>(capacity);  // zeroed
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
  }
  void grow() {
    const std::unique_ptr<Slot[]> old = std::move(slots_);
    const std::size_t n = capacity();
    allocate(2 * n);
    for (std::size_t i = 0; i < n; i++)
      if (old[i].key) slots_[position(old[i].key)] = old[i];
  }

  std::unique_ptr<Slot[]> slots_;
  std::size_t mask_ = 0;
  int shift_ = 60;
  std::size_t size_ = 0;
};

}  // namespace lathe
