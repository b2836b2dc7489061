// Flat memory as images, for targets that read and write images faster.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Half and float arguments become images of the best size for what the kernel reads of them, where there is a
// size, every access is one of four elements from a multiple of 4 under one gate (0 where it fails), and the
// kernel does not both read and write the argument. Image values are float: half is cast at the access, and
// nothing is left of a cast to half and back. `alignment` as in `image_sizes`; for kernels with lanes whose
// literals are weak still. Shown by test/unit/image_test.cpp.
UOp use_images(const UOp& sink, int64_t alignment);

}  // namespace lathe
