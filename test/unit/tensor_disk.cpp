// Files as memory.
#include "base/mmap.h"
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

#include <numeric>

using namespace lathe;
using namespace lathe::test;

namespace {

std::string counting(const TempDir& dir, size_t n) {
  std::string bytes(n, 0);
  std::iota(bytes.begin(), bytes.end(), 0);
  write_file_atomically(dir.file("data"), bytes);
  return dir.file("data");
}
std::vector<int> contents(const std::string& path) {
  const std::string bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("a file is read through views") {
  const TempDir dir;
  const std::string path = counting(dir, 6);
  const Tensor t = Tensor::from_file(path);
  CHECK(t.device() == "DISK:" + path);
  CHECK(t.is_realized());
  check_values(t.at(Slice{none, none, 2}), {0, 2, 4});
  check_values(t.reshape({2, 3}).T(), {0, 3, 1, 4, 2, 5});
  check_values(t.flip(0).to("CPU") + 1, {6, 5, 4, 3, 2, 1});
  check_values(t.at(TensorIndex({4, 1})), {4, 1});
  check_values(t.bitcast(DType::UInt16), {0x100, 0x302, 0x504});
  CHECK(contents(path) == std::vector{0, 1, 2, 3, 4, 5});
}

TEST_CASE("what is assigned is in the file when the call returns") {
  const TempDir dir;
  const std::string path = counting(dir, 6);
  Tensor t = Tensor::from_file(path), copy = t.to("CPU");
  copy.realize();
  t.set({Slice{1, 3}}, 9);
  CHECK(contents(path) == std::vector{0, 9, 9, 3, 4, 5});
  t.at(Slice{3, none}).assign(Tensor::from(std::vector<uint8_t>{7, 8, 6}));  // from another device
  CHECK(contents(path) == std::vector{0, 9, 9, 7, 8, 6});
  t.assign(t.flip(0));
  CHECK(contents(path) == std::vector{6, 8, 7, 9, 9, 0});
  t.bitcast(DType::Int16).at(0).assign(0x0102);
  CHECK(contents(path) == std::vector{2, 1, 7, 9, 9, 0});
  check_values(copy, {0, 1, 2, 3, 4, 5});
  check_values(Tensor::from_file(path), {2, 1, 7, 9, 9, 0});
}

TEST_CASE("files grow to what is stored in them") {
  const TempDir dir;
  const std::string path = dir.file("grows");
  floats({1, 2}).clone("disk:" + path).realize();
  check_values(Tensor::from_file(path, DType::Float32), {1, 2});
  floats({3, 4, 5}).to("DISK:" + path).realize();
  check_values(Tensor::from_file(path, DType::Float32), {3, 4, 5});
  check_values(Tensor::empty({2}, {.dtype = DType::Float32, .device = "DISK:" + path}), {3, 4});
}

TEST_CASE("what a file cannot do") {
  const TempDir dir;
  const std::string path = counting(dir, 6);
  Tensor t = Tensor::from_file(path);
  CHECK(contains(user_error([&] { t.set({TensorIndex({1, 2})}, 1); }).what(),
                 "advanced setitem is not supported for DISK tensors"));
  CHECK(contains(user_error([&] { Tensor::from_file(path, DType::Float32); }).what(), "6 bytes"));
  CHECK(contains(user_error([&] { Tensor::from_file(dir.file("none")); }).what(), "cannot open"));
  write_file_atomically(dir.file("empty"), std::string_view());
  CHECK(Tensor::from_file(dir.file("empty")).numel() == SInt(0));
}

TEST_CASE("copies and values of the same kind leave the file alone") {
  const TempDir dir;
  const std::string path = counting(dir, 8);
  const Tensor t = Tensor::from_file(path);
  const Tensor copy = t.at(Slice{4, 8}).clone();
  copy.realize();
  check_values(copy, {4, 5, 6, 7});
  t.zeros_like().realize();
  Tensor other = Tensor(0).cast(DType::UInt8).expand({4});
  other.assign(t.at(Slice{4, 8}));
  check_values(other, {4, 5, 6, 7});
  CHECK(contents(path) == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("a path with a comma is refused") {
  const TempDir dir;
  write_file_atomically(dir.file("a,b"), "text");
  CHECK(contains(user_error([&] { Tensor::from_file(dir.file("a,b")); }).what(), "comma"));
}
