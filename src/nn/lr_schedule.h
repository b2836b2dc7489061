// Learning rates as functions of the step, counted from 0: `optimizer.set_lr(schedule(step))`.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace lathe::nn {

using LrSchedule = std::function<double(int64_t step)>;

LrSchedule constant_lr(double lr);
// lr·factor^(step / every), rounding down.
LrSchedule step_lr(double lr, int64_t every, double factor = 0.1);
// lr·factor for each of the milestones that has been reached.
LrSchedule multi_step_lr(double lr, std::vector<int64_t> milestones, double factor = 0.1);
// lr·factor^step
LrSchedule exponential_lr(double lr, double factor);
// In a line from `first` to `last`, which it keeps from `steps` on.
LrSchedule linear_lr(double first, double last, int64_t steps);
// Half a period of a cosine from `first` to `last`, which it keeps from `steps` on.
LrSchedule cosine_lr(double first, int64_t steps, double last = 0);

struct OneCycleOptions {
  double rising = 0.3;         // part of the steps
  double start_divisor = 25;   // starts at max_lr / start_divisor
  double final_divisor = 1e4;  // and ends at that / final_divisor
};
// Half a period of a cosine up to max_lr, another down, over `steps` steps. Smith and Topin,
// "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates", 2018.
LrSchedule one_cycle_lr(double max_lr, int64_t steps, const OneCycleOptions& options = {});

// `first` for `steps` steps, then `rest`, which counts from 0 again.
LrSchedule join(LrSchedule first, int64_t steps, LrSchedule rest);
// Rises in a line to rest(0), which it reaches after `steps` steps; the first is 1/(steps+1) of it.
LrSchedule warmup(int64_t steps, LrSchedule rest);

// A rate that falls when a metric, such as a validation loss, no longer does.
class ReduceOnPlateau {
 public:
  struct Options {
    double factor = 0.1;
    int64_t patience = 10;    // calls without a new best before the rate falls
    double threshold = 1e-4;  // part of the best by which a new best must be less
    double min_lr = 0;
  };
  explicit ReduceOnPlateau(double lr) : ReduceOnPlateau(lr, Options()) {}
  ReduceOnPlateau(double lr, const Options& options) : options_(options), lr_(lr) {}
  // The rate to go on with. Call it once an epoch, say. NaN is never a new best.
  double operator()(double metric);

 private:
  Options options_;
  double lr_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t waited_ = 0;
};

}  // namespace lathe::nn
