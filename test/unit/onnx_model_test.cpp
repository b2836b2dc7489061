// The reader of ONNX models, and npy files: what they take, and how they refuse.
#include "base/mmap.h"
#include "formats/npy.h"
#include "formats/onnx/value.h"

#include "support/onnx_writer.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

auto bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

std::string problem(const std::string& file) {
  const auto result = onnx::parse_model(bytes_of(file), "m");
  return result.ok() ? "" : result.error().message();
}
std::string tensor_problem(const std::string& file) {
  const auto result = onnx::parse_tensor(bytes_of(file), "t");
  return result.ok() ? "" : result.error().message();
}
std::string npy_problem(const std::string& file) {
  const auto result = parse_npy_header(bytes_of(file), "n");
  return result.ok() ? "" : result.error().message();
}

std::string npy(const std::string& header, size_t data_bytes, int version = 1) {
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(version), '\0', static_cast<char>(header.size()), '\0'};
  if (version > 1) out += std::string(2, '\0');
  return out + header + std::string(data_bytes, '\1');
}

}  // namespace

TEST_CASE("a model is read") {
  const std::string file =
      model(input("x", 1, {-1, 3}) + initializer(tensor("w", {3}, std::vector<float>{1, 2, 3})) +
            node("Add", {"x", "w"}, {"y"}) +
            node("Clip", {"y"}, {"z"}, attribute("min", 0.5F) + attribute("axis", 7)) + output("z", 1, {2}) +
            field(99, "unknown fields are skipped"));
  const onnx::Model m = onnx::parse_model(bytes_of(file), "m").or_throw();
  CHECK(m.ir_version == 8);
  CHECK(m.producer == "test");
  CHECK(m.opsets.at("") == 21);
  REQUIRE(m.graph.nodes.size() == 2);
  CHECK(m.graph.nodes[0].op == "Add");
  CHECK(m.graph.nodes[0].inputs == std::vector<std::string>{"x", "w"});
  CHECK(m.graph.nodes[1].attributes[0].real == 0.5F);
  CHECK(m.graph.nodes[1].attributes[1].integer == 7);
  CHECK(onnx::to_string(m.graph.inputs[0].type) == "float32[N, 3]");
  CHECK(m.graph.initializers[0].dims == std::vector<int64_t>{3});
  const auto w = onnx::to_value(m.graph.initializers[0]);
  CHECK(w.tensor().to_vector<float>() == std::vector<float>{1, 2, 3});
}

TEST_CASE("bytes that are no model") {
  const std::string good = model(input("x", 1, {2}) + node("Relu", {"x"}, {"y"}) + output("y"));
  for (size_t n = 1; n < good.size(); n++) {
    // Whatever is cut off, the error lies within what is left; some cuts leave a shorter model.
    const auto result = onnx::parse_model(bytes_of(good.substr(0, n)), "m");
    if (!result.ok()) CHECK(result.error().offset <= n);
  }
  CHECK(problem("\x08") == "m: offset 1: a number is cut off");
  CHECK(problem(std::string(11, '\xff')) == "m: offset 10: a number has more than 64 bits");
  CHECK(problem(std::string("\x3a\x05\x01", 3)) == "m: offset 2: field 7 has 5 bytes, but 1 are left");
  CHECK(problem(std::string("\x3b", 1)) == "m: offset 1: field 7 has the wire type 3");
  CHECK(problem(std::string("\x00", 1)) == "m: offset 1: 0 is no field number");
  CHECK(contains(problem(field(7, 3)), "field 7 is not of bytes"));
  std::string deep = node("If", {}, {});
  for (int i = 0; i < 60; i++) deep = field(1, attribute("g", 6, deep));
  CHECK(contains(problem(field(7, deep)), "nested more than 100 deep"));
}

TEST_CASE("tensors have the bytes that they need") {
  CHECK(tensor_problem(tensor("t", {2}, std::vector<float>{1, 2})) == "");
  CHECK(contains(tensor_problem(tensor("t", {3}, std::vector<float>{1, 2})),
                 "`t` of float32 needs 12 bytes, but has 8"));
  CHECK(contains(tensor_problem(tensor("t", {-1}, std::vector<float>{})), "negative size -1"));
  CHECK(contains(tensor_problem(tensor("t", {1LL << 40, 1LL << 40}, std::vector<float>{})),
                 "too many elements"));
  CHECK(tensor_problem(tensor("t", {1LL << 40, 1LL << 40, 0}, std::vector<float>{})) == "");
  CHECK(contains(tensor_problem(field(1, 1) + field(2, 77)), "unknown element type 77"));
  // Two elements of four bits a byte, low bits first; the sign is carried up.
  const std::string int4 = field(1, 3) + field(2, 22) + field(9, std::string_view("\xf7\x08", 2));
  CHECK(onnx::to_value(onnx::parse_tensor(bytes_of(int4), "t").or_throw()).tensor().to_vector<int>() ==
        std::vector<int>{7, -1, -8});
  const std::string float4 = field(1, 2) + field(2, 23) + field(9, std::string_view("\xd7", 1));
  CHECK(onnx::to_value(onnx::parse_tensor(bytes_of(float4), "t").or_throw()).tensor().to_vector<float>() ==
        std::vector<float>{6, -3});
}

TEST_CASE("external data lies in the model's folder") {
  TempDir dir;
  write_file_atomically(dir.file("weights"), std::string_view("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12));
  const auto external = [&](const std::string& location, const char* offset) {
    const auto entry = [](const char* key, const std::string& value) {
      return field(13, field(1, key) + field(2, std::string_view(value)));
    };
    const std::string file =
        field(1, 2) + field(2, 1) + field(8, "w") + entry("location", location) + entry("offset", offset);
    onnx::DataFiles files(dir.path().string());
    return onnx::to_value(onnx::parse_tensor(bytes_of(file), "t").or_throw(), files);
  };
  CHECK(external("weights", "4").tensor().to_vector<float>() == std::vector<float>{1, 2});
  CHECK(contains(user_error([&] { external("weights", "8"); }).what(),
                 "needs 8 bytes; its external data is 8 bytes from 8 of the 12"));
  CHECK(contains(user_error([&] { external("weights", "-1"); }).what(),
                 "offset `-1` of its external data is no number"));
  for (const char* outside : {"../weights", "/etc/passwd", "a/../../weights", ""})
    CHECK(contains(user_error([&] { external(outside, "0"); }).what(), "outside of the model's folder"));
}

TEST_CASE("small graphs are evaluated on the host") {
  const Tensor x = Tensor::from(std::vector<int64_t>{2, 3, 4, 5, 6, 7}, {2, 3}).realize();
  const auto check = [](const Tensor& t) {
    const auto small = onnx::small_elements(t);
    REQUIRE(small);
    std::vector<int64_t> numbers;
    for (const Scalar& v : *small) numbers.push_back(v.as_i64());
    CHECK(numbers == t.to_vector<int64_t>());
  };
  check(x.transpose().add(1));
  check(x.flip(0).pad({{1, 1}, {0, 2}}));
  check(x.at(Slice{}, Slice{2, none, -1}));
  check(x.sum(0).mul(x.max()));
  check(x.prod({0, 1}));
  check(Tensor::cat({x, x.div_floor(Tensor(2))}, 1));
  check(x.gather(1, Tensor::from(std::vector<int64_t>{2, 0}, {2, 1})));
  check(x.cast(DType::Float32).div(2.0).floor().cast(DType::Int64));
  check(Tensor::arange(5).cast(DType::Int64));
  check(x.lt(5).where(x, 0));
  check(Tensor::constant_of({0, 2}, 1, DType::Int64).sum(0));
  CHECK(!onnx::small_elements(Tensor::zeros({1000, 1000}).realize().add(1)));
}

TEST_CASE("npy files") {
  TempDir dir;
  for (const Tensor& t : {Tensor::from({{1.5, 2}, {3, 4}}), Tensor::from({1, -2, 3}, {DType::Int64}),
                          Tensor::from({true, false}), Tensor::from({1, 255}, {DType::UInt8}),
                          Tensor::zeros({0, 3}), Tensor::from(7.5).reshape({})}) {
    save_npy(t, dir.file("a.npy"));
    const Tensor back = load_npy(dir.file("a.npy"));
    CHECK(back.dtype() == t.dtype());
    CHECK(back.shape() == t.shape());
    CHECK(back.bytes() == t.bytes());
    CHECK(read_file(dir.file("a.npy")).size() % 64 == t.nbytes().value() % 64);
  }
  CHECK(
      contains(user_error([&] { save_npy(Tensor::zeros({1}, {DType::BFloat16}), dir.file("b.npy")); }).what(),
               "npy has no type for bfloat16"));
  // The first axis runs fastest.
  write_file_atomically(
      dir.file("f.npy"),
      npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}\n", 0) + "\1\2\3\4\5\6");
  CHECK(load_npy(dir.file("f.npy")).to_vector<int>() == std::vector<int>{1, 3, 5, 2, 4, 6});
  CHECK(npy_problem(npy("{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False,}", 8, 2)) == "");
  CHECK(npy_problem("PK") == "n: offset 0: this is no npy file");
  CHECK(contains(npy_problem(npy("{'descr': '<U4', 'fortran_order': False, 'shape': (2,)}", 8)),
                 "type `<U4` cannot be read"));
  CHECK(contains(npy_problem(npy("{'descr': '<f4', 'shape': (2,)}", 9)),
                 "needs 8 bytes of data, but there are 9"));
  CHECK(contains(npy_problem(npy("{'descr': '<f4', 'shape': (9999999999, 9999999999)}", 0)), "2^64 or more"));
  CHECK(contains(npy_problem(npy("{'descr': '<f4', 'shape': (-2,)}", 8)), "expected a size"));
  CHECK(contains(npy_problem(npy("{'descr': '<f4'}", 8)), "descr or shape is missing"));
  CHECK(contains(npy_problem(npy("{'a': 1}", 8)), "the key `a` is unknown"));
  CHECK(contains(npy_problem(npy("{'descr': '<f4", 0)), "a string has no end"));
  CHECK(npy_problem(std::string("\x93NUMPY\1\0\xff\xff", 10)) ==
        "n: offset 8: the header's length is 65535, but only 0 bytes follow");
}
