// Tokenizers of other programs as the keys tokenizer.* of a GGUF file.
#pragma once
#include "formats/gguf/metadata.h"

#include <cstdint>
#include <string>

namespace lathe {

// tokenizer.json, tokenizer_config.json and the like in a folder of Hugging Face, for an embedding of `rows`
// tokens: byte BPE, and BPE over characters with byte tokens, which becomes the SentencePiece BPE that it was
// made of. `pre` overrules what byte BPE cuts texts by.
void add_hugging_face_tokenizer(const std::string& folder, int64_t rows, const std::string& pre,
                                GgufMetadata& metadata);

// The tokenizer of llama2.c: scores and pieces.
void add_llama2c_tokenizer(const std::string& path, int64_t tokens, GgufMetadata& metadata);

}  // namespace lathe
