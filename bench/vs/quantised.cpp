#include "workload.h"
namespace bench {
std::vector<Workload> quantised() { return {}; }
}  // namespace bench
