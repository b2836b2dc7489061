// What GGUF files may not hold, and what cannot be put into one: text of each error.
#include "formats/gguf/gguf.h"
#include "formats/gguf/quantize.h"
#include "formats/gguf/writer.h"

#include <limits>

#include "support/gguf_bytes.h"
#include "support/test.h"

using namespace lathe;
using Bytes = test::GgufBytes;

namespace {

std::string problem(const Bytes& file) {
  const auto result = parse_gguf_header(std::as_bytes(std::span(file.str())), "f.gguf");
  REQUIRE(!result.ok());
  CHECK(result.error().offset <= file.str().size());
  CHECK(test::contains(result.error().message(), "f.gguf"));
  return result.error().message();
}

}  // namespace

TEST_CASE("GGUF files that lie") {
  using test::contains;
  CHECK(contains(problem(Bytes().raw("GGML")), "offset 0: this is no GGUF file"));
  CHECK(contains(problem(Bytes().start(0, 0, 1)), "version 1 cannot be read, only 2 and 3; convert"));
  CHECK(contains(problem(Bytes().start(0, 0, 4)), "version 4 cannot be read, only 2 and 3"));
  CHECK(contains(problem(Bytes().start(0, 0, 0x03000000)), "big-endian"));
  CHECK(contains(problem(Bytes().start(uint64_t{1} << 60, 0)),
                 "tensors cannot be in the 8 bytes that are left"));
  CHECK(contains(problem(Bytes().start(0, ~uint64_t{0})), "keys cannot be in"));
  CHECK(contains(problem(Bytes().start(0, 1).u64(1000).raw("aaaaa")),
                 "key 0: the key has 1000 bytes, but only 5"));
  CHECK(
      contains(problem(Bytes().start(0, 1).text(std::string(70000, 'k')).u32(0).u32(0)), "more than 65535"));
  const auto key = [] { return Bytes().start(0, 1).text("k"); };
  CHECK(contains(problem(key().u32(13).u64(0)), "key `k`: value type 13 is unknown"));
  CHECK(contains(problem(key().u32(7).number(2, 1)), "key `k`: a truth value is 2"));
  CHECK(contains(problem(key().u32(8).u64(100)), "key `k`: a string has 100 bytes, but only 0 are left"));
  CHECK(contains(problem(key().u32(9).u32(8).u64(100).u64(0)),
                 "100 elements of type string cannot be in the 8"));
  CHECK(contains(problem(key().u32(9).u32(0).u64(uint64_t{1} << 62)), "elements of type u8 cannot be in"));
  Bytes nested = key();
  nested.u32(9);
  for (int i = 0; i < 20; i++) nested.u32(9).u64(1);
  CHECK(contains(problem(nested.u32(0).u64(0)), "arrays are nested more than 8 deep"));
  CHECK(contains(problem(Bytes().start(0, 2).text("k").u32(0).number(1, 1).text("k").u32(0).number(1, 1)),
                 "key `k`: the key occurs twice"));
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 0x80000001u})
    CHECK(contains(problem(Bytes().start(0, 1).text("general.alignment").u32(4).u32(alignment)),
                   "is no power of two from 8 on"));
  CHECK(contains(problem(Bytes().start(0, 1).text("general.alignment").u32(8).text("32")),
                 "string, not an integer"));

  const auto one = [](std::initializer_list<uint64_t> sizes, uint32_t type, uint64_t offset) {
    return Bytes().start(1, 0).tensor("t", sizes, type, offset).data(1024);
  };
  CHECK(contains(problem(one({4}, 1337, 0)), "tensor `t`: type 1337 is unknown"));
  CHECK(contains(problem(one({4}, 4, 0)), "type 4 (Q4_2) was removed from the format"));
  CHECK(contains(problem(one({4}, 37, 0)), "type 37 (IQ4_NL_4_8) was removed"));
  CHECK(contains(problem(one({4}, 15, 0)), "type 15 (Q8_K) is for intermediate results"));
  CHECK(contains(problem(one({1, 1, 1, 1, 1}, 0, 0)), "it has 5 axes, more than 4"));
  CHECK(contains(problem(one({31}, 2, 0)),
                 "rows of 31 elements are no whole blocks of Q4_0, which has 32 a block"));
  CHECK(contains(problem(one({uint64_t{1} << 63}, 0, 0)), "an axis has size -9223372036854775808"));
  CHECK(contains(problem(one({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0)), "2^63 bytes or more"));
  CHECK(contains(problem(one({uint64_t{1} << 32, 0, uint64_t{1} << 32}, 0, 0)), "2^63 bytes or more"));
  CHECK(contains(problem(one({uint64_t{1} << 61}, 28, 0)), "2^63 bytes or more"));
  CHECK(contains(problem(one({4}, 0, 33)), "its offset 33 is no multiple of the alignment 32"));
  CHECK(
      contains(problem(one({257}, 0, 0)), "tensor `t`: its 1028 bytes are at 0 of the data, which has 1024"));
  CHECK(contains(problem(one({4}, 0, 2048)), "cut off or damaged"));
  CHECK(contains(problem(one({4}, 0, ~uint64_t{31})), "cut off or damaged"));
  CHECK(contains(problem(Bytes().start(1, 0).tensor(std::string(65, 'n'), {4}, 0, 0).data(16)),
                 "more than 64"));
  CHECK(contains(problem(Bytes().start(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).data(64)),
                 "tensor `t`: the name occurs twice"));
  CHECK(contains(problem(Bytes().start(2, 0).tensor("a", {9}, 0, 0).tensor("b", {1}, 0, 32).data(64)),
                 "tensor `b`: its data overlaps that of `a`"));
}

TEST_CASE("a GGUF writer refuses what readers would") {
  const auto text = [](auto&& f) { return std::string(test::user_error(f).what()); };
  GgufWriter w;
  CHECK(text([&] {
          w.add(std::string(64, 'x'), {1}, std::vector<float>{1});
        }).ends_with("64 bytes, not 1 to 63"));
  CHECK(text([&] { w.add("t", {1, 1, 1, 1, 1}, std::vector<float>{1}); }) ==
        "tensor `t`: GGUF holds at most 4 axes, not 5");
  CHECK(text([&] { w.add("t", {33}, GgmlType::Q4_0, std::vector<std::byte>(18)); }) ==
        "tensor `t`: rows of 33 elements are no whole blocks of Q4_0");
  CHECK(text([&] { w.add("t", {32}, GgmlType::Q4_0, std::vector<std::byte>(17)); }) ==
        "tensor `t`: 17 bytes of data, but type and shape need 18");
  w.add("u", {1}, std::vector<float>{1});
  CHECK(text([&] { w.add("u", {1}, std::vector<float>{1}); }) == "tensor `u` is added twice");
  GgufWriter odd;
  odd.set("general.alignment", uint32_t{12});
  CHECK(test::contains(text([&] { odd.to_bytes(); }), "`general.alignment` is 12, not a power of two"));
}

TEST_CASE("what cannot be quantised") {
  const auto text = [](auto&& f) { return std::string(test::user_error(f).what()); };
  std::vector<float> x(256);
  CHECK(text([&] { quantize(x, 172, GgmlType::Q8_0); }) ==
        "256 numbers in rows of 172 are no whole blocks of Q8_0, which has 32 a block");
  CHECK(test::contains(text([&] { quantize(x, 256, GgmlType::IQ2_XS); }),
                       "IQ2_XS blocks can be read, but not made"));
  x[3] = std::numeric_limits<float>::infinity();
  CHECK(text([&] { quantize(x, 256, GgmlType::Q4_K); }) == "element 3 is inf, which has no quantised form");
  x[3] = 9e8f;
  for (const GgmlType type : {GgmlType::Q8_0, GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::IQ4_XS})
    CHECK(test::contains(text([&] { quantize(x, 256, type); }), "too large for float16"));
  x[3] = -1e30f;
  CHECK(text([&] { quantize(x, 256, GgmlType::Q6_K); }) ==
        "element 3 is -1e+30, which has no quantised form");
  x[3] = 65519;
  CHECK(quantize(x, 256, GgmlType::F16).size() == 512);
  x[3] = 7e4f;
  CHECK(text([&] { quantize(x, 256, GgmlType::F16); }) == "element 3 is 70000, which has no form in F16");
}
