#include "llm/tokenizer/tokenizer.h"

#include "base/error.h"
#include "formats/gguf/metadata.h"
#include "formats/utf8.h"
#include "llm/tokenizer/algorithm.h"
#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <mutex>

namespace lathe {
namespace {

enum class Kind { BytePair, CharacterPair, SentencePiece, Unigram, WordPiece };

Kind kind_of(std::string_view model) {
  constexpr std::pair<std::string_view, Kind> kModels[] = {{"gpt2", Kind::BytePair},
                                                           {"gemma4", Kind::CharacterPair},
                                                           {"llama", Kind::SentencePiece},
                                                           {"t5", Kind::Unigram},
                                                           {"bert", Kind::WordPiece}};
  for (const auto& [name, kind] : kModels)
    if (name == model) return kind;
  value_error("tokenizer.ggml.model = \"{}\" is not supported; known are: gpt2 llama bert t5 gemma4", model);
}

constexpr std::string_view kEnds[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
                                      "<|endoftext|>", "<|eom_id|>", "<EOT>",   "<|return|>",
                                      "<|call|>",      "<turn|>",    "</s>"};

// Tokens as the text that the algorithm compares with.
std::vector<std::string> spellings_of(const Vocabulary& v, Kind kind) {
  std::vector<std::string> out = v.tokens;
  if (kind != Kind::BytePair) return out;
  for (size_t i = 0; i < out.size(); i++) {
    const TokenType type = v.type(static_cast<int32_t>(i));
    if (type == TokenType::Normal || type == TokenType::Unused) out[i] = characters_to_bytes(out[i]);
  }
  return out;
}

// The bytes that a token stands for.
std::string bytes_of(const std::string& spelling, TokenType type, Kind kind) {
  if (type == TokenType::Byte)
    if (const int byte = byte_of(spelling); byte >= 0) return std::string(1, static_cast<char>(byte));
  if (kind == Kind::BytePair || type == TokenType::Control || type == TokenType::Unknown) return spelling;
  std::string out;
  for (size_t i = 0; i < spelling.size();) {
    const bool blank = std::string_view(spelling).substr(i).starts_with(kBlank);
    out += blank ? ' ' : spelling[i];
    i += blank ? kBlank.size() : 1;
  }
  return out;
}

// Where the first of the ranges that ends behind `at` begins.
size_t next_range(std::span<const TextRange> ranges, size_t at) {
  const auto next =
      std::partition_point(ranges.begin(), ranges.end(), [&](TextRange r) { return r.end <= at; });
  return next == ranges.end() ? std::string_view::npos : next->begin;
}

std::optional<bool> flag(const GgufMetadata& metadata, std::string_view key) {
  return metadata.find<bool>(std::string("tokenizer.ggml.") + std::string(key));
}

constexpr std::pair<std::string_view, int32_t Vocabulary::*> kSpecialIds[] = {
    {"bos", &Vocabulary::bos},         {"eos", &Vocabulary::eos},
    {"eot", &Vocabulary::eot},         {"eom", &Vocabulary::eom},
    {"unknown", &Vocabulary::unknown}, {"separator", &Vocabulary::separator},
    {"padding", &Vocabulary::padding}, {"cls", &Vocabulary::cls},
    {"mask", &Vocabulary::mask}};

// Ids that are all ones mean that there is none.
int32_t id(const GgufMetadata& metadata, std::string_view key, std::string_view other = "") {
  auto value = metadata.find<int64_t>(std::string("tokenizer.ggml.") + std::string(key));
  if (!value && !other.empty())
    value = metadata.find<int64_t>(std::string("tokenizer.ggml.") + std::string(other));
  if (!value || *value == 0xFFFFFFFF || *value < 0) return Vocabulary::kNone;
  return *value > INT32_MAX ? INT32_MAX : static_cast<int32_t>(*value);
}

}  // namespace

struct Tokenizer::State {
  explicit State(Vocabulary v)
      : vocabulary((lathe::check(v), std::move(v))),
        kind(kind_of(vocabulary.model)),
        pre(kind == Kind::BytePair        ? &PreTokenizer::named(vocabulary.pre)
            : kind == Kind::CharacterPair ? &PreTokenizer::named("gemma4")
                                          : nullptr),
        spellings(spellings_of(vocabulary, kind)),
        index(vocabulary, spellings) {
    const bool is_piece = kind == Kind::SentencePiece || kind == Kind::WordPiece;
    add_bos = vocabulary.add_bos.value_or(is_piece || (pre && pre->add_bos()));
    add_eos = vocabulary.add_eos.value_or(kind == Kind::Unigram);
    add_separator = vocabulary.add_separator.value_or(kind == Kind::WordPiece);
    space_prefix =
        vocabulary.add_space_prefix.value_or(true) && (kind == Kind::SentencePiece || kind == Kind::Unigram);
    std::vector<TokenTrie::Entry> always, with_control;
    for (size_t i = 0; i < spellings.size(); i++) {
      const auto id = static_cast<int32_t>(i);
      const TokenType type = vocabulary.type(id);
      pieces.push_back(bytes_of(spellings[i], type, kind));
      names.try_emplace(vocabulary.tokens[i], id);
      if (type == TokenType::UserDefined) always.push_back({spellings[i], id});
      if (type == TokenType::UserDefined || type == TokenType::Control || type == TokenType::Unknown)
        with_control.push_back({spellings[i], id});
    }
    user_defined = TokenTrie(std::move(always));
    special = TokenTrie(std::move(with_control));
    ends = {vocabulary.eos, vocabulary.eot, vocabulary.eom};
    for (const std::string_view name : kEnds)
      if (const auto at = names.find(name); at != names.end()) ends.push_back(at->second);
    std::erase(ends, Vocabulary::kNone);
    algorithm = kind == Kind::SentencePiece ? make_sentence_piece(vocabulary, index, space_prefix)
                : kind == Kind::Unigram     ? make_unigram(vocabulary, index, space_prefix)
                : kind == Kind::WordPiece   ? make_word_piece(vocabulary, index)
                                            : make_byte_pair(vocabulary, index, *pre);
  }

  const Vocabulary vocabulary;
  const Kind kind;
  const PreTokenizer* const pre;
  const std::vector<std::string> spellings;
  const TokenIndex index;
  std::vector<std::string> pieces;  // bytes that tokens stand for
  std::unordered_map<std::string_view, int32_t> names;
  TokenTrie user_defined, special;  // what texts are cut at without and with parse_special
  std::vector<int32_t> ends;
  bool add_bos, add_eos, add_separator, space_prefix;
  std::mutex mutex;  // of what follows
  std::unique_ptr<TokenizerAlgorithm> algorithm;
  std::unique_ptr<TokenTrie> text_trie;
};

void check(const Vocabulary& v) {
  const auto same_length = [&](size_t count, std::string_view key) {
    if (count != 0 && count != v.tokens.size())
      value_error("tokenizer.ggml.{} has {} elements for {} tokens", key, count, v.tokens.size());
  };
  if (v.tokens.empty()) value_error("tokenizer.ggml.tokens: there are none");
  if (v.tokens.size() > 1u << 30 || v.merges.size() > 1u << 30)
    value_error("tokenizer.ggml.tokens: {} tokens and {} merges are too many", v.tokens.size(),
                v.merges.size());
  same_length(v.scores.size(), "scores");
  same_length(v.types.size(), "token_type");
  if (v.scores.empty() && (v.model == "llama" || v.model == "t5"))
    value_error("tokenizer.ggml.scores is missing, which model \"{}\" needs", v.model);
  for (size_t i = 0; i < v.types.size(); i++)
    if (v.types[i] < TokenType::Normal || v.types[i] > TokenType::Byte)
      value_error("tokenizer.ggml.token_type[{}] = {} is not in 1..6", i, static_cast<int>(v.types[i]));
  for (const auto& [name, member] : kSpecialIds)
    if (const int32_t id = v.*member;
        id != Vocabulary::kNone && (id < 0 || static_cast<size_t>(id) >= v.tokens.size()))
      value_error("tokenizer.ggml.{}_token_id = {} is outside of the {} tokens", name, id, v.tokens.size());
}

Tokenizer::Tokenizer(Vocabulary vocabulary) : state_(std::make_shared<State>(std::move(vocabulary))) {}

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
  for (const auto& [name, member] : kSpecialIds)
    v.*member = id(metadata, fmt::format("{}_token_id", name),
                   member == &Vocabulary::separator ? "seperator_token_id"  // such files exist
                                                    : "");
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

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  State& s = *state_;
  const Vocabulary& v = s.vocabulary;
  if (text.size() > 1u << 30)
    value_error("a text of {} bytes is more than the 2^30 that are encoded", text.size());
  const int32_t first = v.bos != Vocabulary::kNone ? v.bos : v.cls;
  std::vector<int32_t> out;
  if (options.add_special && s.add_bos && first != Vocabulary::kNone) out.push_back(first);
  const TokenTrie& cuts = options.parse_special ? s.special : s.user_defined;
  {
    const std::lock_guard lock(s.mutex);
    size_t done = 0;
    const auto encode_to = [&](size_t end) {
      if (end > done) s.algorithm->encode(text.substr(done, end - done), out);
    };
    for (size_t i = 0; i < text.size();) {
      auto match = cuts.may_begin(text[i]) ? cuts.longest(text.substr(i)) : std::nullopt;
      if (const size_t plain = match ? next_range(options.plain, i) : text.npos;
          match && plain < i + match->length) {
        // What ends before the plain text stays a token, whatever that text would make of it.
        match = plain > i ? cuts.longest(text.substr(i, plain - i)) : std::nullopt;
        if (!match) match = s.user_defined.longest(text.substr(i));
      }
      if (!match) {
        i++;
        continue;
      }
      encode_to(i);
      out.push_back(match->id);
      done = i += match->length;
    }
    encode_to(text.size());
  }
  if (options.add_special && s.add_separator && v.separator != Vocabulary::kNone) out.push_back(v.separator);
  if (options.add_special && s.add_eos && v.eos != Vocabulary::kNone) out.push_back(v.eos);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, DecodeOptions options) const {
  std::string out;
  for (const int32_t id : tokens)
    if (options.show_special || !is_control(id)) out += piece(id);
  const bool from_text =
      std::any_of(tokens.begin(), tokens.end(), [&](int32_t id) { return !is_control(id); });
  const bool strip = state_->space_prefix || state_->kind == Kind::WordPiece;
  if (strip && from_text && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

int32_t Tokenizer::size() const { return static_cast<int32_t>(state_->pieces.size()); }
const Vocabulary& Tokenizer::vocabulary() const { return state_->vocabulary; }

std::string_view Tokenizer::piece(int32_t id) const {
  if (id < 0 || id >= size())
    index_error("token {} is outside of the {} tokens of the vocabulary", id, size());
  return state_->pieces[static_cast<size_t>(id)];
}

TokenType Tokenizer::type(int32_t id) const {
  (void)piece(id);
  return state_->vocabulary.type(id);
}

bool Tokenizer::is_control(int32_t id) const {
  const TokenType t = type(id);
  return t == TokenType::Control || t == TokenType::Unknown;
}

std::optional<int32_t> Tokenizer::find(std::string_view name) const {
  const auto at = state_->names.find(name);
  return at == state_->names.end() ? std::nullopt : std::optional(at->second);
}

int32_t Tokenizer::bos() const { return state_->vocabulary.bos; }
int32_t Tokenizer::eos() const { return state_->vocabulary.eos; }
bool Tokenizer::adds_bos() const { return state_->add_bos && bos() != Vocabulary::kNone; }
bool Tokenizer::adds_eos() const { return state_->add_eos && eos() != Vocabulary::kNone; }

std::span<const int32_t> Tokenizer::ends_of_generation() const { return state_->ends; }

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::find(state_->ends.begin(), state_->ends.end(), id) != state_->ends.end();
}

const TokenTrie& Tokenizer::text_trie() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->text_trie) {
    std::vector<TokenTrie::Entry> entries;
    for (int32_t id = 0; id < size(); id++)
      if (!is_control(id) && !is_end_of_generation(id)) entries.push_back({piece(id), id});
    state_->text_trie = std::make_unique<TokenTrie>(std::move(entries));
  }
  return *state_->text_trie;
}

std::string StreamDecoder::push(int32_t token) {
  if (options_.show_special || !tokenizer_.is_control(token)) {
    const std::string_view piece = tokenizer_.piece(token);
    held_ += at_start_ ? tokenizer_.decode(std::span(&token, 1), options_) : std::string(piece);
    at_start_ = at_start_ && piece.empty();
  }
  const size_t certain = held_.size() - incomplete_utf8_tail(held_);
  std::string out;
  append_valid_utf8(out, std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  append_valid_utf8(out, held_);
  held_.clear();
  return out;
}

}  // namespace lathe
