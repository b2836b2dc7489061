#include "llm/tokenizer/train_bpe.h"

#include "base/error.h"
#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"

#include <map>
#include <random>

#include <doctest/doctest.h>

using namespace lathe;

namespace {

using Words = std::vector<std::vector<std::string>>;

// The definition: all pairs counted anew for every merge.
std::vector<std::string> naive_merges(std::span<const std::string_view> texts, size_t count,
                                      std::vector<std::string> tokens) {
  Words words;
  for (const std::string_view text : texts) {
    std::vector<std::string_view> pieces;
    PreTokenizer::named("qwen2").split(text, pieces);
    for (const std::string_view piece : pieces) {
      words.emplace_back();
      for (const char c : piece) words.back().push_back(bytes_to_characters(std::string(1, c)));
    }
  }
  std::vector<std::string> merges;
  std::map<std::string, size_t> id;
  for (size_t i = 0; i < tokens.size(); i++) id[tokens[i]] = i;
  while (merges.size() < count) {
    std::map<std::pair<size_t, size_t>, int> pairs;
    for (const auto& word : words)
      for (size_t i = 0; i + 1 < word.size(); i++) pairs[{id.at(word[i]), id.at(word[i + 1])}]++;
    std::pair<size_t, size_t> best;
    int most = 1;
    for (const auto& [pair, n] : pairs)
      if (n > most && !id.contains(tokens[pair.first] + tokens[pair.second])) most = n, best = pair;
    if (most < 2) break;
    const std::string left = tokens[best.first], right = tokens[best.second];
    merges.push_back(left + " " + right);
    id[left + right] = tokens.size();
    tokens.push_back(left + right);
    for (auto& word : words) {
      std::vector<std::string> merged;
      for (size_t i = 0; i < word.size(); i++) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        merged.push_back(here ? left + right : word[i]);
        if (here) i++;
      }
      word = merged;
    }
  }
  return merges;
}

}  // namespace

TEST_CASE("train_bpe makes the merges that counting anew makes") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; round++) {
    std::string text;
    const char* letters = round % 2 == 0 ? "ab  " : "abcde é\n\xFF";  // few letters: many ties and overlaps
    const size_t n = std::char_traits<char>::length(letters);
    for (int i = 0; i < 400; i++) text += letters[random() % n];
    const std::vector<std::string_view> texts{std::string_view(text).substr(0, 150),
                                              std::string_view(text).substr(150)};
    const Vocabulary vocabulary = train_bpe(texts, {.vocabulary = 256 + 60, .control_tokens = {"<|end|>"}});
    CAPTURE(round);
    const std::vector<std::string> bytes(vocabulary.tokens.begin(), vocabulary.tokens.begin() + 256);
    CHECK(vocabulary.merges == naive_merges(texts, 59, bytes));
    CHECK(vocabulary.tokens.size() == 256 + vocabulary.merges.size() + 1);
  }
}

TEST_CASE("train_bpe gives bytes their values as ids and control tokens the last ones") {
  const std::vector<std::string_view> texts{"the then there, the then there"};
  const Vocabulary v = train_bpe(texts, {.vocabulary = 264, .control_tokens = {"<|a|>", "<|b|>"}});
  REQUIRE(v.tokens.size() <= 264);
  for (int byte = 0; byte < 256; byte++)
    CHECK(characters_to_bytes(v.tokens[static_cast<size_t>(byte)]) ==
          std::string(1, static_cast<char>(byte)));
  CHECK(v.tokens.back() == "<|b|>");
  CHECK(v.types.size() == v.tokens.size());
  CHECK(v.types.back() == TokenType::Control);
  CHECK(v.types[v.types.size() - 3] == TokenType::Normal);
  CHECK(v.merges[0] == "h e");  // as frequent as "t h", with lower ids
}

TEST_CASE("train_bpe ends where no pair occurs twice") {
  const std::vector<std::string_view> texts{"abc"};
  const Vocabulary v = train_bpe(texts, {});
  CHECK(v.merges.empty());
  CHECK(v.tokens.size() == 256);
  CHECK(train_bpe({}, {}).tokens.size() == 256);
}

TEST_CASE("train_bpe refuses what cannot be a vocabulary") {
  CHECK_THROWS_WITH_AS(train_bpe({}, {.vocabulary = 256, .control_tokens = {"<|a|>"}}),
                       "a vocabulary of 256 tokens has no room for 256 bytes and 1 control tokens",
                       UserError);
  CHECK_THROWS_WITH_AS(train_bpe({}, {.control_tokens = {"<|a|>", "<|a|>"}}),
                       "the control token \"<|a|>\" is in the vocabulary twice", UserError);
}

TEST_CASE("a trained vocabulary gives every text back, and its tokens are used") {
  std::string text;
  for (int i = 0; i < 300; i++) text += "The " + std::to_string(i) + " horses' harness\r\n  and the héron…\n";
  const std::vector<std::string_view> texts{text};
  Vocabulary v = train_bpe(texts, {.vocabulary = 400, .control_tokens = {"<|end|>"}});
  const int32_t end = static_cast<int32_t>(v.tokens.size()) - 1;
  const Tokenizer tokenizer(v);
  const std::string all = text + "never seen: \xFF\xC3 \xF0\x9F\x98\x8A";
  const std::vector<int32_t> ids = tokenizer.encode(all, {.add_special = false});
  CHECK(tokenizer.decode(ids) == all);
  CHECK(ids.size() * 3 < all.size());
  CHECK(tokenizer.encode(" horses", {.add_special = false}).size() == 1);
  CHECK(tokenizer.encode("<|end|>", {.add_special = false, .parse_special = true}) == std::vector{end});
}
