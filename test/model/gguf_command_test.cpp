// `lathe gguf`.
#include "archive/little_endian.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <limits>

#include "support/command.h"
#include "support/data.h"

using namespace lathe;
using test::contains;
using test::run_command;

namespace {

void write_model(const std::string& path, float last = 1) {
  GgufWriter w;
  w.set("general.architecture", "llama");
  w.set("general.name", "a\nb");
  w.set("llama.block_count", uint32_t{1});
  w.set("tokenizer.ggml.tokens", std::vector<std::string>(20, "x"));
  w.set("big", uint64_t{1} << 63);
  std::vector<float> x(512);
  for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i));
  x.back() = last;
  w.add("token_embd.weight", {2, 256}, x);
  w.add("blk.0.attn_q.weight", {2, 256}, x);
  w.add("blk.0.ffn_down.weight", {8, 64}, x);
  w.add("output_norm.weight", {2}, std::vector<float>{1, 2});
  w.write(path);
}

}  // namespace

TEST_CASE("gguf help has examples") {
  for (const char* arguments : {"gguf --help", "gguf show --help", "gguf check --help",
                                "gguf quantize --help", "gguf convert --help"}) {
    const test::Outcome outcome = run_command(arguments);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "Examples:\n  lathe gguf"));
  }
  CHECK(run_command("gguf").code == 2);
  CHECK(run_command("gguf show /nonexistent").code == 2);
}

TEST_CASE("gguf show") {
  test::TempDir dir;
  const std::string path = dir.file("m.gguf");
  write_model(path);
  const test::Outcome text = run_command("gguf show '" + path + "'");
  CHECK(text.code == 0);
  CHECK(contains(text.out, "GGUF version 3, 5 keys, 4 tensors\n"));
  CHECK(contains(text.out, "general.name (string) = a\\nb\n"));
  CHECK(contains(text.out, "tokenizer.ggml.tokens (array of 20 string) = [\"x\", \"x\""));
  CHECK(contains(text.out, "blk.0.ffn_down.weight  F32     [8, 64]"));
  CHECK(contains(text.out, "32.00 bits a weight\n"));
  const auto json = nlohmann::json::parse(run_command("gguf show --json '" + path + "'").out);
  CHECK(json["metadata"]["big"]["value"] == uint64_t{1} << 63);
  CHECK(json["metadata"]["tokenizer.ggml.tokens"]["value"].size() == 8);
  CHECK(json["metadata"]["tokenizer.ggml.tokens"]["size"] == 20);
  CHECK(json["tensors"][2]["shape"] == nlohmann::json({8, 64}));
  CHECK(json["types"]["F32"]["bytes"] == json["bytes"]);
  const auto full = nlohmann::json::parse(run_command("gguf show --full --json '" + path + "'").out);
  CHECK(full["metadata"]["tokenizer.ggml.tokens"]["value"].size() == 20);
}

TEST_CASE("gguf check") {
  test::TempDir dir;
  const std::string path = dir.file("m.gguf");
  write_model(path);
  const test::Outcome fine = run_command("gguf check '" + path + "'");
  CHECK(fine.code == 0);
  CHECK(contains(fine.out, "4 tensors of 6152 bytes, nothing is wrong"));
  write_model(path, std::numeric_limits<float>::infinity());
  const test::Outcome bad = run_command("gguf check '" + path + "'");
  CHECK(bad.code == 1);
  CHECK(contains(bad.out,
                 "tensor `blk.0.attn_q.weight`: it is infinite or no number: first in block 511, in 1"));
  const auto json = nlohmann::json::parse(run_command("gguf check --json '" + path + "'").out);
  CHECK(json["faults"].size() == 3);
  std::filesystem::resize_file(path, 3000);
  const test::Outcome cut = run_command("gguf check '" + path + "'");
  CHECK(cut.code == 1);
  CHECK(contains(cut.err, "tensor `blk.0.attn_q.weight`: its 2048 bytes are at 2048 of the data"));
}

TEST_CASE("gguf quantize") {
  test::TempDir dir;
  const std::string in = dir.file("m.gguf"), out = dir.file("q.gguf");
  write_model(in);
  const std::string files = fmt::format("gguf quantize '{}' '{}' ", in, out);
  const test::Outcome dry = run_command(files + "q4_k_m --dry-run");
  CHECK(dry.code == 0);
  CHECK(contains(dry.out, "blk.0.ffn_down.weight  F32 to Q8_0\n"));
  CHECK(!std::filesystem::exists(out));
  const test::Outcome done = run_command(files + "Q4_K_M --json");
  CHECK(done.code == 0);
  const auto json = nlohmann::json::parse(done.out);
  CHECK(json["tensors"][0]["to"] == "Q6_K");  // the output matrix as well
  CHECK(json["tensors"][1]["to"] == "Q4_K");
  const GgufFile file = GgufFile::open(out).value();
  CHECK(file.at("blk.0.attn_q.weight").type == GgmlType::Q4_K);
  CHECK(json["bytes"] == 2 * 210 + 2 * 144 + 16 * 34 + 8);
  CHECK(run_command(files + "Q8_0 --tensor-type 'attn_.=f16' --token-embedding-type q5_0").code == 0);
  CHECK(GgufFile::open(out).value().at("blk.0.attn_q.weight").type == GgmlType::F16);
  CHECK(GgufFile::open(out).value().at("token_embd.weight").type == GgmlType::Q5_0);
  for (auto [arguments, problem] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Q9_9", "there is no mix `Q9_9`"},
           {"Q8_0 --output-tensor-type Q9", "there is no type `Q9`"},
           {"Q8_0 --tensor-type attn", "`attn` is not PATTERN=TYPE"}}) {
    const test::Outcome wrong = run_command(files + arguments);
    CHECK(wrong.code == 1);
    CHECK(contains(wrong.err, problem));
  }
  const test::Outcome twice =
      run_command(fmt::format("gguf quantize '{}' '{}' Q4_0", out, dir.file("again.gguf")));
  CHECK(twice.code == 1);
  CHECK(contains(twice.err, "--allow-requantize"));
}

TEST_CASE("gguf convert") {
  test::TempDir dir;
  const test::Outcome wrong =
      run_command(fmt::format("gguf convert '{}' '{}'", dir.path().string(), dir.file("m.gguf")));
  CHECK(wrong.code == 1);
  CHECK(contains(wrong.err, "config.json"));
  CHECK(!std::filesystem::exists(dir.file("m.gguf")));
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::string stories = (*folder / "stories260K").string();
  const test::Outcome done = run_command(
      fmt::format("gguf convert '{0}/stories260K.bin' '{1}' --tokenizer '{0}/tok512.bin' --type f16 --json",
                  stories, dir.file("m.gguf")));
  CHECK(done.code == 0);
  const auto json = nlohmann::json::parse(done.out);
  CHECK(json["architecture"] == "llama");
  CHECK(json["tensors"] == 47);
  CHECK(GgufFile::open(dir.file("m.gguf")).value().at("blk.4.ffn_down.weight").type == GgmlType::F16);

  // The model as it is says what it has to say.
  const auto convert = fmt::format("gguf convert '{0}/stories260K.bin' '{1}' --tokenizer '{0}/tok512.bin'",
                                   stories, dir.file("m.gguf"));
  CHECK(run_command(convert).code == 0);
  const std::string golden = read_file(stories + "/golden_greedy_ids.i32");
  std::string ids;
  for (size_t i = 1; i < golden.size() / 4; i++)  // without BOS
    ids +=
        fmt::format("{}{}", i > 1 ? " " : "", read_little_endian(std::as_bytes(std::span(golden)), 4 * i, 4));
  const test::Outcome story =
      run_command(fmt::format("run -m '{}' -p '' -n 256 --ids --kv-type f32", dir.file("m.gguf")));
  CHECK(story.out == ids + "\n");
}
