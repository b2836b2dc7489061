#pragma once

// Compares a random model of a family with the reference.

#include <string>

namespace lathe::test {

// Float32 weights and caches: logits of a text after each token against the reference; the same text token by
// token and in calls of 8 and 32 rows; and texts that share a front with the one before them, whose logits
// must be those of a fresh run to the bit.
void check_family(const std::string& family, double tolerance = 1e-4);

}  // namespace lathe::test
