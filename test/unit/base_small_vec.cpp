#include "base/small_vec.h"

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include "support/test.h"

using namespace lathe;

namespace {

// Counts its living objects, and throws on the copy that `g_copies_left` allows no more.
int g_living = 0;
int g_copies_left = 1 << 30;
struct Counted {
  explicit Counted(int v) : value(v) { g_living++; }
  Counted(const Counted& other) : value(other.value) {
    if (g_copies_left-- == 0) throw std::runtime_error("copy");
    g_living++;
  }
  Counted(Counted&& other) noexcept : value(other.value), text(std::move(other.text)) { g_living++; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) noexcept = default;
  ~Counted() { g_living--; }
  int value;
  std::string text = "long enough to need memory of its own";
};

int sum(std::span<const int> items) { return std::accumulate(items.begin(), items.end(), 0); }

}  // namespace

TEST_CASE("elements stay inline up to N, then move out") {
  SmallVec<int, 4> v;
  CHECK(v.empty());
  for (int i = 0; i < 4; i++) v.push_back(i);
  CHECK(v.is_inline());
  v.push_back(4);
  CHECK(!v.is_inline());
  CHECK(v == SmallVec<int, 4>{0, 1, 2, 3, 4});
  CHECK(sum(v) == 10);
  CHECK(v.back() == 4);
  CHECK(v.front() == 0);
  v.pop_back();
  CHECK(v.size() == 4);
  CHECK_THROWS_AS(v.at(4), InternalError);
}

TEST_CASE("insert and erase") {
  SmallVec<std::string, 2> v{"b", "d"};
  v.insert(v.begin(), "a");
  CHECK(*v.insert(v.begin() + 2, "c") == "c");
  CHECK(v == SmallVec<std::string, 2>{"a", "b", "c", "d"});
  CHECK(*v.erase(v.begin() + 1) == "c");
  std::string more[] = {"x", "y", "z"};
  v.insert(v.begin() + 1, std::begin(more), std::end(more));
  CHECK(v == SmallVec<std::string, 2>{"a", "x", "y", "z", "c", "d"});
  v.erase(v.begin() + 1, v.end() - 1);
  CHECK(v == SmallVec<std::string, 2>{"a", "d"});
  CHECK(v.erase(v.begin(), v.begin()) == v.begin());
}

TEST_CASE("an element may be pushed into its own vector") {
  SmallVec<std::string, 1> v{"a string that lives on the heap"};
  v.push_back(v[0]);
  v.insert(v.begin(), v.back());
  v.resize(6, v[0]);
  for (const auto& text : v) CHECK(text == "a string that lives on the heap");
}

TEST_CASE("copies, moves and assignments leave no object behind") {
  g_living = 0;
  for (int count : {0, 2, 3, 9}) {
    SmallVec<Counted, 3> v;
    for (int i = 0; i < count; i++) v.emplace_back(i);
    SmallVec<Counted, 3> copy = v;
    CHECK(g_living == 2 * count);
    SmallVec<Counted, 3> moved = std::move(v);
    CHECK(g_living == 2 * count);
    CHECK(v.empty());
    v.emplace_back(7);
    v = moved;
    CHECK(v.size() == moved.size());
    copy = std::move(moved);
    CHECK(copy.size() == static_cast<std::size_t>(count));
    for (int i = 0; i < count; i++) CHECK(copy[static_cast<std::size_t>(i)].value == i);
    copy = *&copy;
    copy.clear();
  }
  CHECK(g_living == 0);
}

TEST_CASE("a copy that throws leaks nothing and changes nothing") {
  g_living = 0;
  {
    SmallVec<Counted, 2> v;
    for (int i = 0; i < 5; i++) v.emplace_back(i);
    SmallVec<Counted, 2> target;
    target.emplace_back(42);
    g_copies_left = 3;
    CHECK_THROWS_AS(target = v, std::runtime_error);
    CHECK(target.size() == 1);
    CHECK(target[0].value == 42);
    CHECK(g_living == 6);
    SmallVec<Counted, 2> full;
    full.emplace_back(1);
    full.emplace_back(2);
    g_copies_left = 0;
    CHECK_THROWS_AS(full.push_back(v[0]), std::runtime_error);
    CHECK(full.size() == 2);
    g_copies_left = 1 << 30;
  }
  CHECK(g_living == 0);
}

TEST_CASE("resize, assign, compare and move-only elements") {
  SmallVec<int, 2> v(3);
  CHECK(v == SmallVec<int, 2>{0, 0, 0});
  v.resize(5, 9);
  v.resize(4);
  CHECK(v == SmallVec<int, 2>{0, 0, 0, 9});
  v.assign(2, 6);
  CHECK(v == SmallVec<int, 2>{6, 6});
  CHECK(SmallVec<int, 2>{1, 2} < SmallVec<int, 2>{1, 3});
  std::span<int> view = v;
  view[0] = 1;
  CHECK(v[0] == 1);
  SmallVec<std::unique_ptr<int>, 1> owners;
  for (int i = 0; i < 4; i++) owners.push_back(std::make_unique<int>(i));
  owners.erase(owners.begin());
  CHECK(*owners.front() == 1);
}
