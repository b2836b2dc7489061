// Reductions that also exist as running ones: element i of the result folds the elements up to i.
#pragma once
#include <cstdint>

namespace lathe {

enum class Running : uint8_t { Sum, Prod, Max, LogSumExp };

}  // namespace lathe
