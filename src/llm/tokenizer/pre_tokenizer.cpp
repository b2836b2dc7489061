#include "llm/tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "base/log.h"
#include "llm/tokenizer/pre_tokenizer_table.h"

#include <map>
#include <mutex>

namespace lathe {
namespace {

bool lists(std::string_view names, std::string_view name) {
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

std::string known_names() {
  std::string out;
  for (const PreTokenizerRow& row : kPreTokenizers) {
    out += out.empty() || row.names.empty() ? "" : " ";
    out += row.names;
  }
  return out;
}

const PreTokenizerRow& row_of(std::string_view name) {
  for (const PreTokenizerRow& row : kPreTokenizers)
    if (lists(row.names, name)) return row;
  value_error("tokenizer.ggml.pre = \"{}\" is not a known way to split text; known are: {}", name,
              known_names());
}

}  // namespace

const PreTokenizer& PreTokenizer::named(std::string_view name) {
  const PreTokenizerRow& row = row_of(name);
  if (name.empty())
    log_warn_once("tokenizer.ggml.pre",
                  "tokenizer.ggml.pre is missing: text is split in the default way, which may not be the "
                  "vocabulary's");
  static std::mutex mutex;
  static std::map<const PreTokenizerRow*, PreTokenizer> compiled;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = compiled.try_emplace(&row);
  if (fresh) {
    for (const char* pass : row.passes)
      if (pass) at->second.passes_.emplace_back(pass, Regex::Anchor::Free);
    at->second.ignore_merges_ = row.ignore_merges;
    at->second.add_bos_ = row.add_bos;
  }
  return at->second;
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& out) const {
  std::vector<std::string_view> pieces = {text}, cut;
  for (const Regex& pass : passes_) {
    cut.clear();
    for (const std::string_view piece : pieces) pass.split(piece, cut);
    pieces.swap(cut);
  }
  out.insert(out.end(), pieces.begin(), pieces.end());
}

}  // namespace lathe
