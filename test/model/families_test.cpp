// Every family of models against the reference.
#include "support/model_check.h"
#include "support/random_model.h"
#include "support/test.h"

using namespace lathe;

TEST_CASE("every family computes what the reference does, whole, in parts and after other texts") {
  for (const std::string& family : test::random_families()) test::check_family(family);
}

TEST_CASE("packed weights, also those of experts and latent attention") {
  test::check_family("qwen3moe", {.type = GgmlType::Q8_0});
  test::check_family("gpt-oss", {.type = GgmlType::MXFP4});
  test::check_family("mixtral", {.type = GgmlType::Q4_0});
  test::check_family("deepseek2", {.type = GgmlType::Q5_1});
  test::check_family("deepseek2-combined", {.type = GgmlType::IQ4_NL});
  test::check_family("kimi-linear", {.type = GgmlType::F16});
  test::check_family("qwen35", {.type = GgmlType::Q8_0});
  test::check_family("mamba2", {.type = GgmlType::BF16});
}

TEST_CASE("activations of 8 bits") {
  // No experts here: which are chosen may change with the last bit.
  for (const char* family : {"qwen3", "qwen35", "mamba"})
    test::check_family(family, {.type = GgmlType::Q8_0, .int8_activations = true, .tolerance = 1.5});
}
