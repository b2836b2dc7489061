#pragma once

// Compares a random model of a family with the reference.

#include "formats/gguf/ggml_type.h"

#include <string>

namespace lathe::test {

struct FamilyCheck {
  GgmlType type = GgmlType::F32;  // of the matrices, as random_gguf takes it
  bool int8_activations = false;
  double tolerance = 1e-4;
};

// Logits of a text after each token against the reference on the weights as the file has them, with float32
// caches: the whole text in calls of at most 1, 8 and 32 rows, and a part of it followed by token after
// token; and texts that share a front with the one before them against fresh runs.
void check_family(const std::string& family, const FamilyCheck& check = {});

}  // namespace lathe::test
