#include "archive/little_endian.h"
#include "base/log.h"
#include "base/mmap.h"
#include "formats/file_data.h"
#include "llm/convert/convert.h"
#include "llm/convert/json_file.h"
#include "llm/tokenizer/algorithm.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <unordered_map>

namespace lathe {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostTokens = 1 << 24;
// Of a token that no merge makes.
constexpr float kNoScore = -1e6f;

struct Tokens {
  std::vector<std::string> texts;
  std::vector<TokenType> kinds;
  std::vector<float> scores;  // of SentencePiece
  std::vector<int32_t> kind_numbers() const {
    std::vector<int32_t> out;
    for (const TokenType kind : kinds) out.push_back(static_cast<int32_t>(kind));
    return out;
  }
};

// ---- Hugging Face

// What byte BPE cuts texts by, as tokenizer.json writes it, and the name that GGUF has for it.
struct Cut {
  std::string_view pattern, name;
};
#define LATHE_LETTERS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define LATHE_REST R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr Cut kCuts[] = {
    {LATHE_LETTERS R"(\p{N}{1,3})" LATHE_REST, "llama-bpe"},
    {LATHE_LETTERS R"(\p{N})" LATHE_REST, "qwen2"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "tekken"},
};
#undef LATHE_LETTERS
#undef LATHE_REST

// The text of a key; "" where there is none.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The steps of a part of tokenizer.json, which is one of them, a Sequence, or null.
std::vector<Json> steps_of(const JsonFile& file, std::string_view key, const char* list) {
  const Json* part = file.find(key);
  if (!part) return {};
  if (text_of(*part, "type") == "Sequence" && part->contains(list) && part->at(list).is_array())
    return part->at(list).get<std::vector<Json>>();
  return {*part};
}
const Json* step(const std::vector<Json>& steps, std::string_view type) {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const Json& s) { return text_of(s, "type") == type; });
  return found == steps.end() ? nullptr : &*found;
}

class TokenizerFolder {
 public:
  TokenizerFolder(const std::string& folder, GgufMetadata& out)
      : folder_(folder),
        file_(path_of("tokenizer.json")),
        model_(file_.where(), part(file_, "model")),
        out_(out) {}

  void add(int64_t rows, const std::string& pre);

 private:
  std::string path_of(const char* name) const { return (std::filesystem::path(folder_) / name).string(); }
  static Json part(const JsonFile& file, std::string_view key) {
    const Json* v = file.find(key);
    if (!v || !v->is_object()) value_error("{}: key `{}` is no object", file.where(), key);
    return *v;
  }
  std::optional<JsonFile> other(const char* name) const {
    const std::string path = path_of(name);
    return std::filesystem::exists(path) ? std::optional<JsonFile>(path) : std::nullopt;
  }

  void read_vocabulary(int64_t rows);
  void put(int64_t id, std::string text, TokenType kind);
  std::vector<std::string> merges() const;
  void score(const std::vector<std::string>& merges);
  std::string cut_name() const;
  bool has_space_prefix() const;
  void add_special_ids();
  void add_ends_of_text(const std::optional<JsonFile>& config);
  void add_chat_template(const std::optional<JsonFile>& config);

  std::string folder_;
  JsonFile file_, model_;
  GgufMetadata& out_;
  Tokens tokens_;
  std::unordered_map<std::string, int64_t> ids_;
};

void TokenizerFolder::put(int64_t id, std::string text, TokenType kind) {
  if (id < 0 || id >= static_cast<int64_t>(tokens_.texts.size()))
    value_error("{}: token `{}` has id {}, but the embedding has {} rows", file_.where(), text, id,
                tokens_.texts.size());
  ids_[text] = id;
  tokens_.texts[static_cast<size_t>(id)] = std::move(text);
  tokens_.kinds[static_cast<size_t>(id)] = kind;
}

void TokenizerFolder::read_vocabulary(int64_t rows) {
  if (rows > kMostTokens) value_error("{}: an embedding of {} rows is none", folder_, rows);
  // Rows that belong to no token have names all the same.
  for (int64_t i = 0; i < rows; i++) tokens_.texts.push_back(fmt::format("[PAD{}]", i));
  tokens_.kinds.assign(static_cast<size_t>(rows), TokenType::Unused);
  const Json vocabulary = part(model_, "vocab");
  const std::string unknown = model_.get<std::string>("unk_token").value_or("");
  for (const auto& [text, id] : vocabulary.items()) {
    if (!id.is_number_integer())
      value_error("{}: token `{}` has an id that is no integer", file_.where(), text);
    put(id, text,
        text == unknown      ? TokenType::Unknown
        : byte_of(text) >= 0 ? TokenType::Byte
                             : TokenType::Normal);
  }
  const Json* added = file_.find("added_tokens");
  if (!added) return;
  if (!added->is_array()) file_.refuse("added_tokens", "is no list");
  for (const Json& token : *added) {
    const JsonFile t(file_.where() + ": added_tokens", token);
    const std::string text = t.at<std::string>("content");
    const int64_t id = t.at<int64_t>("id");
    if (id >= rows)  // of a part that is not converted, such as the one for images
      log_info("{}: added token `{}` is left out: its id {} has no row of the embedding", file_.where(), text,
               id);
    else if (text != unknown)
      put(id, text, t.get<bool>("special").value_or(false) ? TokenType::Control : TokenType::UserDefined);
  }
}

std::vector<std::string> TokenizerFolder::merges() const {
  const Json* list = model_.find("merges");
  if (!list || !list->is_array()) value_error("{}: key `model.merges` is no list", file_.where());
  std::vector<std::string> out;
  for (const Json& m : *list) {
    if (m.is_string()) {
      out.push_back(m);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      out.push_back(m[0].get<std::string>() + " " + m[1].get<std::string>());
    } else {
      value_error("{}: a merge is neither a text nor a pair: {}", file_.where(),
                  m.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  return out;
}

// SentencePiece merges what gives the token of the highest score; merges are sorted by just that.
void TokenizerFolder::score(const std::vector<std::string>& merges) {
  tokens_.scores.assign(tokens_.texts.size(), kNoScore);
  for (size_t i = 0; i < merges.size(); i++) {
    std::string made = merges[i];
    const size_t blank = made.find(' ');
    if (blank == made.npos) value_error("{}: merge {} is no pair", file_.where(), i);
    made.erase(blank, 1);
    const auto id = ids_.find(made);
    if (id == ids_.end()) value_error("{}: merge {} makes `{}`, which is no token", file_.where(), i, made);
    float& score = tokens_.scores[static_cast<size_t>(id->second)];
    if (score == kNoScore) score = -static_cast<float>(i);
  }
}

std::string TokenizerFolder::cut_name() const {
  const std::vector<Json> steps = steps_of(file_, "pre_tokenizer", "pretokenizers");
  const Json* split = step(steps, "Split");
  if (!split) return step(steps, "Digits") ? "smollm" : "gpt-2";
  const auto pattern = split->find("pattern");
  const std::string regex = pattern == split->end() ? "" : text_of(*pattern, "Regex");
  for (const Cut& cut : kCuts)
    if (cut.pattern == regex) return std::string(cut.name);
  file_.refuse("pre_tokenizer", "cuts texts in an unknown way; give a name for it (--pre)");
}

bool TokenizerFolder::has_space_prefix() const {
  if (step(steps_of(file_, "normalizer", "normalizers"), "Prepend")) return true;
  const std::vector<Json> steps = steps_of(file_, "pre_tokenizer", "pretokenizers");
  const Json* metaspace = step(steps, "Metaspace");
  return metaspace && text_of(*metaspace, "prepend_scheme") != "never";
}

// Whether a BOS and an EOS go around a text: what the configuration says, else the template of one text.
void TokenizerFolder::add_ends_of_text(const std::optional<JsonFile>& config) {
  const std::vector<Json> steps = steps_of(file_, "post_processor", "processors");
  const Json* added = step(steps, "TemplateProcessing");
  const bool is_list = added && added->contains("single") && added->at("single").is_array();
  const auto is_special = [&](bool first) {
    if (!is_list || added->at("single").empty()) return false;
    const Json& end = first ? added->at("single").front() : added->at("single").back();
    return end.is_object() && end.contains("SpecialToken");
  };
  for (const bool first : {true, false}) {
    const char* key = first ? "add_bos_token" : "add_eos_token";
    const auto said = config ? config->get<bool>(key) : std::nullopt;
    out_.set(std::string("tokenizer.ggml.") + key, said.value_or(is_special(first)));
  }
}

void TokenizerFolder::add_special_ids() {
  const auto tokenizer = other("tokenizer_config.json"), model = other("config.json"),
             generation = other("generation_config.json");
  struct Special {
    const char *name, *key;
  };
  constexpr Special kSpecial[] = {{"bos", "bos"}, {"eos", "eos"}, {"pad", "padding"}, {"unk", "unknown"}};
  for (const Special& s : kSpecial) {
    std::optional<int64_t> id;
    // A text, or an object that has it; numbers are in the other files, of several EOS the first one.
    const Json* token = tokenizer ? tokenizer->find(std::string(s.name) + "_token") : nullptr;
    if (token && token->is_object() && token->contains("content")) token = &token->at("content");
    if (token && token->is_string())
      if (const auto found = ids_.find(*token); found != ids_.end()) id = found->second;
    for (const auto* file : {&generation, &model}) {
      const Json* v = id || !*file ? nullptr : (*file)->find(std::string(s.name) + "_token_id");
      if (v && v->is_array() && !v->empty()) v = &v->front();
      if (v && v->is_number_integer()) id = v->get<int64_t>();
    }
    if (id && *id >= 0 && *id < static_cast<int64_t>(tokens_.texts.size()))
      out_.set(fmt::format("tokenizer.ggml.{}_token_id", s.key), static_cast<uint32_t>(*id));
  }
  add_ends_of_text(tokenizer);
  add_chat_template(tokenizer);
}

void TokenizerFolder::add_chat_template(const std::optional<JsonFile>& config) {
  constexpr const char* kKey = "tokenizer.chat_template";
  if (const std::string path = path_of("chat_template.jinja"); std::filesystem::exists(path)) {
    out_.set(kKey, read_file(path));
    return;
  }
  const Json* v = config ? config->find("chat_template") : nullptr;
  if (!v) return;
  if (v->is_string()) out_.set(kKey, v->get<std::string>());
  if (!v->is_array()) return;
  for (const Json& named : *v)  // several: the one called default
    if (text_of(named, "name") == "default") out_.set(kKey, text_of(named, "template"));
}

void TokenizerFolder::add(int64_t rows, const std::string& pre) {
  if (model_.at<std::string>("type") != "BPE")
    model_.refuse("type", "of a tokenizer cannot be converted, only BPE");
  read_vocabulary(rows);
  const std::vector<std::string> merged = merges();
  const bool is_bytes = step(steps_of(file_, "pre_tokenizer", "pretokenizers"), "ByteLevel") ||
                        step(steps_of(file_, "decoder", "decoders"), "ByteLevel");
  if (is_bytes) {
    out_.set("tokenizer.ggml.model", "gpt2");
    out_.set("tokenizer.ggml.pre", pre.empty() ? cut_name() : pre);
    out_.set("tokenizer.ggml.merges", merged);
  } else {
    if (!model_.get<bool>("byte_fallback").value_or(false))
      model_.refuse("byte_fallback", "has to be set in BPE over characters");
    score(merged);
    out_.set("tokenizer.ggml.model", "llama");
    out_.set("tokenizer.ggml.pre", "default");
    out_.set("tokenizer.ggml.scores", tokens_.scores);
    out_.set("tokenizer.ggml.add_space_prefix", has_space_prefix());
  }
  out_.set("tokenizer.ggml.tokens", tokens_.texts);
  out_.set("tokenizer.ggml.token_type", tokens_.kind_numbers());
  add_special_ids();
}

}  // namespace

void add_hugging_face_tokenizer(const std::string& folder, int64_t rows, const std::string& pre,
                                GgufMetadata& metadata) {
  TokenizerFolder(folder, metadata).add(rows, pre);
}

void add_llama2c_tokenizer(const std::string& path, int64_t tokens, GgufMetadata& metadata) {
  const FileData file(path);
  const auto bytes = file.bytes();
  size_t at = 4;  // behind the length of the longest piece
  const auto number = [&](const char* what, int64_t i) {
    if (bytes.size() < 4 || at > bytes.size() - 4)
      value_error("{}: offset {}: the file ends before {} of token {} of {}", path, at, what, i, tokens);
    at += 4;
    return static_cast<uint32_t>(read_little_endian(bytes, at - 4, 4));
  };
  Tokens out;
  for (int64_t i = 0; i < tokens; i++) {
    out.scores.push_back(std::bit_cast<float>(number("the score", i)));
    const uint32_t length = number("the length", i);
    if (length > bytes.size() - at)
      value_error("{}: offset {}: token {} has {} bytes, but {} are left", path, at - 4, i, length,
                  bytes.size() - at);
    std::string text;
    for (const std::byte b : bytes.subspan(at, length))
      text += b == std::byte{' '} ? std::string(kBlank) : std::string(1, static_cast<char>(b));
    at += length;
    constexpr const char* kFirst[] = {"<unk>", "<s>", "</s>"};
    out.texts.push_back(i < 3 ? kFirst[i] : text);
    out.kinds.push_back(i == 0               ? TokenType::Unknown
                        : i < 3              ? TokenType::Control
                        : byte_of(text) >= 0 ? TokenType::Byte
                                             : TokenType::Normal);
  }
  if (at != bytes.size())
    value_error("{}: offset {}: {} bytes follow the last of {} tokens", path, at, bytes.size() - at, tokens);
  metadata.set("tokenizer.ggml.model", "llama");
  metadata.set("tokenizer.ggml.tokens", out.texts);
  metadata.set("tokenizer.ggml.scores", out.scores);
  metadata.set("tokenizer.ggml.token_type", out.kind_numbers());
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

}  // namespace lathe
