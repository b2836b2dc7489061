#pragma once

// Models of tests and files.

#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include "support/random_model.h"

namespace lathe::test {

// A file of it. Matrices have the type, where their rows are whole blocks of it; F16 where they are not;
// norms, routers, biases, convolutions and decays stay F32, as in files that quantisers write.
GgufWriter random_gguf(const ModelSpec& spec, uint64_t seed, GgmlType type);

// A file of these values as float32.
GgufWriter to_gguf(const ModelData& model);

// What a file says, with the weights unpacked.
ModelData read_model(const GgufFile& file);

}  // namespace lathe::test
