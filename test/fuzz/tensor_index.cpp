// Whatever the text: an error that lies inside it, or files that lie below the index's folder.
#include "formats/tensor_index.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index = lathe::parse_shard_index({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!index.ok()) {
    if (index.error().offset > size || index.error().text.empty()) std::abort();
    return 0;
  }
  for (const auto& [name, file] : index.value().weight_map)
    if (file.empty() || file.front() == '/' || ("/" + file + "/").find("/../") != std::string::npos)
      std::abort();
  return 0;
}
