#include "formats/gguf/gguf.h"

#include "base/mmap.h"
#include "formats/gguf/writer.h"
#include "tensor/tensor.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "support/data.h"
#include "support/gguf_bytes.h"
#include "support/test.h"

using namespace lathe;

namespace {

Result<GgufHeader> parse(std::string_view file) {
  return parse_gguf_header(std::as_bytes(std::span(file)), "f.gguf");
}

// Values of every type, and tensors of several.
GgufWriter sample() {
  GgufWriter w;
  w.set("general.architecture", "llama");
  w.set("u8", uint8_t{200});
  w.set("i8", int8_t{-3});
  w.set("u16", uint16_t{65535});
  w.set("i16", int16_t{-300});
  w.set("u32", uint32_t{4294967295});
  w.set("i32", int32_t{-70000});
  w.set("u64", uint64_t{1} << 63);
  w.set("i64", int64_t{-1} << 62);
  w.set("f32", 1.5f);
  w.set("f64", 0.1);
  w.set("bool", true);
  w.set("empty", "");
  w.set("strings", std::vector<std::string>{"a", "", "ü"});
  w.set("floats", std::vector<float>{0.1f, -2});
  w.set("ints", std::vector<int32_t>{1, -2, 3});
  w.set("bools", std::vector<bool>{true, false});
  w.set("none", std::vector<uint16_t>{});
  w.set("nested", std::vector<GgufValue>{std::vector<int32_t>{1, 2}, std::vector<std::string>{"x"},
                                         std::vector<GgufValue>{}});
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.0f);
  w.add("matrix", {2, 3}, values);
  std::vector<std::byte> blocks(4 * 34);
  for (size_t i = 0; i < blocks.size(); i++) blocks[i] = std::byte(i);
  w.add("blocks", {2, 64}, GgmlType::Q8_0, blocks);
  w.add("scalar", {}, std::vector<float>{7});
  w.add("nothing", {0, 3}, std::vector<float>{});
  w.add("halves", {3}, GgmlType::F16, [] { return std::vector<std::byte>(6, std::byte{0x3c}); });
  return w;
}

}  // namespace

TEST_CASE("what is written to a GGUF file is read back") {
  for (const uint32_t alignment : {0, 8, 64}) {
    GgufWriter writer = sample();
    if (alignment) writer.set("general.alignment", alignment);
    const std::string bytes = writer.to_bytes();
    const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "memory").value();
    CHECK(file.name() == "memory");
    CHECK(file.version() == 3);
    CHECK(file.metadata().entries() == writer.metadata().entries());
    const GgufMetadata& m = file.metadata();
    CHECK(m.at<std::string>("general.architecture") == "llama");
    CHECK(m.at<int64_t>("u8") == 200);
    CHECK(m.at<int64_t>("i8") == -3);
    CHECK(m.at<int64_t>("u16") == 65535);
    CHECK(m.at<int64_t>("i16") == -300);
    CHECK(m.at<int64_t>("u32") == 4294967295);
    CHECK(m.at<int64_t>("i32") == -70000);
    CHECK(m.at<int64_t>("i64") == int64_t{-1} << 62);
    CHECK(m.at<double>("f32") == 1.5);
    CHECK(m.at<double>("f64") == 0.1);
    CHECK(m.at<double>("i8") == -3);
    CHECK(m.at<bool>("bool"));
    CHECK(m.at<std::string>("empty").empty());
    CHECK(*m.find<std::vector<std::string>>("strings") == std::vector<std::string>{"a", "", "ü"});
    CHECK(*m.find<std::vector<int64_t>>("ints") == std::vector<int64_t>{1, -2, 3});
    CHECK(*m.find<std::vector<double>>("floats") == std::vector<double>{double{0.1f}, -2});
    CHECK(m.value("floats")->element_type() == GgufValueType::Float32);
    CHECK(m.value("nested")->to_text() == R"([[1, 2], ["x"], []])");
    CHECK(m.value("u64")->to_text() == "9223372036854775808");
    CHECK(!m.find<int64_t>("absent"));
    CHECK(m.get_or<int64_t>("absent", 4) == 4);
    CHECK(m.get_or<std::string>("absent", "x") == "x");

    REQUIRE(file.tensors().size() == 5);
    CHECK(file.at("matrix").shape == std::vector<int64_t>{2, 3});
    for (const GgufTensor& t : file.tensors()) CHECK(t.offset % std::max(alignment, 8u) == 0);
    CHECK(file.tensor("matrix").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
    CHECK(file.tensor("scalar").item<float>() == 7);
    CHECK(file.tensor("nothing").max_numel() == 0);
    const Tensor packed = file.packed("blocks");
    CHECK(packed.dtype() == DType::UInt8);
    CHECK(packed.max_shape() == Shape{2, 68});
    CHECK(packed.to_vector<int>()[100] == 100);
    CHECK(file.tensor("halves").to_vector<float>()[2] == doctest::Approx(1.0586));
  }
}

TEST_CASE("a GGUF file shares its memory with tensors") {
  test::TempDir dir;
  const std::string path = dir.file("a.gguf");
  sample().write(path);
  std::optional<Tensor> t;
  {
    const GgufFile file = GgufFile::open(path).value();
    t = file.packed("blocks");
    CHECK(file.data(file.at("blocks"))[5] == std::byte{5});
  }
  CHECK(t->is_realized());
  CHECK(t->to_vector<int>()[135] == 135);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) ==
        1);  // no temporary file is left
}

TEST_CASE("keys of another type are errors that name file, key and types") {
  const std::string bytes = sample().to_bytes();
  const GgufHeader header = parse(bytes).value();
  const GgufMetadata& m = header.metadata;
  const auto text = [](auto&& f) { return std::string(test::user_error(f).what()); };
  CHECK(text([&] { m.find<int64_t>("f32"); }) == "f.gguf: key `f32` has to be an integer, not f32 1.5");
  CHECK(text([&] { m.find<int64_t>("bool"); }) == "f.gguf: key `bool` has to be an integer, not bool true");
  CHECK(text([&] { m.find<std::string>("u8"); }) == "f.gguf: key `u8` has to be a string, not u8 200");
  CHECK(text([&] { m.find<std::vector<std::string>>("ints"); }) ==
        "f.gguf: key `ints` has to be an array of strings, not array of 3 i32 [1, -2, 3]");
  CHECK(text([&] { m.find<bool>("u8"); }) == "f.gguf: key `u8` has to be a truth value, not u8 200");
  CHECK(text([&] { m.find<double>("empty"); }) == "f.gguf: key `empty` has to be a number, not string ");
  CHECK(text([&] { m.find<int64_t>("u64"); }) ==
        "f.gguf: key `u64` is 9223372036854775808, more than 2^63 - 1");
  CHECK(text([&] { m.at<int64_t>("x.y"); }) == "f.gguf: key `x.y` is missing");
}

TEST_CASE("version 2 and shapes") {
  test::GgufBytes b;
  b.start(1, 0, 2).tensor("t", {4, 3, 2}, 0, 0).data(96);
  const GgufHeader header = parse(b.str()).value();
  CHECK(header.version == 2);
  CHECK(header.tensors[0].shape == std::vector<int64_t>{2, 3, 4});
  CHECK(header.tensors[0].bytes == 96);
  CHECK(header.tensors[0].elements() == 24);
  CHECK(header.tensors[0].row_bytes() == 16);
  CHECK(header.tensors[0].offset == b.str().size() - 96);
}

TEST_CASE("tensors come in any order and may leave gaps") {
  test::GgufBytes b;
  b.start(2, 0).tensor("b", {4}, 0, 96).tensor("a", {8}, 0, 0).data(112);
  const GgufHeader header = parse(b.str()).value();
  CHECK(header.tensors[0].offset == header.tensors[1].offset + 96);
}

TEST_CASE("a GGUF file cut off anywhere is an error") {
  const std::string whole = sample().to_bytes();
  const GgufHeader header = parse(whole).value();
  size_t end = 0;
  for (const GgufTensor& t : header.tensors) end = std::max(end, static_cast<size_t>(t.offset + t.bytes));
  for (size_t size = 0; size < end; size++) {
    const auto result = parse(std::string_view(whole).substr(0, size));
    REQUIRE(!result.ok());
    REQUIRE(result.error().offset <= size);
  }
  CHECK(parse(std::string_view(whole).substr(0, end)).ok());
}

TEST_CASE("GGUF files with flipped bits are read or refused") {
  const std::string whole = sample().to_bytes();
  for (size_t at = 0; at < parse(whole).value().tensors[0].offset; at++)
    for (int bit = 0; bit < 8; bit++) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      const auto result = parse(damaged);
      if (!result.ok()) {
        REQUIRE(result.error().offset <= damaged.size());
      } else {
        for (const GgufTensor& t : result.value().tensors) REQUIRE(t.offset + t.bytes <= damaged.size());
      }
    }
}

TEST_CASE("split GGUF files") {
  test::TempDir dir;
  const auto write = [&](int64_t part, int64_t count, const std::string& tensor, int64_t says_part,
                         int64_t total) {
    GgufWriter w;
    if (part == 0) w.set("general.architecture", "llama");
    w.set("split.no", static_cast<uint16_t>(says_part));
    w.set("split.count", static_cast<uint16_t>(count));
    w.set("split.tensors.count", static_cast<int32_t>(total));
    w.add(tensor, {2}, std::vector<float>{static_cast<float>(part), 1});
    const std::string path = gguf_part_name(dir.file("m"), part, count);
    w.write(path);
    return path;
  };
  const std::string first = write(0, 3, "a", 0, 3), second = write(1, 3, "b", 1, 3);
  CHECK(std::filesystem::path(first).filename() == "m-00001-of-00003.gguf");
  const auto open_problem = [](const std::string& path) {
    const auto result = GgufFile::open(path);
    REQUIRE(!result.ok());
    return result.error().message();
  };
  CHECK(test::contains(open_problem(first), "part 3 of 3 is missing: " + dir.file("m-00003-of-00003.gguf")));
  const std::string third = write(2, 3, "c", 2, 3);
  const GgufFile file = GgufFile::open(first).value();
  CHECK(file.parts() == 3);
  CHECK(file.metadata().at<std::string>("general.architecture") == "llama");
  CHECK(file.tensors().size() == 3);
  CHECK(file.tensor("c").to_vector<float>() == std::vector<float>{2, 1});
  CHECK(test::contains(open_problem(second), "this is part 2 of 3; load the first one"));
  std::filesystem::copy(first, dir.file("other.gguf"));
  CHECK(test::contains(open_problem(dir.file("other.gguf")), "has a name that ends in -00001-of-00003.gguf"));
  const std::string bytes = read_file(first);
  const auto memory = GgufFile::parse(std::as_bytes(std::span(bytes)), "memory");
  REQUIRE(!memory.ok());
  CHECK(test::contains(memory.error().message(), "loaded by the path of the first"));
  write(2, 3, "b", 2, 3);
  CHECK(test::contains(open_problem(first), "tensor `b` is in an earlier part, too"));
  write(2, 3, "c", 1, 3);
  CHECK(test::contains(open_problem(first), "key split.no is 1 and split.count is 3 in part 3 of 3"));
  write(2, 3, "c", 2, 3), write(0, 3, "a", 0, 4);
  CHECK(
      test::contains(open_problem(first), "3 parts have 3 tensors, not the 4 of key `split.tensors.count`"));
}

TEST_CASE("the GGUF files of stories260K") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const GgufFile file = GgufFile::open((*folder / "stories260K/stories260K-f32.gguf").string()).value();
  CHECK(file.metadata().at<std::string>("general.architecture") == "llama");
  CHECK(file.metadata().at<int64_t>("llama.embedding_length") == 64);
  CHECK(file.metadata().find<std::vector<std::string>>("tokenizer.ggml.tokens")->size() == 512);
  CHECK(file.tensors().size() == 48);
  CHECK(file.at("token_embd.weight").shape == std::vector<int64_t>{512, 64});
  CHECK(file.tensor("output_norm.weight").max_shape() == Shape{64});
  // Written again it is the same file but for the version of the bytes before the data.
  GgufWriter writer(file.metadata());
  for (const GgufTensor& t : file.tensors()) {
    const auto data = file.data(t);
    writer.add(t.name, t.shape, t.type, std::vector<std::byte>(data.begin(), data.end()));
  }
  CHECK(writer.to_bytes() == read_file(file.name()));
}
