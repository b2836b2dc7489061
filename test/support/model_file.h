#pragma once

// Models of tests and files.

#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include "support/random_model.h"

namespace lathe::test {

// A file of it, in float32.
GgufWriter random_gguf(const ModelSpec& spec, uint64_t seed);

// What a file says, with the weights unpacked.
ModelData read_model(const GgufFile& file);

}  // namespace lathe::test
