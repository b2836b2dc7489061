// Digests of tensors as trees of blocks.
#include "tensor/tensor.h"

#include "support/test.h"

using namespace lathe;

TEST_CASE("the hash of a few bytes") {
  // shake_128 of the digests of 256 blocks of 4 KiB, the first of which starts with abc and the rest is
  // zeros.
  const std::vector<uint8_t> expected = {0x48, 0xdd, 0x63, 0xad, 0xb3, 0x0a, 0x67, 0x01,
                                         0x31, 0x6b, 0xc5, 0x2e, 0x27, 0xcc, 0xb4, 0x04};
  CHECK(Tensor::from(std::vector<uint8_t>{'a', 'b', 'c'}).hash().to_vector<uint8_t>() == expected);
}
