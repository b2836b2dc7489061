// Whatever is in the JSON files of a checkpoint: a UserError or a GGUF file. The input is config.json,
// tokenizer.json and tokenizer_config.json, with a 0 byte between; behind a leading 1 it is a model of
// llama2.c and, behind the last 0xff, its tokenizer.
#include "base/mmap.h"
#include "formats/safetensors.h"
#include "llm/convert/convert.h"
#include "tensor/tensor.h"

#include <unistd.h>

#include <filesystem>
#include <string>

namespace {

std::string make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "lathe-fuzz-XXXXXX").string();
  if (!mkdtemp(name.data())) std::abort();
  const lathe::Tensor row = lathe::Tensor::from(std::vector<float>(4, 0.5f));
  lathe::safe_save(
      {{"model.embed_tokens.weight", row.reshape({1, 4}).expand({8, 4}).contiguous()},
       {"model.norm.weight", row},
       {"model.layers.0.self_attn.q_proj.weight", row.reshape({1, 4}).expand({4, 4}).contiguous()}},
      name + "/model.safetensors");
  return name;
}

struct Folder {
  std::string path = make_folder();
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('\1')) {
      const size_t cut = std::min(text.rfind('\xff'), text.size());
      lathe::write_file_atomically(folder.path + "/m.bin", text.substr(1, std::max<size_t>(cut, 1) - 1));
      lathe::write_file_atomically(folder.path + "/tokenizer.bin",
                                   text.substr(std::min(cut + 1, text.size())));
      lathe::convert_model(folder.path + "/m.bin").to_bytes();
      return 0;
    }
    size_t at = 0;
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
      const size_t end = std::min(text.find('\0', std::min(at, size)), size);
      lathe::write_file_atomically(folder.path + "/" + name, at < size ? text.substr(at, end - at) : "");
      at = end + 1;
    }
    lathe::convert_model(folder.path).to_bytes();
  } catch (const lathe::UserError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
