#include "formats/safetensors.h"

#include "base/mmap.h"
#include "tensor/tensor.h"

#include <filesystem>

#include "support/test.h"

using namespace lathe;

namespace {

// A file with this header and so many bytes of data.
std::string file_of(std::string_view header, size_t data_bytes = 0) {
  std::string out;
  for (int shift = 0; shift < 64; shift += 8)
    out += static_cast<char>(static_cast<uint64_t>(header.size()) >> shift);
  out += header;
  for (size_t i = 0; i < data_bytes; i++) out += static_cast<char>(i);
  return out;
}

Result<SafetensorsHeader> parse(std::string_view file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "f");
}

std::string problem(std::string_view header, size_t data_bytes = 0) {
  const auto result = parse(file_of(header, data_bytes));
  REQUIRE(!result.ok());
  return result.error().message();
}

}  // namespace

TEST_CASE("a safetensors header") {
  const std::string file = file_of(
      R"({"__metadata__":{"format":"pt","é":"ü"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
      R"("a":{"data_offsets":[0,2],"shape":[],"dtype":"BF16"},"none":{"dtype":"I64","shape":[4,0],"data_offsets":[26,26]}}   )",
      26);
  const SafetensorsHeader header = parse(file).value();
  CHECK(header.metadata == Metadata{{"format", "pt"}, {"é", "ü"}});
  REQUIRE(header.tensors.size() == 3);
  CHECK(header.tensors[0].name == "b");
  CHECK(header.tensors[0].dtype == DType::Float32);
  CHECK(header.tensors[0].shape == std::vector<int64_t>{2, 3});
  CHECK(header.tensors[0].begin == file.size() - 24);
  CHECK(header.tensors[0].end == file.size());
  CHECK(header.tensors[1].name == "a");
  CHECK(header.tensors[1].shape.empty());
  CHECK(header.tensors[1].begin == file.size() - 26);
  CHECK(header.tensors[2].shape == std::vector<int64_t>{4, 0});
  CHECK(parse(file_of("{}")).value().tensors.empty());
}

TEST_CASE("every dtype of the format") {
  for (auto [name, size] : std::initializer_list<std::pair<const char*, int>>{{"BOOL", 1},
                                                                              {"I8", 1},
                                                                              {"U8", 1},
                                                                              {"I16", 2},
                                                                              {"U16", 2},
                                                                              {"I32", 4},
                                                                              {"U32", 4},
                                                                              {"I64", 8},
                                                                              {"U64", 8},
                                                                              {"F8_E4M3", 1},
                                                                              {"F8_E5M2", 1},
                                                                              {"F16", 2},
                                                                              {"BF16", 2},
                                                                              {"F32", 4},
                                                                              {"F64", 8}}) {
    const std::string header =
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", name, 3 * size);
    const auto result = parse(file_of(header, static_cast<size_t>(3 * size)));
    REQUIRE(result.ok());
    CHECK(item_size(result.value().tensors[0].dtype) == size);
  }
}

TEST_CASE("safetensors headers that lie") {
  CHECK(parse("short").error().message() == "f: offset 5: a file of 5 bytes has no safetensors header");
  CHECK(parse(std::string(8, '\xff')).error().message() ==
        "f: offset 0: the header's length is 18446744073709551615, but only 0 bytes follow");
  CHECK(problem(" {}") == "f: offset 8: the header does not start with '{'");
  CHECK(problem("") == "f: offset 8: the header does not start with '{'");
  CHECK(problem("{} x").starts_with("f: offset 12: the header is not valid JSON"));
  CHECK(problem(R"({"t":)").starts_with("f: offset 13: the header is not valid JSON"));
  CHECK(problem("{\"\xff\":{}}").starts_with("f: offset 11: the header is not valid JSON"));

  CHECK(problem(R"({"t":3})") == "f: offset 15: unexpected a number in tensor `t`");
  CHECK(problem(R"({"t":[]})") == "f: offset 14: unexpected list in tensor `t`");
  CHECK(test::contains(problem(R"({"t":{}})"), "no dtype in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"dtype":"F32","shape":[1]}})"), "no data_offsets in tensor `t`"));
  CHECK(
      test::contains(problem(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4), "no shape in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"dtype":"F33"}})"), "unknown dtype \"F33\" in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"dtype":5}})"), "unexpected a number in tensor `t`"));
  CHECK(
      test::contains(problem(R"({"t":{"dtype":"U8","dtype":"U8"}})"), "unknown or repeated field \"dtype\""));
  CHECK(test::contains(problem(R"({"t":{"shape":[-1]}})"), "unexpected a negative number in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"shape":[1.5]}})"), "unexpected a fraction in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"shape":[[1]]}})"), "unexpected list in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"shape":[9223372036854775808]}})"),
                       "axis of 9223372036854775808 elements"));
  CHECK(test::contains(problem(R"({"t":{"shape":[36893488147419103232]}})"), "unexpected a fraction"));
  CHECK(test::contains(problem(R"({"t":{"data_offsets":[0]}})"), "1 data_offsets, wanted 2, in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"data_offsets":[]}})"), "0 data_offsets, wanted 2, in tensor `t`"));
  CHECK(test::contains(problem(R"({"t":{"data_offsets":[0,1,2]}})"),
                       "more than two data_offsets in tensor `t`"));
  CHECK(test::contains(problem(R"({"__metadata__":{"a":1}})"), "unexpected a number in __metadata__"));
  CHECK(test::contains(problem(R"({"__metadata__":{"a":{}}})"), "unexpected object in __metadata__"));
  CHECK(test::contains(problem(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ occurs twice"));
  CHECK(
      test::contains(problem(R"({"__metadata__":{"a":"1","a":"2"}})"), "the metadata key `a` occurs twice"));
  std::string axes = "1";
  for (int i = 0; i < 64; i++) axes += ",1";
  CHECK(test::contains(problem(R"({"t":{"shape":[)" + axes + "]}}"), "more than 64 axes in tensor `t`"));

  const std::string one = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(test::contains(problem("{" + one + "," + one + "}", 1), "the tensor `t` occurs twice"));
}

TEST_CASE("safetensors data that does not fit") {
  CHECK(problem(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7) ==
        "f: offset 62: tensor `t`: float32 of shape (2,) needs 8 bytes, its data_offsets hold 7");
  CHECK(test::contains(problem(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[4,2]}})", 4),
                       "tensor `t`: data_offsets 4 and 2 are not in order"));
  CHECK(test::contains(problem(R"({"t":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 4),
                       "tensor `t`: data_offsets 0 to 5, but the file has 4 bytes of data"));
  CHECK(
      test::contains(problem(R"({"t":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
                     "tensor `t`: float64 of shape (4294967296, 4294967296) needs 2^64 or more bytes, its "
                     "data_offsets hold 0"));
  CHECK(
      parse(file_of(R"({"t":{"dtype":"F64","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})")).ok());
  const std::string a = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)";
  CHECK(test::contains(problem(a + R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3),
                       "tensor `b`: its data overlaps that of the tensor before, which ends at 2"));
  CHECK(test::contains(problem(a + R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5),
                       "tensor `b`: its data leaves a gap after that of the tensor before, which ends at 2"));
  CHECK(test::contains(problem(a + R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", 5),
                       "2 bytes of data belong to no tensor"));
}

TEST_CASE("tensors survive a file") {
  test::TempDir dir;
  const std::string path = dir.file("t.safetensors");
  const NamedTensors saved{
      {"layer.weight", Tensor::from<float>({1.5f, -2, 3, 4, 5, 6}, {2, 3})},
      {"scalar", Tensor::from(NestedData(7), {.dtype = DType::Int64, .device = ""})},
      {"half", Tensor::from({{0.5, 65504.0}}, {.dtype = DType::Float16, .device = ""})},
      {"brain", Tensor::from({{-1.0, 3.140625}}, {.dtype = DType::BFloat16, .device = ""})},
      {"bits", Tensor::from(std::vector<bool>{true, false, true})},
      {"byte \"quoted\" ü", Tensor::from(std::vector<uint8_t>{0, 255})},
      {"empty", Tensor::from(std::vector<float>{}, {0, 3})},
      {"computed", Tensor::from<float>({1, 2, 3}) * 2.0},
      {"view", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).transpose()},
  };
  safe_save(saved, path, {{"format", "lathe"}});
  CHECK(safe_load_metadata(path) == Metadata{{"format", "lathe"}});
  const NamedTensors loaded = safe_load(path);
  REQUIRE(loaded.size() == saved.size());
  for (size_t i = 0; i < saved.size(); i++) {
    CAPTURE(saved[i].first);
    CHECK(loaded[i].first == saved[i].first);
    CHECK(loaded[i].second.dtype() == saved[i].second.dtype());
    CHECK(loaded[i].second.shape() == saved[i].second.shape());
    CHECK(loaded[i].second.bytes() == saved[i].second.bytes());
  }
  CHECK(loaded[8].second.to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});

  const std::string file = read_file(path);
  CHECK(static_cast<uint8_t>(file[0]) % 8 == 0);
  CHECK(file.substr(8, 58) == R"({"__metadata__":{"format":"lathe"},"layer.weight":{"dtype")");
}

TEST_CASE("what cannot be saved") {
  test::TempDir dir;
  const std::string path = dir.file("t.safetensors");
  auto problem_of = [&](const NamedTensors& tensors) {
    auto error = test::user_error([&] { safe_save(tensors, path); });
    CHECK(error.kind() == UserError::Kind::Value);
    CHECK(test::contains(error.what(), "while saving " + path));
    return std::string(error.what());
  };
  const Tensor t = Tensor::from<float>({1});
  CHECK(test::contains(problem_of({{"w", Tensor(2.5)}}),
                       "safe_save requires concrete dtypes, tensor `w` has dtypes.weakfloat"));
  CHECK(test::contains(problem_of({{"a", t}, {"a", t}}), "cannot save two tensors as `a`"));
  CHECK(test::contains(problem_of({{"__metadata__", t}}), "cannot save a tensor as `__metadata__`"));
  CHECK(test::contains(problem_of({{"\xff", t}}), "not valid UTF-8"));
  CHECK(test::contains(problem_of({{"z", t.cast(DType::Fp8E4M3Fnuz)}}),
                       "tensor `z`: safetensors has no dtype for"));
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("files that cannot be loaded are named with the tensor") {
  test::TempDir dir;
  const std::string path = dir.file("t.safetensors");
  auto problem_of = [&](std::string_view content) {
    write_file_atomically(path, content);
    return std::string(test::user_error([&] { safe_load(path); }).what());
  };
  CHECK(test::contains(problem_of(file_of(R"({"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 3)),
                       path + ": offset 65: tensor `w`: a truth value is 2"));
  CHECK(test::contains(
      problem_of(file_of(R"({"w":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})", 2)),
      path + ": offset 61: tensor `w`: data_offsets 0 to 3, but the file has 2 bytes of data"));
  CHECK(test::contains(problem_of(""), path + ": offset 0: a file of 0 bytes has no safetensors header"));
  CHECK_THROWS_AS(safe_load(dir.file("none")), UserError);
}
