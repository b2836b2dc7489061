#include "base/error.h"
#include "formats/gguf/metadata.h"
#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"

#include <algorithm>

namespace lathe {
namespace {

std::optional<bool> flag(const GgufMetadata& metadata, std::string_view key) {
  return metadata.find<bool>(std::string("tokenizer.ggml.") + std::string(key));
}

// Ids that are all ones mean that there is none.
int32_t id(const GgufMetadata& metadata, std::string_view key, std::string_view other = "") {
  auto value = metadata.find<int64_t>(std::string("tokenizer.ggml.") + std::string(key));
  if (!value && !other.empty())
    value = metadata.find<int64_t>(std::string("tokenizer.ggml.") + std::string(other));
  if (!value || *value == 0xFFFFFFFF || *value < 0) return Vocabulary::kNone;
  return *value > INT32_MAX ? INT32_MAX : static_cast<int32_t>(*value);
}

}  // namespace

Tokenizer Tokenizer::from_gguf(const GgufMetadata& metadata) {
  Vocabulary v;
  v.model = metadata.at<std::string>("tokenizer.ggml.model");
  v.pre = metadata.get_or<std::string>("tokenizer.ggml.pre", "");
  v.tokens = metadata.at<std::vector<std::string>>("tokenizer.ggml.tokens");
  if (const auto* scores = metadata.find<std::vector<double>>("tokenizer.ggml.scores"))
    v.scores.assign(scores->begin(), scores->end());
  if (const auto* types = metadata.find<std::vector<int64_t>>("tokenizer.ggml.token_type"))
    for (const int64_t type : *types)
      v.types.push_back(static_cast<TokenType>(std::clamp<int64_t>(type, INT8_MIN, INT8_MAX)));
  if (const auto* merges = metadata.find<std::vector<std::string>>("tokenizer.ggml.merges"))
    v.merges = *merges;
  if (const auto* map = metadata.find<std::vector<int64_t>>("tokenizer.ggml.precompiled_charsmap"))
    v.charsmap.assign(map->begin(), map->end());
  v.bos = id(metadata, "bos_token_id");
  v.eos = id(metadata, "eos_token_id");
  v.eot = id(metadata, "eot_token_id");
  v.eom = id(metadata, "eom_token_id");
  v.unknown = id(metadata, "unknown_token_id");
  v.separator =
      id(metadata, "separator_token_id", "seperator_token_id");  // files with the second spelling exist
  v.padding = id(metadata, "padding_token_id");
  v.cls = id(metadata, "cls_token_id");
  v.mask = id(metadata, "mask_token_id");
  v.add_bos = flag(metadata, "add_bos_token");
  v.add_eos = flag(metadata, "add_eos_token");
  v.add_separator = flag(metadata, "add_sep_token");
  v.add_space_prefix = flag(metadata, "add_space_prefix");
  v.remove_extra_whitespaces = flag(metadata, "remove_extra_whitespaces");
  const ErrorContext context([&] { return "reading the tokenizer of " + metadata.where(); });
  if (v.model == "gpt2" && !metadata.has("tokenizer.ggml.merges") &&
      !PreTokenizer::named(v.pre).ignore_merges())
    value_error("tokenizer.ggml.merges is missing, which model \"gpt2\" needs");
  return Tokenizer(std::move(v));
}

}  // namespace lathe
