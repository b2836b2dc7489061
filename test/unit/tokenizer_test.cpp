// Tokenizers on vocabularies made here, beside the plainest form of each algorithm.
#include "llm/tokenizer/tokenizer.h"

#include "formats/gguf/metadata.h"
#include "formats/utf8.h"
#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/merge.h"
#include "llm/tokenizer/pre_tokenizer.h"

#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <random>

#include "support/test.h"

using namespace lathe;

#ifndef __has_feature
#define __has_feature(name) 0
#endif

namespace {

// What sanitizers may make of a time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

using Ids = std::vector<int32_t>;
constexpr EncodeOptions kPlain{.add_special = false};

std::vector<std::string> split(std::string_view pre, std::string_view text) {
  std::vector<std::string_view> pieces;
  PreTokenizer::named(pre).split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

// All bytes, then what the merges make, of byte BPE.
Vocabulary byte_vocabulary(std::vector<std::pair<std::string, std::string>> merges,
                           std::string pre = "gpt-2") {
  Vocabulary v;
  v.pre = std::move(pre);
  for (int b = 0; b < 256; b++) v.tokens.push_back(bytes_to_characters(std::string(1, static_cast<char>(b))));
  for (const auto& [left, right] : merges) {
    v.merges.push_back(bytes_to_characters(left) + " " + bytes_to_characters(right));
    v.tokens.push_back(bytes_to_characters(left + right));
  }
  return v;
}

void add(Vocabulary& v, std::string token, TokenType type, float score = 0) {
  if (v.types.empty()) v.types.resize(v.tokens.size(), TokenType::Normal);
  if (v.scores.empty()) v.scores.resize(v.tokens.size(), 0);
  v.tokens.push_back(std::move(token));
  v.types.push_back(type);
  v.scores.push_back(score);
}

Vocabulary sentence_pieces(const std::vector<std::pair<std::string, float>>& pieces,
                           std::string model = "llama") {
  Vocabulary v;
  v.model = std::move(model);
  add(v, "<unk>", TokenType::Unknown);
  add(v, "<s>", TokenType::Control);
  add(v, "</s>", TokenType::Control);
  v.unknown = 0, v.bos = 1, v.eos = 2;
  for (int b = 0; b < 256; b++) add(v, fmt::format("<0x{:02X}>", b), TokenType::Byte);
  for (const auto& [piece, score] : pieces) add(v, piece, TokenType::Normal, score);
  return v;
}

// Merging as the definition has it.
Ids merge_plainly(Ids symbols, const std::map<std::pair<int32_t, int32_t>, Merge>& merges) {
  for (;;) {
    size_t best = 0;
    Merge found;
    for (size_t i = 0; i + 1 < symbols.size(); i++)
      if (const auto at = merges.find({symbols[i], symbols[i + 1]});
          at != merges.end() && at->second.rank < found.rank)
        found = at->second, best = i;
    if (found.rank == Merge::kNever) return symbols;
    symbols[best] = found.symbol;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Of this process, so that a busy machine does not count.
double milliseconds(const Tokenizer& tokenizer, const std::string& text, int times) {
  double best = 1e9;
  for (int i = 0; i < times; i++) {
    const std::clock_t start = std::clock();
    (void)tokenizer.encode(text, kPlain);
    best = std::min(best, static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC);
  }
  return best;
}

}  // namespace

TEST_CASE("code points and what is none") {
  using State = Utf8Step::State;
  for (const char32_t code :
       {0x00u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    const Utf8Step step = decode_utf8(to_utf8(code), 0);
    CHECK(step.state == State::Complete);
    CHECK(step.code == code);
    CHECK(step.length == to_utf8(code).size());
  }
  for (const auto& [text, length] : std::map<std::string, size_t>{{"\x80", 1},
                                                                  {"\xC0\x80", 1},
                                                                  {"\xE0\x80\x80", 1},
                                                                  {"\xED\xA0\x80", 1},
                                                                  {"\xF4\x90\x80\x80", 1},
                                                                  {"\xF0\x9F\x98z", 3},
                                                                  {"\xFFz", 1}}) {
    CHECK(decode_utf8(text, 0).state == State::Invalid);
    CHECK(decode_utf8(text, 0).length == length);
  }
  CHECK(decode_utf8("\xF0\x9F", 0).state == State::Truncated);
  CHECK(incomplete_utf8_tail("a\xF0\x9F\x98") == 3);
  CHECK(incomplete_utf8_tail("a\xF0\x9F\x98\x8A") == 0);
  CHECK(incomplete_utf8_tail("a\xF0z") == 0);
  std::string valid;
  append_valid_utf8(valid, "a\xF0\x9Fz\xFF");
  CHECK(valid == "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST_CASE("bytes as characters") {
  std::string all;
  for (int b = 0; b < 256; b++) all += static_cast<char>(b);
  CHECK(characters_to_bytes(bytes_to_characters(all)) == all);
  CHECK(bytes_to_characters(" \n!") == "ĠĊ!");
  CHECK(bytes_to_characters("\xAD") == "Ń");  // the last of the 68
  CHECK(characters_to_bytes("Ġ中") == " 中");
}

TEST_CASE("pieces of each pre-tokenizer") {
  using Pieces = std::vector<std::string>;
  CHECK(split("gpt-2", "I'll go  now 12345!? \n\n x") ==
        Pieces{"I", "'ll", " go", " ", " now", " 12345", "!?", " \n\n", " x"});
  CHECK(split("gpt-2", "ab \xFF\xFE cd\xC3") == Pieces{"ab", " ", "\xFF\xFE", " cd", "\xC3"});
  CHECK(split("llama-bpe", "I'LL go12345\r\n\n  x\u00a0y") ==
        Pieces{"I", "'LL", " go", "123", "45", "\r\n\n", " ", " x", "\u00a0y"});
  CHECK(split("llama-bpe", std::string(12'000'000, ' ') + "x").size() == 2);
  CHECK(split("llama-bpe", "today\n  \n") == Pieces{"today", "\n  \n"});
  CHECK(split("llama-bpe", std::string(" \u0085") + "0") == Pieces{" ", "\u0085", "0"});
  CHECK(split("llama3", std::string(17, '0')) == Pieces{"000", "000", "000", "000", "000", "00"});
  CHECK(split("qwen2", "a 12.\n\nb") == Pieces{"a", " ", "1", "2", ".\n\n", "b"});
  CHECK(split("qwen35", "e\u0301a e\u0301") == Pieces{"e\u0301a", " e\u0301"});
  CHECK(split("qwen2", "e\u0301a") == Pieces{"e", "\u0301a"});
  CHECK(split("starcoder", "a 12 b") == Pieces{"a", " ", "1", "2", " b"});
  CHECK(split("falcon", "a 12345 b.c!") == Pieces{"a", " ", "123", "45", " b", ".", "c", "!"});
  CHECK(split("deepseek-v3", "12345 中文 \xE3\x81\x82 don't.foo") ==
        Pieces{"123", "45", " ", "中文", " ", "\xE3\x81\x82", " don", "'t", ".foo"});
  CHECK(split("tekken", "HelloWorld HTTPServer a/b 12") ==
        Pieces{"Hello", "World", " HTTPServer", " a", "/b", " ", "1", "2"});
  CHECK(split("gpt-4o", "HelloWorld's 1234/\n") == Pieces{"Hello", "World's", " ", "123", "4", "/\n"});
  CHECK(split("kimi-k2", "Hello中文abc ab中's") == Pieces{"Hello", "中文", "abc", " ab", "中", "'s"});
  CHECK(split("gemma4", "a b\n\nc") == Pieces{"a b", "\n\n", "c"});
  CHECK(split("default", "a+b 1234") == Pieces{"a", "+", "b", " ", "123", "4"});
  CHECK(split("gpt-2", "\u180e") == Pieces{"\u180e"});  // no white space since Unicode 6.3
}

TEST_CASE("merging equals its definition") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    // Few symbols and random ranks, equal ones among them, so that a merge may make a pair of a lower rank.
    std::map<std::pair<int32_t, int32_t>, Merge> merges;
    const auto symbols = static_cast<int32_t>(2 + random() % 4);
    for (int i = 0; i < 12; i++)
      merges[{static_cast<int32_t>(random() % 8), static_cast<int32_t>(random() % 8)}] = {
          static_cast<int32_t>(random() % 6), static_cast<int32_t>(random() % 8)};
    MergeList list;
    for (const size_t size : {3, 20, 32, 33, 200}) {
      Ids text;
      for (size_t i = 0; i < size; i++) text.push_back(static_cast<int32_t>(random()) % symbols & 7);
      list.clear();
      for (size_t i = 0; i < size; i++) list.add(text[i], static_cast<uint32_t>(i));
      list.run(static_cast<uint32_t>(size), 6, [&](int32_t left, int32_t right, uint32_t, uint32_t) {
        const auto at = merges.find({left, right});
        return at == merges.end() ? Merge() : at->second;
      });
      Ids got;
      uint32_t covered = 0;
      list.each([&](int32_t symbol, uint32_t begin, uint32_t end) {
        got.push_back(symbol);
        CHECK(begin == covered);
        covered = end;
      });
      CHECK(got == merge_plainly(text, merges));
      CHECK(covered == size);
    }
  }
}

TEST_CASE("byte BPE") {
  const Tokenizer t(byte_vocabulary({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "hello"}}));
  CHECK(t.encode("hello hello", kPlain) == Ids{259, 260});
  CHECK(t.encode("hel", kPlain) == Ids{256, 'l'});
  CHECK(t.encode("", kPlain).empty());
  std::string all;
  for (int i = 0; i < 3000; i++) all += static_cast<char>(i * 7919 >> 3);
  CHECK(t.decode(t.encode(all, kPlain)) == all);  // also what is no UTF-8
  CHECK(t.encode("hello hello", kPlain) == Ids{259, 260});

  Vocabulary odd = byte_vocabulary({{"a", "b"}, {"ab", "c"}}, "llama-bpe");
  odd.tokens[256] = "other";  // "ab" is no token: it may be merged on, and else is a and b again
  add(odd, "xyz", TokenType::Normal);
  const Tokenizer u(odd);
  CHECK(u.encode("abc", kPlain) == Ids{257});
  CHECK(u.encode("abd", kPlain) == Ids{'a', 'b', 'd'});
  CHECK(u.encode("xyz", kPlain) == Ids{258});  // taken whole, without merges
  CHECK(u.encode("xyzabc", kPlain) == Ids{'x', 'y', 'z', 257});
}

TEST_CASE("special tokens") {
  Vocabulary v = byte_vocabulary({});
  add(v, "<|end|>", TokenType::Control);
  add(v, "<tool>", TokenType::UserDefined);
  add(v, "<tool>s", TokenType::UserDefined);
  add(v, "<|e", TokenType::Control);
  v.bos = v.eos = 256;
  const Tokenizer t(v);
  CHECK(t.encode("a<|end|>b", {.add_special = false, .parse_special = true}) == Ids{'a', 256, 'b'});
  CHECK(t.encode("a<|end|>b", kPlain).size() == 9);  // spelled out: text cannot forge a control token
  CHECK(t.encode("<tool>s<tool>", kPlain) == Ids{258, 257});
  CHECK(t.encode("<|en", {.add_special = false, .parse_special = true}) == Ids{259, 'n'});
  // A token that ends where plain text begins stays one, also where that text would make it longer.
  const TextRange plain[] = {{4, 7}};
  CHECK(t.encode("<|end|>", {.add_special = false, .parse_special = true, .plain = plain}) ==
        Ids{259, 'n', 'd', '|', '>'});
  CHECK(t.encode("a") == Ids{'a'});
  CHECK(t.decode(Ids{'a', 256, 257}) == "a<tool>");
  CHECK(t.decode(Ids{'a', 256, 257}, {.show_special = true}) == "a<|end|><tool>");
  CHECK(t.is_end_of_generation(256));
  CHECK(!t.is_end_of_generation(257));
  CHECK(t.find("<|end|>") == 256);
  v.add_bos = v.add_eos = true;
  CHECK(Tokenizer(v).encode("a") == Ids{256, 'a', 256});
  v.add_bos.reset();
  v.pre = "llama3";
  CHECK(Tokenizer(v).encode("a") == Ids{256, 'a', 256});
}

TEST_CASE("whole pieces of a small vocabulary") {
  Vocabulary v;
  v.pre = "tekken";
  for (const char* token : {"<unk>", "<s>", "</s>", "[INST]", "[/INST]"}) add(v, token, TokenType::Control);
  add(v, "hello", TokenType::Normal);
  v.bos = 1, v.eos = 2, v.unknown = 0;
  const Tokenizer t(v);
  CHECK(t.encode("hello", kPlain) == Ids{5});
  CHECK(t.encode("[INST]hello", {.add_special = true, .parse_special = true}) == Ids{1, 3, 5});
  CHECK(t.encode("[INST]", kPlain) == Ids{0, 0, 0, 0, 0, 0});
  v.unknown = Vocabulary::kNone;
  CHECK(test::contains(test::user_error([&] { (void)Tokenizer(v).encode("x"); }).what(),
                       "bytes 78 of the text"));
}

TEST_CASE("SentencePiece BPE") {
  const Tokenizer t(sentence_pieces({{"▁", -1},
                                     {"a", -2},
                                     {"b", -3},
                                     {"ab", -4},
                                     {"▁ab", -5},
                                     {"aa", -4},
                                     {"<", 0},
                                     {"s", 0},
                                     {"<s", 0},
                                     {"<s>", 0}}));
  const int32_t blank = 259, a = 260, b = 261, ab = 262, xab = 263, aa = 264;
  CHECK(t.encode("ab") == Ids{1, xab});
  CHECK(t.encode("aab", kPlain) == Ids{blank, aa, b});  // equal scores: leftmost first
  CHECK(t.encode("é", kPlain) == Ids{blank, 3 + 0xC3, 3 + 0xA9});
  CHECK(t.encode("", kPlain).empty());
  CHECK(t.encode("ab</s>ab", {.add_special = true, .parse_special = true}) == Ids{1, xab, 2, xab});
  CHECK(t.encode("<s>", kPlain).back() != 1);  // made of pieces, it still is no control token
  for (const std::string text : {"ab", " ab", "a  b ", "é\n", "\xFF\xFE"}) {
    CHECK(t.decode(t.encode(text)) == text);
    CHECK(t.decode(t.encode(text, kPlain)) == text);
  }
  Vocabulary without = t.vocabulary();
  without.add_space_prefix = false;
  CHECK(Tokenizer(without).encode("ab", kPlain) == Ids{ab});
  CHECK(Tokenizer(without).decode(Ids{blank, a}) == " a");
}

TEST_CASE("Unigram is the best of all ways to cut") {
  std::mt19937 random(3);
  std::vector<std::pair<std::string, float>> pieces = {{"▁", -2.f}, {"a", -3.f}, {"b", -3.5f}, {"c", -4.f}};
  for (const char* piece : {"ab", "abc", "bc", "▁a", "▁ab", "ca", "caa", "aab", "cab▁"})
    pieces.emplace_back(piece, -1.f - static_cast<float>(random() % 1000) / 200);
  const Tokenizer t(sentence_pieces(pieces, "t5"));
  const std::function<double(std::string_view)> best = [&](std::string_view rest) {
    double sum = rest.empty() ? 0 : -HUGE_VAL;
    for (const auto& [piece, score] : pieces)
      if (rest.starts_with(piece))
        sum = std::max(sum, static_cast<double>(score) + best(rest.substr(piece.size())));
    return sum;
  };
  for (int round = 0; round < 200; round++) {
    std::string text, marked = "▁";
    for (size_t i = 0; i < 1 + random() % 10; i++) text += "abc"[random() % 3];
    marked += text;
    double sum = 0;
    const Ids ids = t.encode(text, kPlain);
    for (const int32_t id : ids) sum += static_cast<double>(t.vocabulary().scores[static_cast<size_t>(id)]);
    CHECK(sum == doctest::Approx(best(marked)).epsilon(1e-6));
    CHECK(t.decode(ids) == text);
  }
  CHECK(t.encode("aXYb", kPlain) == Ids{t.find("▁a").value(), 0, t.find("b").value()});
  CHECK(t.encode("  ", kPlain).empty());
  CHECK(t.encode("a", {}).back() == 2);  // EOS unless told otherwise
}

TEST_CASE("Unigram's compiled normalisation") {
  // A trie of two rules, "A" → "a" and "fi" (U+FB01) → "fi", laid out as Darts does: a unit's base is offset
  // << 10, its label the low byte, 1 << 8 says that a value follows at the base.
  std::vector<uint32_t> units(1024, 0x80000000u);
  const auto link = [&](size_t node, uint32_t base) {
    units[node] = (units[node] & 0x3FFu) | (base ^ static_cast<uint32_t>(node)) << 10;
  };
  const auto child = [&](size_t base, uint8_t byte) {
    units[base ^ byte] = byte;
    return base ^ byte;
  };
  units[0] = 0;
  link(0, 256);
  const auto leaf = [&](size_t node, uint32_t base, uint32_t value) {
    units[node] |= 1u << 8;
    link(node, base);
    units[base] = 0x80000000u | value;
  };
  leaf(child(256, 'A'), 512, 0);
  size_t node = child(256, 0xEF);
  link(node, 768);
  node = child(768, 0xAC);
  link(node, 640);
  leaf(child(640, 0x81), 520, 2);
  std::string blob(4 + units.size() * 4, '\0');
  const auto bytes = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(blob.data(), &bytes, 4);
  std::memcpy(blob.data() + 4, units.data(), bytes);
  blob += std::string("a\0fi\0", 5);
  Vocabulary v = sentence_pieces({{"▁", -1}, {"a", -1}, {"f", -1}, {"i", -1}}, "t5");
  v.charsmap = blob;
  const Tokenizer t(v);
  CHECK(t.decode(t.encode("A\uFB01a", kPlain)) == "afia");
  v.charsmap = blob.substr(0, 100);
  CHECK(test::contains(test::user_error([&] { Tokenizer{v}; }).what(), "precompiled_charsmap"));
}

TEST_CASE("WordPiece") {
  Vocabulary v;
  v.model = "bert";
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) add(v, token, TokenType::Control);
  for (const char* token : {"▁un", "aff", "able", "▁!", "▁中", "▁a"}) add(v, token, TokenType::Normal);
  v.unknown = 1, v.cls = 2, v.separator = 3;
  const Tokenizer t(v);
  CHECK(t.encode("UNaffable!") == Ids{2, 4, 5, 6, 7, 3});
  CHECK(t.encode("ÀÅ  ä\u0301!\x01中a", kPlain) == Ids{1, 9, 7, 8, 9});
  CHECK(t.encode("u\u200Bn\u00AD\uE000\u0378aff", kPlain) == Ids{4, 5});  // formats, private, unassigned
  CHECK(t.encode("unx un", kPlain) == Ids{1, 4});
  CHECK(t.decode(Ids{4, 5, 6, 7}) == "unaffable !");
}

TEST_CASE("characters with merges, as gemma4 has them") {
  Vocabulary v;
  v.model = "gemma4";
  add(v, "<unk>", TokenType::Unknown);
  for (int b = 0; b < 256; b++) add(v, fmt::format("<0x{:02X}>", b), TokenType::Byte);
  for (const char* token : {"▁", "a", "é", "▁a", "▁aé", "\n", "\n\n"}) add(v, token, TokenType::Normal);
  v.merges = {"▁ a", "▁a é", "\n \n"};
  const Tokenizer t(v);
  CHECK(t.encode(" aé\n\na", kPlain) == Ids{261, 263, 258});
  CHECK(t.encode("ü", kPlain) == Ids{1 + 0xC3, 1 + 0xBC});
  for (const std::string text : {" aé\n\na ü\xFF", "a", " "}) CHECK(t.decode(t.encode(text, kPlain)) == text);
}

TEST_CASE("streams hold back what is not yet a character") {
  Vocabulary v = byte_vocabulary({});
  add(v, bytes_to_characters(" \xF0\x9F\x98"), TokenType::Normal);
  const Tokenizer t(v);
  StreamDecoder stream(t);
  CHECK(stream.push(256) == " ");
  CHECK(stream.push(0x8A) == "😊");
  CHECK(stream.push(0xE4).empty());
  CHECK(stream.push('x') == "\uFFFDx");
  CHECK(stream.push(0xE4).empty());
  CHECK(stream.finish() == "\uFFFD");
  const Tokenizer s(sentence_pieces({{"▁", -1}, {"a", -1}, {"▁a", -1}}));
  StreamDecoder first(s), within(s, {}, true);
  CHECK(first.push(1).empty());
  CHECK(first.push(261) == "a");
  CHECK(first.push(261) == " a");
  CHECK(within.push(261) == " a");
}

TEST_CASE("vocabularies that do not fit together") {
  const auto error = [](const Vocabulary& v) {
    return std::string(test::user_error([&] { Tokenizer{v}; }).what());
  };
  Vocabulary v = byte_vocabulary({});
  v.pre = "nonsense";
  CHECK(test::contains(error(v), "tokenizer.ggml.pre = \"nonsense\" is not a known way"));
  v = byte_vocabulary({});
  v.model = "rwkv";
  CHECK(test::contains(error(v), "tokenizer.ggml.model = \"rwkv\" is not supported"));
  v.model = "llama";
  CHECK(test::contains(error(v), "tokenizer.ggml.scores is missing"));
  v.scores = {1};
  CHECK(test::contains(error(v), "tokenizer.ggml.scores has 1 elements for 256 tokens"));
  v = byte_vocabulary({});
  v.types.assign(256, static_cast<TokenType>(9));
  CHECK(test::contains(error(v), "tokenizer.ggml.token_type[0] = 9"));
  v = byte_vocabulary({});
  v.eos = 256;
  CHECK(test::contains(error(v), "tokenizer.ggml.eos_token_id = 256 is outside of the 256 tokens"));
  v = byte_vocabulary({});
  v.merges = {"ab"};
  CHECK(test::contains(error(v), "tokenizer.ggml.merges[0] = \"ab\""));
  CHECK(test::contains(error(Vocabulary()), "there are none"));
  const Tokenizer t(byte_vocabulary({}));
  CHECK(test::contains(test::user_error([&] { (void)t.piece(256); }).what(),
                       "token 256 is outside of the 256"));
}

TEST_CASE("vocabularies from the keys of a file") {
  const Vocabulary v = sentence_pieces({{"▁", -1}, {"a", -2}, {"▁a", -3}});
  GgufMetadata m("test");
  m.set("tokenizer.ggml.model", v.model);
  m.set("tokenizer.ggml.tokens", v.tokens);
  m.set("tokenizer.ggml.scores", v.scores);
  std::vector<int32_t> types;
  for (const TokenType type : v.types) types.push_back(static_cast<int32_t>(type));
  m.set("tokenizer.ggml.token_type", types);
  m.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  m.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  m.set("tokenizer.ggml.seperator_token_id", uint32_t{0xFFFFFFFF});
  const Tokenizer t = Tokenizer::from_gguf(m);
  CHECK(t.encode("a") == Ids{1, 261});
  CHECK(t.vocabulary().separator == Vocabulary::kNone);
  m.set("tokenizer.ggml.add_bos_token", false);
  CHECK(Tokenizer::from_gguf(m).encode("a") == Ids{261});
  GgufMetadata pairs = m;
  pairs.set("tokenizer.ggml.model", "gpt2");
  pairs.set("tokenizer.ggml.pre", "gpt-2");
  CHECK(test::contains(test::user_error([&] { (void)Tokenizer::from_gguf(pairs); }).what(),
                       "ggml.merges is missing"));
  m.set("tokenizer.ggml.eos_token_id", uint32_t{262});
  CHECK(
      test::contains(test::user_error([&] { (void)Tokenizer::from_gguf(m); }).what(), "eos_token_id = 262"));
}

TEST_CASE("long and hostile texts take linear time") {
  constexpr size_t kMegabyte = 1 << 20;
  std::vector<std::pair<std::string, std::string>> merges;
  for (size_t n = 1; n < 64; n *= 2) merges.emplace_back(std::string(n, 'a'), std::string(n, 'a'));
  std::vector<std::pair<std::string, float>> pieces = {{"▁", -1}, {"a", -2}};
  for (size_t n = 2; n <= 64; n *= 2) pieces.emplace_back(std::string(n, 'a'), -static_cast<float>(n));
  const std::vector<std::pair<std::string, float>> short_pieces(
      pieces.begin(), pieces.begin() + 6);  // to 16, as SentencePiece has them
  Vocabulary words = sentence_pieces(pieces);
  words.model = "bert";
  Vocabulary characters = sentence_pieces(pieces);
  characters.model = "gemma4";
  for (size_t n = 1; n < 64; n *= 2)
    characters.merges.push_back(std::string(n, 'a') + " " + std::string(n, 'a'));
  const std::pair<std::string, Tokenizer> tokenizers[] = {
      {"gpt2", Tokenizer(byte_vocabulary(merges))},
      {"gpt2, tekken", Tokenizer(byte_vocabulary(merges, "tekken"))},
      {"gpt2, kimi-k2", Tokenizer(byte_vocabulary(merges, "kimi-k2"))},
      {"gpt2, deepseek-v3", Tokenizer(byte_vocabulary(merges, "deepseek-v3"))},
      {"llama", Tokenizer(sentence_pieces(pieces))},
      {"t5", Tokenizer(sentence_pieces(short_pieces, "t5"))},
      {"bert", Tokenizer(words)},
      {"gemma4", Tokenizer(characters)}};
  std::string sentence;
  for (size_t i = 0; sentence.size() < kMegabyte; i++) sentence += i % 7 ? "aa a" : "A9, é\n";
  for (const auto& [name, tokenizer] : tokenizers) {
    for (const std::string unit : {"a", "A", " ", "\n", "!", "0", "é", "\xFF", "中", " \n"}) {
      std::string text;
      while (text.size() < kMegabyte) text += unit;
      const double ms = milliseconds(tokenizer, text, unit == "a" ? 3 : 1) / kSlower;
      CHECK_MESSAGE(ms < (unit == "a" ? 100 : 300), name << ", 1 MB of '" << unit << "': " << ms << " ms");
      if (unit == "a") MESSAGE(name << ": " << ms << " ms for 1 MB of one letter");
    }
    const double ms = milliseconds(tokenizer, sentence, 1) / kSlower;
    CHECK_MESSAGE(ms < 700, name << ", 1 MB of mixed text: " << ms << " ms");
  }
}
