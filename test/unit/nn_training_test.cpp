// What happens to gradients and learning rates between steps.
#include "nn/layers.h"
#include "nn/lr_schedule.h"
#include "nn/optimizer.h"
#include "nn/training.h"

#include <cmath>

#include "support/test.h"

using namespace lathe;

namespace {

std::vector<double> rates(const nn::LrSchedule& schedule, std::initializer_list<int64_t> steps) {
  std::vector<double> out;
  for (const int64_t step : steps) out.push_back(schedule(step));
  return out;
}

void check_rates(const nn::LrSchedule& schedule, std::initializer_list<int64_t> steps,
                 const std::vector<double>& expected) {
  const std::vector<double> got = rates(schedule, steps);
  for (size_t i = 0; i < got.size(); i++) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("gradients clipped by their common norm") {
  const Tensor p = Tensor::zeros({2}), q = Tensor::zeros({}), unused = Tensor::zeros({1});
  Tensor buffer = Tensor::zeros({1});
  buffer.set_param(false);
  const std::vector<Tensor> all{p, buffer, q, unused, p};
  auto backward = [&] {
    for (Tensor t : all) t.set_grad(std::nullopt);
    ((p * Tensor::from<float>({3, 0})).sum() + q * 4 + (buffer * 100).sum()).backward();
  };
  backward();
  CHECK(nn::gradients(all).size() == 2);
  CHECK(nn::clip_grad_norm(all, 10).item<float>() == 5);
  CHECK(p.grad()->to_vector<float>() == std::vector<float>{3, 0});
  backward();
  CHECK(nn::clip_grad_norm(all, 1).item<float>() == 5);
  CHECK(p.grad()->to_vector<float>()[0] == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(q.grad()->item<float>() == doctest::Approx(0.8).epsilon(1e-6));
  CHECK(buffer.grad()->item<float>() == 100);

  CHECK_THROWS_AS(nn::clip_grad_norm(all, 0), UserError);
  CHECK_THROWS_AS(nn::clip_grad_norm({unused, buffer}, 1), UserError);
}

TEST_CASE("gradients clipped by value, in their dtype") {
  const Tensor p = Tensor::zeros({3}, {.dtype = DType::Float16, .device = ""});
  (p * Tensor::from<float>({3, -0.5, -7}).half()).sum().backward();
  nn::clip_grad_value({p}, 2);
  CHECK(p.grad()->dtype() == DType::Float16);
  CHECK(p.grad()->to_vector<float>() == std::vector<float>{2, -0.5, -2});
  CHECK_THROWS_AS(nn::clip_grad_value({p}, -1), UserError);
}

TEST_CASE("micro-batches add up to the gradient of the batch") {
  nn::TrainingScope training;
  constexpr int64_t kBatch = 12, kParts = 3;
  Tensor::manual_seed(1);
  const nn::Linear whole(4, 3), parts(4, 3);
  nn::update_average(nn::parameters(parts), nn::parameters(whole), 0);
  const Tensor x = Tensor::randn({kBatch, 4}).realize(), y = Tensor::randint({kBatch}, 0, 3).realize();
  nn::AdamW big(nn::parameters(whole), {.lr = 0.1}), small(nn::parameters(parts), {.lr = 0.1});
  for (int step = 0; step < 3; step++) {
    big.zero_grad();
    whole(x.detach()).sparse_categorical_crossentropy(y).backward();
    big.step();
    small.zero_grad();
    for (int64_t part = 0; part < kParts; part++) {
      const Slice rows{part * kBatch / kParts, (part + 1) * kBatch / kParts};
      (parts(x.at(rows).detach()).sparse_categorical_crossentropy(y.at(rows)) / kParts).backward();
      Tensor::realize(nn::gradients(small.params()));
    }
    small.step();
  }
  CHECK((whole.weight - parts.weight).abs().max().item<float>() < 1e-5);
  CHECK((*whole.bias - *parts.bias).abs().max().item<float>() < 1e-5);
}

TEST_CASE("an average follows a model") {
  const nn::BatchNorm model(2), average(2);
  Tensor weight = *model.weight, mean = *model.running_mean, count = *model.num_batches_tracked;
  weight.assign(Tensor::from<float>({1, 2}));
  nn::update_average(nn::parameters(average), nn::parameters(model), 0);
  CHECK(average.weight->to_vector<float>() == std::vector<float>{1, 2});
  weight.assign(Tensor::from<float>({3, 10}));
  mean.assign(Tensor::from<float>({5, 6}));
  count += 7;
  nn::update_average(nn::parameters(average), nn::parameters(model), 0.75);
  CHECK(average.weight->to_vector<float>() == std::vector<float>{1.5, 4});
  CHECK(model.weight->to_vector<float>() == std::vector<float>{3, 10});
  CHECK(average.running_mean->to_vector<float>() == std::vector<float>{5, 6});
  CHECK(average.num_batches_tracked->item<int64_t>() == 7);
  // They do not share memory.
  mean += 1;
  CHECK(average.running_mean->to_vector<float>() == std::vector<float>{5, 6});

  CHECK_THROWS_AS(nn::update_average(nn::parameters(average), nn::parameters(model), 1.5), UserError);
  CHECK_THROWS_AS(nn::update_average({}, nn::parameters(model), 0.5), UserError);
  const auto error =
      test::user_error([] { nn::update_average({Tensor::zeros({1})}, {Tensor::zeros({2})}, 0.5); });
  CHECK(std::string(error.what()) == "an average of shape (1,) cannot follow tensor 0 of shape (2,)");
}

TEST_CASE("an average moves a tensor with two names once, and nothing where shapes differ") {
  const Tensor value = Tensor::from<float>({4}), average = Tensor::from<float>({0});
  nn::update_average({average, average}, {value, value}, 0.75);
  CHECK(average.item<float>() == 1);
  CHECK_THROWS_AS(nn::update_average({average, Tensor::zeros({1})}, {value, Tensor::zeros({2})}, 0.75),
                  UserError);
  CHECK(average.item<float>() == 1);
}

TEST_CASE("learning rates as functions of the step") {
  check_rates(nn::constant_lr(0.5), {0, 1000}, {0.5, 0.5});
  check_rates(nn::step_lr(1, 10, 0.5), {0, 9, 10, 25}, {1, 1, 0.5, 0.25});
  check_rates(nn::multi_step_lr(1, {3, 10}, 0.1), {2, 3, 9, 10}, {1, 0.1, 0.1, 0.01});
  check_rates(nn::exponential_lr(2, 0.9), {0, 1, 3}, {2, 1.8, 2 * 0.729});
  check_rates(nn::linear_lr(1, 0.2, 4), {0, 1, 4, 9}, {1, 0.8, 0.2, 0.2});
  check_rates(nn::cosine_lr(1, 6, 0.5), {0, 2, 3, 6, 7}, {1, 0.875, 0.75, 0.5, 0.5});
  check_rates(nn::join(nn::constant_lr(1), 2, nn::step_lr(4, 1, 0.5)), {0, 1, 2, 3}, {1, 1, 4, 2});
  check_rates(nn::warmup(3, nn::linear_lr(1, 0, 10)), {0, 2, 3, 4}, {0.25, 0.75, 1, 0.9});
  // Rises over the steps 0 to 2, falls over 2 to 9.
  check_rates(nn::one_cycle_lr(1, 10, {.rising = 0.3, .start_divisor = 10, .final_divisor = 100}),
              {0, 1, 2, 9, 50}, {0.1, 0.55, 1, 0.001, 0.001});
  CHECK(nn::one_cycle_lr(1, 100)(29) == doctest::Approx(1));
  for (auto&& wrong :
       {+[] { nn::linear_lr(1, 0, 0); }, +[] { nn::step_lr(1, -1); }, +[] { nn::one_cycle_lr(1, 2); }})
    CHECK(test::user_error(wrong).kind() == UserError::Kind::Value);
}

TEST_CASE("a rate falls when the metric no longer does") {
  nn::ReduceOnPlateau rate(1, {.factor = 0.5, .patience = 1, .threshold = 0.1, .min_lr = 0.2});
  CHECK(rate(10) == 1);
  CHECK(rate(9.5) == 1);  // less than a tenth better
  CHECK(rate(std::nan("")) == 0.5);
  CHECK(rate(8) == 0.5);
  CHECK(rate(8) == 0.5);
  CHECK(rate(8) == 0.25);
  CHECK(rate(8) == 0.25);
  CHECK(rate(8) == 0.2);
  CHECK(rate(-1) == 0.2);
}

TEST_CASE("a learning rate is memory that a step reads") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({1});
  nn::SGD sgd({p}, {.lr = 0.5});
  const Tensor before = sgd.lr;
  const nn::LrSchedule rate = nn::step_lr(0.25, 1, 0.5);
  for (int64_t step = 0; step < 2; step++) {
    sgd.set_lr(rate(step));
    sgd.zero_grad();
    p.sum().backward();
    sgd.step();
  }
  CHECK(before.item<float>() == 0.125f);
  CHECK(p.item<float>() == 1 - 0.25f - 0.125f);
}
