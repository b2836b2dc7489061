// The small model that is part of the library (data/model has its card).
#pragma once
#include "llm/language_model.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lathe {

// Its GGUF file, in the memory of the program.
std::span<const std::byte> embedded_model_bytes();
// That file, read; tensors share its memory.
std::shared_ptr<const GgufFile> embedded_model();

// The GGUF file `path`, or the embedded one where the path is empty; and the model in it.
std::shared_ptr<const GgufFile> open_model(const std::string& path);
LanguageModel load_language_model(const std::string& path, const ModelOptions& options = {});

}  // namespace lathe
