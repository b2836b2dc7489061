// How byte-level BPE vocabularies cut text into pieces before they merge.
#pragma once
#include "formats/regex.h"

#include <string_view>
#include <vector>

namespace lathe {

class PreTokenizer {
 public:
  // By the value of `tokenizer.ggml.pre`; the empty name is the default of files that do not say, with a
  // warning. ValueError for a name that is not known. The patterns of a name are compiled once a process.
  static const PreTokenizer& named(std::string_view name);

  // A piece that is a token as a whole is that token, whatever merges would make of it.
  bool ignore_merges() const { return ignore_merges_; }
  // What `add_bos_token` is where the file does not say.
  bool add_bos() const { return add_bos_; }
  // Appends the pieces of `text`; joined they are the text.
  void split(std::string_view text, std::vector<std::string_view>& out) const;

 private:
  std::vector<Regex> passes_;  // each cuts what the one before has left
  bool ignore_merges_ = false, add_bos_ = false;
};

}  // namespace lathe
