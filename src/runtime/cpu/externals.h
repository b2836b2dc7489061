// What compiled kernels may call outside their own object.
#pragma once
#include <string_view>

namespace lathe {

// The address of a libc, libm or compiler-support function from a fixed list; null for any other name.
const void* external_symbol(std::string_view name);

}  // namespace lathe
