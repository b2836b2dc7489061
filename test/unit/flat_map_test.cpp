#include "base/flat_map.h"

#include <random>
#include <unordered_map>
#include <vector>

#include "support/test.h"

namespace lathe {
namespace {

TEST_CASE("a flat map agrees with std::unordered_map") {
  std::vector<int> things(5000);
  FlatMap<const int*, int> map;
  std::unordered_map<const int*, int> expected;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; i++) {
    const int* key = &things[random() % things.size()];
    const bool fresh = expected.try_emplace(key, i).second;
    const auto inserted = map.try_emplace(key, i);
    CHECK(inserted.fresh == fresh);
    CHECK(map.at(inserted.position).key == key);
    CHECK(map.at(inserted.position).value == expected[key]);
    CHECK(map.size() == expected.size());
  }
  for (const int& t : things) {
    const auto it = expected.find(&t);
    const int* found = map.find(&t);
    CHECK((found != nullptr) == (it != expected.end()));
    if (found) CHECK(*found == it->second);
  }
}

TEST_CASE("positions in a flat map stay until it grows") {
  std::vector<int> things(100);
  FlatMap<const int*, int> map(things.size());
  const size_t capacity = map.capacity();
  std::vector<size_t> positions;
  for (int& t : things) positions.push_back(map.try_emplace(&t, 7).position);
  CHECK(map.capacity() == capacity);  // room was asked for
  for (size_t i = 0; i < things.size(); i++) {
    CHECK(map.position(&things[i]) == positions[i]);
    map.at(positions[i]).value = static_cast<int>(i);
  }
  for (size_t i = 0; i < things.size(); i++) CHECK(*map.find(&things[i]) == static_cast<int>(i));
}

TEST_CASE("an empty flat map finds nothing") {
  FlatMap<const int*, int> map;
  const int thing = 0;
  CHECK(map.find(&thing) == nullptr);
  CHECK(map.size() == 0);
}

}  // namespace
}  // namespace lathe
