// What the files of lathe_bench share: the list of workloads, and how one is timed, checked and reported.
#pragma once
#include "tensor/tensor.h"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Request {
  int threads;
  double seconds;  // spent on each workload at least
  std::vector<std::string> prefixes;
};

// A result that is not what it should be: the workload prints no time then, and the program fails.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... A>
void require(bool holds, fmt::format_string<A...> text, A&&... arguments) {
  if (!holds) throw WrongResult(fmt::format(text, std::forward<A>(arguments)...));
}

// Operations or bytes that one call cannot do without, and the probe of the machine's limits that says how
// many of them a second can have.
struct Work {
  double amount = 0;
  std::string_view limit = "";
  std::string_view note = "";  // more fields for the line, `"name":value`
};

// Runs `call` three times, so that it was captured and replayed, then until the time is up; calls `check`,
// and prints a line with the median of its times. A call that does something `times` times counts as so many.
void measure(const Request& request, const std::string& workload, const std::function<void()>& call,
             const std::function<void()>& check, const Work& work, int times = 1);

// The line of a workload that is timed in another way: seconds of each try.
void report(const Request& request, const std::string& workload, std::vector<double> seconds,
            const std::string& more);

// Numbers in [-1, 1) in memory, the same in every process.
lathe::Tensor random_values(const lathe::Shape& shape);

// Numbers of two tensors of one shape agree to within `tolerance` of the largest of `want`.
void require_close(const lathe::Tensor& got, const lathe::Tensor& want, double tolerance);

struct Workload {
  std::string name;
  std::function<void(const Request&, const std::string& name)> run;
};
std::vector<Workload> operators();
std::vector<Workload> models();
std::vector<Workload> quantised();
std::vector<Workload> first_runs();
// What first_runs() starts a process of this program for.
int first_run_in_this_process(const std::string& model);

}  // namespace bench
