// Checkpoints of other programs into GGUF files.
#pragma once
#include "formats/gguf/writer.h"

#include <optional>
#include <string>

namespace lathe {

struct ConvertOptions {
  // Of matrices, where rows are whole blocks of it, F16 elsewhere; none: the type they have. Vectors are F32.
  std::optional<GgmlType> type = {};
  // The tokenizer of a llama2.c model; "" for `tokenizer.bin` beside it.
  std::string tokenizer = {};
  // How byte BPE cuts texts (tokenizer.ggml.pre), where that cannot be told from tokenizer.json.
  std::string pre = {};
};

// A folder with config.json, tokenizer.json and safetensors of Hugging Face, of the families llama, mistral,
// qwen2, qwen3, gemma, gemma2 and gemma3; or a .bin file of llama2.c. Tensors are made when the file is
// written. UserErrors name the file and the key or tensor that is missing or not understood.
GgufWriter convert_model(const std::string& path, const ConvertOptions& options = {});

// The parts of it.
GgufWriter convert_hugging_face(const std::string& folder, const ConvertOptions& options);
GgufWriter convert_llama2c(const std::string& path, const ConvertOptions& options);

// ---- tokenizers of other programs as the keys tokenizer.* of a GGUF file

// tokenizer.json, tokenizer_config.json and the like in a folder of Hugging Face, for an embedding of `rows`
// tokens: byte BPE, and BPE over characters with byte tokens, which becomes the SentencePiece BPE that it was
// made of. `pre` overrules what byte BPE cuts texts by.
void add_hugging_face_tokenizer(const std::string& folder, int64_t rows, const std::string& pre,
                                GgufMetadata& metadata);

// The tokenizer of llama2.c: scores and pieces.
void add_llama2c_tokenizer(const std::string& path, int64_t tokens, GgufMetadata& metadata);

}  // namespace lathe
