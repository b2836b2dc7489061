#include "lathe/model_options.h"

#include "lathe/number_check.h"
#include "llm/embedded_model.h"

namespace lathe::command {

void ModelArguments::add_to(CLI::App& command) {
  command.add_option("-m,--model", path, "GGUF file; without one the small model that comes with lathe")
      ->check(CLI::ExistingFile);
  command
      .add_option("-c,--ctx", options.context,
                  "Positions of the context; 0 is what the model was made for, and without this it is at "
                  "most 4096 of them")
      ->check(not_negative());
  command.add_option("--chunk", options.chunk, "Most tokens of one call of prefill")
      ->check(positive())
      ->capture_default_str();
  command.add_option("--kv-type", kv_type, "Numbers in the cache of keys and values")
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}))
      ->capture_default_str();
}

LanguageModel ModelArguments::load() const {
  ModelOptions all = options;
  all.kv_type = kv_type == "f32" ? KvType::F32 : kv_type == "q8_0" ? KvType::Q8_0 : KvType::F16;
  return load_language_model(path, all);
}

}  // namespace lathe::command
