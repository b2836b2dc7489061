#include "formats/gguf/check.h"
#include "formats/gguf/quantize_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/gguf_reference.h"
#include "support/test.h"

using namespace lathe;

namespace {

GgufFile parse(const std::string& bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "model").value();
}

// Weights of a model's names, with rows of 256.
std::string model(int64_t layers, int64_t experts = 0, bool has_output = true) {
  GgufWriter w;
  w.set("general.architecture", "llama");
  w.set("llama.block_count", static_cast<uint32_t>(layers));
  if (experts) w.set("llama.expert_count", static_cast<uint32_t>(experts));
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    std::vector<float> x(1);
    for (const int64_t n : shape) x.resize(x.size() * static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i));
    w.add(name, std::move(shape), x);
  };
  add("token_embd.weight", {3, 256});
  if (has_output) add("output.weight", {3, 256});
  add("output_norm.weight", {256});
  for (int64_t i = 0; i < layers; i++)
    for (const char* part :
         {"attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "ffn_down", "ffn_gate_inp", "attn_norm"})
      add(fmt::format("blk.{}.{}.weight", i, part),
          part == std::string_view("attn_norm") ? std::vector<int64_t>{256} : std::vector<int64_t>{2, 256});
  add("blk.0.ffn_down_exps.weight", {2, 2, 256});
  add("blk.0.attn_q.bias", {256});
  return w.to_bytes();
}

std::string type_of(const GgufFile& file, const QuantizeOptions& options, const std::string& name) {
  const auto types = plan_quantize(file, options);
  const GgufTensor& t = file.at(name);
  return std::string(type_info(types[static_cast<size_t>(&t - file.tensors().data())]).name);
}

}  // namespace

TEST_CASE("what a mix gives each weight") {
  const std::string bytes = model(16);
  const GgufFile file = parse(bytes);
  const auto type = [&](const char* mix, const std::string& name) {
    return type_of(file, {.mix = mix}, name);
  };
  CHECK(type("Q4_K_M", "output.weight") == "Q6_K");
  CHECK(type("Q4_K_M", "token_embd.weight") == "Q4_K");
  CHECK(type("Q4_K_M", "blk.0.attn_q.weight") == "Q4_K");
  CHECK(type("Q4_K_M", "blk.0.attn_qkv.weight") == "Q5_K");
  CHECK(type("Q5_K_M", "blk.0.attn_qkv.weight") == "Q6_K");
  CHECK(type("Q5_K_M", "blk.3.attn_k.weight") == "Q5_K");
  CHECK(type("Q4_K_M", "blk.0.ffn_down_exps.weight") == "Q6_K");
  // Layers 0 and 1, every third one from 4 on, 14 and 15.
  for (const int layer : {0, 1, 4, 7, 10, 13, 14, 15}) {
    CHECK(type("Q4_K_M", fmt::format("blk.{}.attn_v.weight", layer)) == "Q6_K");
    CHECK(type("Q5_K_M", fmt::format("blk.{}.ffn_down.weight", layer)) == "Q6_K");
  }
  for (const int layer : {2, 3, 5, 12})
    CHECK(type("Q4_K_M", fmt::format("blk.{}.ffn_down.weight", layer)) == "Q4_K");
  for (const char* kept :
       {"output_norm.weight", "blk.3.attn_norm.weight", "blk.3.ffn_gate_inp.weight", "blk.0.attn_q.bias"})
    CHECK(type("Q4_K_M", kept) == "F32");
  CHECK(type("Q8_0", "output.weight") == "Q8_0");
  CHECK(type("bf16", "output.weight") == "BF16");
  CHECK(type("Q4_0", "output.weight") == "Q6_K");
  CHECK(type("MXFP4", "blk.0.ffn_down_exps.weight") == "MXFP4");
  CHECK(type("MXFP4", "blk.0.ffn_down.weight") == "Q8_0");

  const std::string tied = model(80, 0, false), mixture = model(16, 8);
  CHECK(type_of(parse(tied), {.mix = "Q4_K_M"}, "token_embd.weight") == "Q6_K");
  CHECK(type_of(parse(tied), {.mix = "Q4_K_M"}, "blk.11.attn_v.weight") == "Q5_K");
  for (const char* name : {"blk.2.attn_k.weight", "blk.2.attn_v.weight"})
    CHECK(type_of(parse(mixture), {.mix = "Q4_K_M"}, name) == "Q8_0");
  CHECK(type_of(parse(mixture), {.mix = "Q4_K_M"}, "blk.2.attn_output.weight") == "Q5_K");

  CHECK(type_of(file, {.mix = "Q4_K_M", .output = GgmlType::F16}, "output.weight") == "F16");
  CHECK(type_of(file, {.mix = "Q4_K_M", .token_embedding = GgmlType::Q8_0}, "token_embd.weight") == "Q8_0");
  CHECK(type_of(file, {.mix = "Q4_K_M", .is_pure = true}, "output.weight") == "Q4_K");
  CHECK(type_of(file, {.mix = "Q4_K_M", .leaves_output = true}, "output.weight") == "F32");
  const QuantizeOptions overridden{.mix = "Q4_K_M", .overrides = {{"attn_[qk]\\.", GgmlType::Q8_0}}};
  CHECK(type_of(file, overridden, "blk.1.attn_k.weight") == "Q8_0");
  CHECK(type_of(file, overridden, "blk.1.attn_qkv.weight") == "Q5_K");

  CHECK(test::contains(test::user_error([&] { plan_quantize(file, {.mix = "Q9"}); }).what(),
                       "there is no mix `Q9`; there are F32, F16,"));
  CHECK(test::contains(test::user_error([&] {
                         plan_quantize(file, {.mix = "Q8_0", .overrides = {{"attn_q", GgmlType::IQ1_S}}});
                       }).what(),
                       "tensor `blk.0.attn_q.weight`: IQ1_S can be read, but not made"));
}

TEST_CASE("a quantised file unpacks to about the weights it was made of") {
  const std::string bytes = model(2);
  const GgufFile file = parse(bytes);
  const std::string packed = quantize_file(file, {.mix = "Q6_K"}).to_bytes();
  const std::string again =
      quantize_file(parse(packed), {.mix = "BF16", .allows_requantize = true}).to_bytes();
  for (const std::string& made : {packed, again}) {
    const GgufFile got = parse(made);
    for (const GgufTensor& t : got.tensors()) {
      const std::vector<float> x = got.tensor(t).to_vector<float>(),
                               want = file.tensor(t.name).to_vector<float>();
      REQUIRE(x.size() == want.size());
      for (size_t i = 0; i < x.size(); i++) REQUIRE(std::abs(x[i] - want[i]) <= 0.05);
    }
  }
}

TEST_CASE("scales that are no numbers are found") {
  for (const GgmlTypeInfo& info : ggml_types()) {
    CAPTURE(info.name);
    if (info.plain && !is_float(*info.plain)) continue;
    if (info.type == GgmlType::NVFP4) continue;  // its scales are finite whatever their bits
    std::vector<std::byte> data(static_cast<size_t>(3 * info.block_bytes));
    const auto faults = [&] {
      GgufWriter w;
      w.add("fine", {1}, std::vector<float>{1});
      w.add("t", {3 * info.block_elements}, info.type, data);
      const std::string bytes = w.to_bytes();
      return check_tensors(parse(bytes));
    };
    CHECK(faults().empty());
    // Whatever bit patterns make an element infinite or no number are found, and no others.
    const auto block =
        std::span(data).subspan(static_cast<size_t>(info.block_bytes), static_cast<size_t>(info.block_bytes));
    size_t found = 0;
    for (size_t at = 0; at < block.size() && !info.plain; at++) {
      std::fill(block.begin(), block.end(), std::byte{});
      if (at) block[at - 1] = std::byte{0xff};
      block[at] = std::byte{0x7c};
      if (info.type == GgmlType::IQ1_M) block[53] = std::byte{0xc0};
      if (info.type == GgmlType::MXFP4) block[at] = std::byte{0xff};
      bool is_finite = info.type != GgmlType::MXFP4 || block[0] != std::byte{0xff};
      const test::GgufBlock reference({reinterpret_cast<const uint8_t*>(block.data()), block.size()},
                                      info.type);
      for (int e = 0; e < info.block_elements; e++)
        is_finite = is_finite && std::isfinite(reference.element(e));
      const auto list = faults();
      CHECK(list.empty() == is_finite);
      if (list.empty()) continue;
      found++;
      CHECK(list[0].tensor == "t");
      CHECK(list[0].block == 1);
      CHECK(list[0].blocks == 1);
    }
    CHECK((info.plain || found > 0));
  }
  GgufWriter w;
  w.add("t", {4}, std::vector<float>{1, std::numeric_limits<float>::infinity(), 2, std::nanf("")});
  const std::string bytes = w.to_bytes();
  const auto list = check_tensors(parse(bytes));
  REQUIRE(list.size() == 1);
  CHECK(list[0].block == 1);
  CHECK(list[0].blocks == 2);
}
