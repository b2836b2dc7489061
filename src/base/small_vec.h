#pragma once

#include "base/error.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace lathe {

// A vector whose first N elements need no allocation. Growing, moving the vector and erasing invalidate
// references; elements must move without throwing.
template <class T, std::size_t N>
class SmallVec {
  static_assert(N > 0);
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVec() noexcept : data_(inline_data()) {}
  explicit SmallVec(std::size_t count) : SmallVec() { resize(count); }
  SmallVec(std::size_t count, const T& value) : SmallVec() { resize(count, value); }
  SmallVec(std::initializer_list<T> items) : SmallVec(items.begin(), items.end()) {}
  explicit SmallVec(std::span<const T> items) : SmallVec(items.begin(), items.end()) {}
  // The delegated constructor completes first, so a throwing copy still runs the destructor.
  template <std::input_iterator It>
  SmallVec(It first, It last) : SmallVec() {
    append(first, last);
  }
  SmallVec(const SmallVec& other) : SmallVec(other.begin(), other.end()) {}
  SmallVec(SmallVec&& other) noexcept : SmallVec() { take(other); }
  ~SmallVec() {
    std::destroy_n(data_, size_);
    release();
  }

  SmallVec& operator=(const SmallVec& other) { return *this = SmallVec(other); }
  SmallVec& operator=(SmallVec&& other) noexcept {
    if (this == &other) return *this;
    clear();
    release();
    data_ = inline_data();
    capacity_ = N;
    take(other);
    return *this;
  }

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  bool is_inline() const { return data_ == inline_data(); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  auto rbegin() { return std::make_reverse_iterator(end()); }
  auto rend() { return std::make_reverse_iterator(begin()); }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }

  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& at(std::size_t i) {
    CHECK(i < size_, "index {} of a vector of {}", i, size_);
    return data_[i];
  }
  const T& at(std::size_t i) const { return const_cast<SmallVec*>(this)->at(i); }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  operator std::span<T>() { return {data_, size_}; }
  operator std::span<const T>() const { return {data_, size_}; }

  void reserve(std::size_t count) {
    if (count > capacity_) move_to(allocate(count), count);
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) return grow_and_emplace(std::forward<Args>(args)...);
    T* made = std::construct_at(data_ + size_, std::forward<Args>(args)...);
    size_++;
    return *made;
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }

  void resize(std::size_t count) {
    shrink_to(count);
    reserve(count);
    while (size_ < count) emplace_back();
  }
  void resize(std::size_t count, const T& value) {
    if (count > size_) {
      const T copy = value;  // may be one of our elements
      reserve(count);
      while (size_ < count) emplace_back(copy);
    }
    shrink_to(count);
  }
  void assign(std::size_t count, const T& value) { *this = SmallVec(count, value); }
  template <std::input_iterator It>
  void assign(It first, It last) {
    *this = SmallVec(first, last);
  }
  // The range must not be part of this vector.
  template <std::input_iterator It>
  void append(It first, It last) {
    if constexpr (std::forward_iterator<It>) {
      std::size_t wanted = size_ + static_cast<std::size_t>(std::distance(first, last));
      if (wanted > capacity_) reserve(std::max(wanted, 2 * capacity_));
    }
    for (; first != last; ++first) emplace_back(*first);
  }

  T* insert(const T* at, T value) {
    std::size_t i = static_cast<std::size_t>(at - data_);
    emplace_back(std::move(value));
    std::rotate(data_ + i, data_ + size_ - 1, data_ + size_);
    return data_ + i;
  }
  // The range must not be part of this vector.
  template <std::input_iterator It>
  T* insert(const T* at, It first, It last) {
    std::size_t i = static_cast<std::size_t>(at - data_);
    std::size_t before = size_;
    append(first, last);
    std::rotate(data_ + i, data_ + before, data_ + size_);
    return data_ + i;
  }
  T* erase(const T* at) { return erase(at, at + 1); }
  T* erase(const T* first, const T* last) {
    T* to = data_ + (first - data_);
    T* from = data_ + (last - data_);
    shrink_to(static_cast<std::size_t>(std::move(from, end(), to) - data_));
    return to;
  }

  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const SmallVec& a, const SmallVec& b)
    requires requires(const T& x) { x <=> x; }
  {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(storage_); }
  const T* inline_data() const { return reinterpret_cast<const T*>(storage_); }

  static T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void release() {
    if (!is_inline()) std::allocator<T>().deallocate(data_, capacity_);
  }
  void move_to(T* fresh, std::size_t capacity) {
    std::uninitialized_move_n(data_, size_, fresh);
    std::destroy_n(data_, size_);
    release();
    data_ = fresh;
    capacity_ = capacity;
  }
  // The new element is made before the old ones move: its arguments may refer to one of them.
  template <class... Args>
  [[gnu::noinline]] T& grow_and_emplace(Args&&... args) {
    std::size_t capacity = 2 * capacity_;
    T* fresh = allocate(capacity);
    try {
      std::construct_at(fresh + size_, std::forward<Args>(args)...);
    } catch (...) {
      std::allocator<T>().deallocate(fresh, capacity);
      throw;
    }
    move_to(fresh, capacity);
    return data_[size_++];
  }
  void shrink_to(std::size_t count) {
    if (count >= size_) return;
    std::destroy_n(data_ + count, size_ - count);
    size_ = count;
  }
  // Precondition: empty and inline.
  void take(SmallVec& other) noexcept {
    if (other.is_inline()) {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      std::destroy_n(other.data_, other.size_);
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
    }
    size_ = std::exchange(other.size_, 0);
  }

  T* data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  alignas(T) std::byte storage_[N * sizeof(T)];
};

}  // namespace lathe
