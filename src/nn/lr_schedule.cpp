#include "nn/lr_schedule.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace lathe::nn {
namespace {

void check_steps(int64_t steps) {
  if (steps < 1) value_error("a learning rate cannot change over {} steps", steps);
}

// From `first` at 0 to `last` at 1.
double cosine(double first, double last, double at) {
  return last + (first - last) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

// The part of `steps` that is over, at most 1.
double progress(int64_t step, double steps) { return std::min(1.0, static_cast<double>(step) / steps); }

}  // namespace

LrSchedule constant_lr(double lr) {
  return [=](int64_t) { return lr; };
}

LrSchedule step_lr(double lr, int64_t every, double factor) {
  check_steps(every);
  return [=](int64_t step) { return lr * std::pow(factor, static_cast<double>(step / every)); };
}

LrSchedule multi_step_lr(double lr, std::vector<int64_t> milestones, double factor) {
  return [=, reached = std::move(milestones)](int64_t step) {
    const auto count = std::ranges::count_if(reached, [&](int64_t m) { return m <= step; });
    return lr * std::pow(factor, static_cast<double>(count));
  };
}

LrSchedule exponential_lr(double lr, double factor) { return step_lr(lr, 1, factor); }

LrSchedule linear_lr(double first, double last, int64_t steps) {
  check_steps(steps);
  return [=](int64_t step) { return std::lerp(first, last, progress(step, static_cast<double>(steps))); };
}

LrSchedule cosine_lr(double first, int64_t steps, double last) {
  check_steps(steps);
  return [=](int64_t step) { return cosine(first, last, progress(step, static_cast<double>(steps))); };
}

LrSchedule one_cycle_lr(double max_lr, int64_t steps, const OneCycleOptions& options) {
  // The last step of each half is its end.
  const double end = static_cast<double>(steps - 1), top = options.rising * static_cast<double>(steps) - 1;
  if (!(top > 0 && top < end))
    value_error("one cycle of {} steps cannot rise over a part {} of them", steps, options.rising);
  const double start = max_lr / options.start_divisor;
  return [=](int64_t step) {
    const double at = static_cast<double>(step);
    return at <= top ? cosine(start, max_lr, at / top)
                     : cosine(max_lr, start / options.final_divisor, std::min(1.0, (at - top) / (end - top)));
  };
}

LrSchedule join(LrSchedule first, int64_t steps, LrSchedule rest) {
  return [=, first = std::move(first), rest = std::move(rest)](int64_t step) {
    return step < steps ? first(step) : rest(step - steps);
  };
}

LrSchedule warmup(int64_t steps, LrSchedule rest) {
  const double lr = rest(0);
  return join(
      [=](int64_t step) { return lr * static_cast<double>(step + 1) / static_cast<double>(steps + 1); },
      steps, std::move(rest));
}

double ReduceOnPlateau::operator()(double metric) {
  const double wanted =
      std::isinf(best_) ? best_ : best_ - options_.threshold * std::abs(best_);  // inf - inf is no bound
  if (metric < wanted) {
    best_ = metric;
    waited_ = 0;
  } else if (++waited_ > options_.patience) {
    lr_ = std::max(options_.min_lr, lr_ * options_.factor);
    waited_ = 0;
  }
  return lr_;
}

}  // namespace lathe::nn
