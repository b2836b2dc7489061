#include "workload.h"
namespace bench {
std::vector<Workload> first_runs() { return {}; }
int first_run_in_this_process(const std::string&) { return 2; }
}  // namespace bench
