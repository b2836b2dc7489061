// Files of tensors: checkpoints of PyTorch, npz and npy, indexes of shards, and the door to all of them.
#include "formats/tensor_file.h"

#include "archive/little_endian.h"
#include "base/mmap.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/tensor_index.h"
#include "formats/torch.h"

#include <cstring>
#include <filesystem>

#include "support/pickle_writer.h"
#include "support/test.h"
#include "support/zip_of.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::string floats(const std::vector<float>& v) {
  std::string out(v.size() * 4, '\0');
  if (!v.empty()) std::memcpy(out.data(), v.data(), out.size());
  return out;
}

// A checkpoint with storage "0": 1 … 6.
std::string checkpoint(const std::string& object) {
  return zip_of({{"net/data.pkl", pickle::file(object)}, {"net/data/0", floats({1, 2, 3, 4, 5, 6})}});
}
std::string view(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t offset = 0) {
  return pickle::tensor(pickle::storage("FloatStorage", "0", 6), offset, shape, strides);
}

std::string corpus(std::string_view name) {
  return std::string(LATHE_SOURCE_DIR) + "/test/fuzz/corpus/" + std::string(name);
}

const Tensor& named(const NamedTensors& list, std::string_view name) {
  for (const auto& [key, t] : list)
    if (key == name) return t;
  FAIL("no tensor " << name);
  throw 0;  // FAIL has left already
}

std::string torch_problem(const std::string& file) {
  const auto result = parse_torch(bytes_of(file), "f");
  REQUIRE(!result.ok());
  return result.error().message();
}

}  // namespace

TEST_CASE("checkpoints of PyTorch, as Python wrote them") {
  for (const char* name : {"torch/zip", "torch/zip_deflated", "torch/stream"}) {
    CAPTURE(name);
    const TensorFile file = load_tensor_file(corpus(name));
    CHECK(file.format == "PyTorch");
    CHECK(file.metadata == Metadata{{"epoch", "3"}, {"lr", "0.5"}, {"name", "net"}});
    REQUIRE(file.tensors.size() == 5);
    CHECK(named(file.tensors, "state_dict.fc.weight").to_vector<float>() ==
          std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(named(file.tensors, "state_dict.fc.bias").dtype() == DType::Float16);
    CHECK(named(file.tensors, "state_dict.fc.bias").to_vector<float>() == std::vector<float>{0.5, -1});
    CHECK(named(file.tensors, "state_dict.t").to_vector<float>() == std::vector<float>{2, 5, 3, 6});
    CHECK(named(file.tensors, "state_dict.zero").to_vector<float>() ==
          std::vector<float>{3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5});
    CHECK(named(file.tensors, "state_dict.n").shape().empty());
    CHECK(named(file.tensors, "state_dict.n").item<int64_t>() == 7);
  }
  const NamedTensors old = torch_load(corpus("torch/tar"));
  CHECK(named(old, "w").to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(named(old, "v").to_vector<float>() == std::vector<float>{4, 5});
  CHECK(named(torch_load(corpus("torch/stream_view")), "v").to_vector<float>() ==
        std::vector<float>{3, 4, 5});
}

TEST_CASE("views of a storage") {
  TempDir dir;
  const auto values = [&](const std::string& tensor) {
    write_file_atomically(dir.file("v.pt"), checkpoint(tensor));
    const NamedTensors loaded = load_tensors(dir.file("v.pt"));
    REQUIRE(loaded.size() == 1);
    CHECK(loaded[0].first == "v");
    return loaded[0].second.to_vector<float>();
  };
  using List = std::vector<float>;
  CHECK(values(view({2, 3}, {3, 1})) == List{1, 2, 3, 4, 5, 6});
  CHECK(values(view({3, 2}, {1, 3})) == List{1, 4, 2, 5, 3, 6});
  CHECK(values(view({2, 1, 2}, {1, 9, 2}, 1)) == List{2, 4, 3, 5});
  CHECK(values(view({2}, {4}, 1)) == List{2, 6});
  CHECK(values(view({2, 2}, {3, 2})) == List{1, 3, 4, 6});
  CHECK(values(view({2, 2}, {0, 5})) == List{1, 6, 1, 6});
  CHECK(values(view({}, {}, 5)) == List{6});
  CHECK(values(view({0, 4}, {4, 1}, 100)).empty());
  // Overlapping, but no more than the storage holds.
  CHECK(values(view({2, 3}, {1, 1})) == List{1, 2, 3, 2, 3, 4});
  write_file_atomically(dir.file("v.pt"), checkpoint(view({3, 3}, {1, 1})));
  CHECK(contains(user_error([&] { load_tensors(dir.file("v.pt")); }).what(),
                 "a view whose 9 elements overlap in a storage of 6 cannot be loaded"));
}

TEST_CASE("modules, unknown classes and what cannot be rebuilt") {
  namespace p = pickle;
  // A pickled module: attributes, of which the dicts of parameters and modules are its own.
  const std::string layer =
      p::object("net.Layer", p::tuple({}),
                p::dict({{p::text("_parameters"), p::dict({{p::text("w"), view({2}, {1})}})},
                         {p::text("training"), p::truth(true)}}));
  const auto module = parse_torch(
      bytes_of(checkpoint(p::object("net.Net", p::tuple({}),
                                    p::dict({{p::text("_modules"), p::dict({{p::text("fc"), layer}})}})))),
      "f");
  REQUIRE(module.ok());
  REQUIRE(module.value().tensors.size() == 1);
  CHECK(module.value().tensors[0].name == "fc.w");
  CHECK(module.value().metadata.empty());

  const auto skipped = parse_torch(
      bytes_of(checkpoint(p::dict({{p::text("path"), p::call("pathlib.PosixPath", p::tuple({p::text("x")}))},
                                   {p::text("w"), view({2}, {1})}}))),
      "f");
  REQUIRE(skipped.ok());
  CHECK(skipped.value().tensors.size() == 1);

  // What was appended to an object is no dict.
  const auto queue = parse_torch(bytes_of(checkpoint(p::call("collections.deque", p::tuple({})) + "(" +
                                                     view({1}, {1}) + view({2}, {1}) + "e")),
                                 "f");
  REQUIRE(queue.ok());
  REQUIRE(queue.value().tensors.size() == 2);
  CHECK(queue.value().tensors[1].name == "1");

  CHECK(contains(torch_problem(read_file(corpus("torch/zip_quantised"))),
                 "tensor `q`: it is made by `torch._utils._rebuild_qtensor`, which is not known here"));
  CHECK(contains(torch_problem(read_file(corpus("torch/zip_outside"))),
                 "tensor `q`: shape (2,) with strides (1,) from 5 leaves the storage of 6 elements"));
  CHECK(contains(torch_problem(read_file(corpus("torch/zip_no_record"))),
                 "the archive has no record `net/data/0`"));
  CHECK(contains(torch_problem(read_file(corpus("torch/zip_cycle"))), "values nest deeper than 200"));
  // Few bytes, and 2^40 ways to the tensor.
  std::string doubled = view({1}, {1}) + std::string("q\0", 2);
  for (int i = 0; i < 40; i++) doubled += std::string("(h\0h\0tq\0", 8);
  CHECK(contains(torch_problem(checkpoint(doubled)), "more than 1048576 values"));
  CHECK(contains(torch_problem(checkpoint(
                     p::tensor(p::storage("FloatStorage", std::string(2000, 'k'), 6), 0, {1}, {1}))),
                 "is not that of a storage"));
  // A long list of numbers, met many times.
  std::string lists = "((";
  for (int i = 0; i < 10'000; i++) lists += "N";
  lists += std::string("tq\0", 3);
  for (int i = 0; i < 10'000; i++) lists += std::string("h\0", 2);
  CHECK(contains(torch_problem(checkpoint(lists + "t")), "67108864 numbers in lists"));
  // A name as long as the file, many times.
  std::string globals = "(" + p::text(std::string(1 << 20, 'n')) + std::string("q\0", 2);
  for (int i = 0; i < 100; i++) globals += std::string("h\0h\0\x93", 5);
  CHECK(contains(torch_problem(checkpoint(globals + "t")), "bytes of names of globals"));
  CHECK(contains(torch_problem(read_file(corpus("torch/stream_cut"))), "elements of 8 bytes are announced"));
  CHECK(contains(torch_problem(checkpoint(view({2, 2}, {int64_t{1} << 62, int64_t{1} << 62}))),
                 "leaves the storage"));
  CHECK(
      contains(torch_problem(checkpoint(view({int64_t{1} << 61}, {0}))), "more elements than fit in memory"));
  CHECK(contains(torch_problem(checkpoint(p::tensor(p::storage("ComplexFloatStorage", "0", 1), 0, {1}, {1}))),
                 "there is no dtype for torch.ComplexFloatStorage"));
  CHECK(contains(torch_problem(checkpoint(p::tensor(p::storage("FloatStorage", "0", 7), 0, {1}, {1}))),
                 "record `net/data/0` has 24 bytes, its storage needs 28"));
  CHECK(contains(torch_problem(read_file(corpus("torch/opcode"))),
                 "offset 17: opcode 0x49 is not one that checkpoints are made of"));
  const std::string deflated =
      zip_of({{"net/data.pkl", p::file(p::text(std::string(10'000, 'x')) + "I")}}, true);
  const auto inside = parse_torch(bytes_of(deflated), "f");
  REQUIRE(!inside.ok());
  CHECK(inside.error().offset <= deflated.size());
  CHECK(contains(torch_problem("text"), "no checkpoint of PyTorch"));
}

TEST_CASE("npz files") {
  TempDir dir;
  const NamedTensors saved{{"w", Tensor::from<float>({1, 2, 3, 4}, {2, 2})},
                           {"flags", Tensor::from(std::vector<bool>{true, false})},
                           {"n", Tensor::from(NestedData(7), {.dtype = DType::Int64, .device = ""})}};
  for (bool compressed : {false, true}) {
    save_npz(saved, dir.file("t.npz"), {.compressed = compressed});
    const TensorFile loaded = load_tensor_file(dir.file("t.npz"));
    CHECK(loaded.format == "npz");
    REQUIRE(loaded.tensors.size() == saved.size());
    for (size_t i = 0; i < saved.size(); i++) {
      CHECK(loaded.tensors[i].first == saved[i].first);
      CHECK(loaded.tensors[i].second.dtype() == saved[i].second.dtype());
      CHECK(loaded.tensors[i].second.shape() == saved[i].second.shape());
      CHECK(loaded.tensors[i].second.bytes() == saved[i].second.bytes());
    }
  }
  for (const char* name : {"zip/npz_stored", "zip/npz_deflated"})
    CHECK(named(load_npz(corpus(name)), "a").to_vector<float>() == std::vector<float>{1, 2});
  CHECK(contains(user_error([&] { load_npz(corpus("zip/bad_crc")); }).what(), "does not match its CRC"));
  CHECK(contains(user_error([&] {
                   save_npz({{"a", saved[0].second}, {"a", saved[0].second}}, dir.file("t.npz"));
                 }).what(),
                 "cannot save two tensors as `a`"));
}

TEST_CASE("npy files of other orders") {
  TempDir dir;
  const auto load = [&](const std::string& dictionary, const std::string& data) {
    const std::string file =
        std::string("\x93NUMPY\1\0", 8) + little_endian(dictionary.size(), 2) + dictionary + data;
    write_file_atomically(dir.file("a.npy"), file);
    return load_npy(dir.file("a.npy"));
  };
  const std::string four("\0\1\0\2\0\3\0\4", 8);
  CHECK(load("{'descr': '>i2', 'fortran_order': False, 'shape': (4,), }", four).to_vector<int>() ==
        std::vector<int>{1, 2, 3, 4});
  CHECK(load("{'descr': '>i2', 'fortran_order': True, 'shape': (2L, 2L), }", four).to_vector<int>() ==
        std::vector<int>{1, 3, 2, 4});
  CHECK(load("{'descr': '<i2', 'fortran_order': False, 'shape': (0, 3), }", "").shape() == Shape{0, 3});
  CHECK(contains(user_error([&] {
                   load("{'descr': '<i2', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}", "");
                 }).what(),
                 "tensor `a`: shape (4294967296, 4294967296, 0) is too large"));
  std::string ones;
  for (int i = 0; i < 65; i++) ones += "1,";
  CHECK(contains(user_error([&] {
                   load("{'descr': '|i1', 'fortran_order': False, 'shape': (" + ones + ")}", "x");
                 }).what(),
                 "more than 64 axes"));
  CHECK(contains(user_error([&] {
                   load("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", four);
                 }).what(),
                 "arrays of structures cannot be read"));
  CHECK(contains(
      user_error([&] { load("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", four); }).what(),
      "elements of type `<c8` cannot be read"));
}

TEST_CASE("tensors in shards") {
  TempDir dir;
  const std::string index = dir.file("m.safetensors.index.json");
  const NamedTensors saved{{"a", Tensor::from<float>({1, 2})},
                           {"b", Tensor::from<float>({3})},
                           {"c", Tensor::from<float>({4, 5, 6})}};
  save_sharded(saved, index, 12);
  CHECK(std::filesystem::exists(dir.file("m-00001-of-00002.safetensors")));
  const TensorFile loaded = load_tensor_file(index);
  CHECK(loaded.format == "safetensors index");
  CHECK(loaded.metadata.at("total_size") == "24");
  REQUIRE(loaded.tensors.size() == 3);
  for (size_t i = 0; i < saved.size(); i++) {
    CHECK(loaded.tensors[i].first == saved[i].first);
    CHECK(loaded.tensors[i].second.bytes() == saved[i].second.bytes());
  }
  const std::string text = read_file(index);
  const auto problem = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    write_file_atomically(index, changed);
    return std::string(user_error([&] { load_tensors(index); }).what());
  };
  CHECK(contains(problem("\"c\"", "\"d\""), "tensor `d` is missing, which the index says is here"));
  CHECK(contains(problem("\"b\": \"m-00001", "\"b\": \"m-00002"),
                 "but the index says `m-00002-of-00002.safetensors`"));
  CHECK(contains(problem("\"b\"", "\"a\""), "the tensor `a` occurs twice"));
  CHECK(contains(problem("m-00001", "../m-00001"), "is not a file below the index's folder"));
  CHECK(contains(problem("m-00001", "/m-00001"), "is not a file below the index's folder"));
  CHECK(contains(problem("m-00001", "none"), "cannot open"));
  CHECK(contains(problem("weight_map", "weights"), "the index has no weight_map"));
  CHECK(contains(problem("{", "{,"), "the index is not valid JSON"));
  CHECK(contains(problem("24", "1e999"), "the index is not valid JSON"));
  CHECK(contains(problem("\"m-00001-of-00002.safetensors\"", "[]"), "tensor `a`: its file is no text"));
  CHECK(contains(problem("{", R"({"weight_map": {}, )"), "weight_map occurs twice"));
  const auto other = parse_shard_index(
      R"({"metadata": {"a": {"b": 1}, "c": 1.5, "d": null}, "e": [{"f": 2}], "weight_map": {"w": "x/y"}})",
      "i");
  REQUIRE(other.ok());
  CHECK(other.value().metadata == Metadata{{"c", "1.5"}, {"d", "null"}});
  CHECK(other.value().weight_map == std::vector{std::pair(std::string("w"), std::string("x/y"))});
  CHECK(contains(parse_shard_index("[{}]", "i").error().text, "the index has no weight_map"));
  CHECK(contains(parse_shard_index(R"({"weight_map": 1})", "i").error().text, "the index has no weight_map"));
  CHECK(contains(user_error([&] { save_sharded(saved, dir.file("x.json")); }).what(),
                 "the name of an index ends in"));
}

TEST_CASE("a loaded tensor shares the file, and writing to it leaves the file") {
  TempDir dir;
  const std::string path = dir.file("t.safetensors");
  save_tensors({{"w", Tensor::from<float>({1, 2, 3, 4})}}, path);
  const std::string before = read_file(path);
  Tensor w = load_tensors(path)[0].second;
  w.assign(w * 2.0).realize();
  CHECK(w.to_vector<float>() == std::vector<float>{2, 4, 6, 8});
  CHECK(read_file(path) == before);
  // Replaced or gone, the file stays with the tensors that came from it.
  const Tensor kept = load_tensors(path)[0].second;
  std::filesystem::remove(path);
  CHECK(kept.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("the ending says how to save, the content how to load") {
  TempDir dir;
  const NamedTensors one{{"w", Tensor::from<float>({1, 2})}};
  for (const char* name : {"w.safetensors", "w.safetensors.index.json", "w.npz", "w.npy"}) {
    save_tensors(one, dir.file(name));
    const NamedTensors loaded = load_tensors(dir.file(name));
    REQUIRE(loaded.size() == 1);
    CHECK(loaded[0].first == "w");
    CHECK(loaded[0].second.to_vector<float>() == std::vector<float>{1, 2});
  }
  CHECK(contains(user_error([&] { save_tensors(one, dir.file("w.txt")); }).what(), "tensors are saved as"));
  CHECK(contains(user_error([&] { save_tensors({}, dir.file("w.npy")); }).what(),
                 "npy holds one tensor, not 0"));
  write_file_atomically(dir.file("x"), std::string_view("text"));
  CHECK(contains(user_error([&] { load_tensors(dir.file("x")); }).what(),
                 "no file of tensors that can be read"));
}
