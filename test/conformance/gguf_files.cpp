// The GGUF files of stories260K, which llama.cpp quantised.
#include "formats/gguf/check.h"
#include "formats/gguf/quantize_file.h"

#include <algorithm>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;

namespace {

std::optional<GgufFile> stories(const std::string& name) {
  const auto folder = test::data_folder("llm");
  if (!folder) return std::nullopt;
  return GgufFile::open((*folder / "stories260K" / name).string()).value();
}

GgufFile parse(const std::string& bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "quantised").value();
}

// The same tensors, in any order.
void check_same(const GgufFile& got, const GgufFile& want) {
  CHECK(got.tensors().size() == want.tensors().size());
  for (const GgufTensor& t : want.tensors()) {
    CAPTURE(t.name);
    const GgufTensor* other = got.find(t.name);
    REQUIRE(other);
    CHECK(type_info(other->type).name == type_info(t.type).name);
    CHECK(other->shape == t.shape);
    const auto a = got.data(*other), b = want.data(t);
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

}  // namespace

TEST_CASE("F16 and Q4_K_M of stories260K are those of llama.cpp, byte for byte") {
  const auto whole = stories("stories260K-f32.gguf");
  if (!whole) return;
  for (const char* mix : {"F16", "Q4_K_M"}) {
    CAPTURE(mix);
    size_t heard = 0;
    const std::string bytes =
        quantize_file(*whole, {.mix = mix}, [&](const GgufTensor&) { heard++; }).to_bytes();
    const GgufFile got = parse(bytes);
    CHECK(heard == 48);
    check_same(got, *stories(std::string("stories260K-") + mix + ".gguf"));
    CHECK(got.metadata().at<int64_t>("general.quantization_version") == 2);
    CHECK(got.metadata().at<int64_t>("general.file_type") == (mix == std::string("F16") ? 1 : 15));
    CHECK(check_tensors(got).empty());
  }
  check_same(parse(quantize_file(*whole, {.mix = "copy"}).to_bytes()), *whole);
}

TEST_CASE("rows that are no whole blocks fall back, and quantised weights are not quantised again") {
  const auto whole = stories("stories260K-f32.gguf");
  if (!whole) return;
  for (const char* mix : {"Q4_0", "Q5_1", "Q8_0"}) {
    const auto types = plan_quantize(*whole, {.mix = mix, .is_pure = true});
    for (size_t i = 0; i < types.size(); i++) {
      const GgufTensor& t = whole->tensors()[i];
      const GgmlType want = t.shape.size() == 1                  ? GgmlType::F32
                            : test::contains(t.name, "ffn_down") ? GgmlType::F16
                                                                 : *ggml_type(std::string_view(mix));
      CHECK(types[i] == want);
    }
  }
  const auto packed = stories("stories260K-Q4_K_M.gguf");
  CHECK(test::contains(test::user_error([&] { plan_quantize(*packed, {.mix = "Q4_0"}); }).what(),
                       "tensor `token_embd.weight` is Q5_0 already; quantising it again makes it worse"));
  const auto types = plan_quantize(*packed, {.mix = "Q4_0", .allows_requantize = true});
  CHECK(std::count(types.begin(), types.end(), GgmlType::Q4_0) == 31);
}
