// What the header of a GGUF file cannot tell.
#pragma once
#include "formats/gguf/gguf.h"

#include <functional>
#include <string>
#include <vector>

namespace lathe {

struct GgufFault {
  std::string tensor;
  int64_t block = 0;   // the first one with a fault; of plain types the element
  int64_t blocks = 0;  // how many have one
  std::string text;    // what is wrong with it
};

// Looks through all data for floats, and scales of blocks, that are infinite or no number. `on_tensor` hears
// of each tensor when it is done.
std::vector<GgufFault> check_tensors(const GgufFile& file,
                                     const std::function<void(const GgufTensor&)>& on_tensor = {});

}  // namespace lathe
