#include "nn/optimizer.h"

#include "formats/safetensors.h"
#include "nn/state.h"
#include "nn/training.h"

#include <array>
#include <cmath>
#include <functional>
#include <memory>

#include "support/test.h"

using namespace lathe;

namespace {

using Tensors = std::vector<Tensor>;

// What an optimiser makes of the parameter [[1, -2], [3, .5]] where the loss is its sum of squares and the
// learning rate .1: the parameter after two steps.
struct Row {
  const char* name;
  std::function<std::unique_ptr<nn::Optimizer>(const Tensors&)> make;
  std::array<std::array<double, 4>, 2> steps;
};

template <class Kind>
auto make(auto options) {
  options.lr = 0.1;
  return [=](const Tensors& p) { return std::make_unique<Kind>(p, options); };
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {"SGD", make<nn::SGD>(nn::SGD::Options()), {{{.8, -1.6, 2.4, .4}, {.64, -1.28, 1.92, .32}}}},
      {"SGD with momentum and decay",
       make<nn::SGD>(nn::SGD::Options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
       {{{.601, -1.202, 1.803, .3005}, {.191101, -.3822021, .5733031, .09555052}}}},
      {"LARS",
       make<nn::LARS>(nn::LARS::Options()),
       {{{.9999, -1.9998, 2.9997, .49995}, {.99971, -1.99942, 2.99913, .499855}}}},
      {"Adam",
       make<nn::Adam>(nn::AdamOptions()),
       {{{.9000007, -1.900001, 2.900001, .4000007}, {.8004139, -1.800168, 2.800104, .3011891}}}},
      {"AdamW",
       make<nn::AdamW>(nn::AdamW::kDefaults),
       {{{.8990006, -1.898001, 2.897001, .3995007}, {.7985207, -1.796274, 2.794211, .3002995}}}},
      {"LAMB",
       make<nn::LAMB>(nn::LAMB::kDefaults),
       {{{.8112541, -1.811254, 2.811254, .3112542}, {.6380066, -1.636783, 2.636505, .1427432}}}},
      {"Muon",
       make<nn::Muon>(nn::Muon::Options()),
       {{{.9653531, -1.933324, 2.896714, .4836582}, {.930674, -1.866648, 2.793347, .4673246}}}},
      {"Muon with decay",
       make<nn::Muon>(nn::Muon::Options{.weight_decay = 0.1}),
       {{{.9553531, -1.9133239, 2.8667138, .4786582}, {.9111202, -1.827515, 2.7346792, .4575381}}}},
  };
  return kRows;
}

void step_on_squares(nn::Optimizer& optimizer, const Tensor& p) {
  optimizer.zero_grad();
  p.square().sum().backward();
  optimizer.step();
}

}  // namespace

TEST_CASE("two steps of every optimiser") {
  nn::TrainingScope training;
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const Tensor p = Tensor::from<float>({1, -2, 3, 0.5}, {2, 2});
    const auto optimizer = row.make({p});
    for (const auto& expected : row.steps) {
      step_on_squares(*optimizer, p);
      const std::vector<float> values = p.to_vector<float>();
      for (size_t i = 0; i < values.size(); i++)
        CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("an optimiser goes on from its state dict as if it had not stopped") {
  nn::TrainingScope training;
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    test::TempDir dir;
    const Tensor p = Tensor::from<float>({1, -2, 3, 0.5}, {2, 2});
    const auto optimizer = row.make({p});
    step_on_squares(*optimizer, p);
    safe_save({{"p", p}}, dir.file("model.safetensors"));
    safe_save(nn::state_dict(*optimizer), dir.file("optimizer.safetensors"));
    optimizer->set_lr(0.2);
    for (int step = 0; step < 2; step++) step_on_squares(*optimizer, p);

    const Tensor q = Tensor::zeros({2, 2});
    const auto resumed = row.make({q});
    nn::load_state({{"p", q}}, safe_load(dir.file("model.safetensors")));
    nn::load_state_dict(*resumed, safe_load(dir.file("optimizer.safetensors")));
    CHECK(resumed->lr.item<float>() == 0.1f);
    resumed->set_lr(0.2);
    for (int step = 0; step < 2; step++) step_on_squares(*resumed, q);
    CHECK(q.to_vector<float>() == p.to_vector<float>());
  }
}

TEST_CASE("the state of an optimiser has names") {
  const Tensor p = Tensor::zeros({2}), q = Tensor::zeros({3});
  std::vector<std::string> names;
  for (const auto& [name, t] : nn::state_dict(nn::AdamW({p, q}))) names.push_back(name);
  CHECK(names == std::vector<std::string>{"lr", "b1_power", "b2_power", "m.0", "m.1", "v.0", "v.1"});
}

TEST_CASE("trust is 1 where a norm is 0") {
  nn::TrainingScope training;
  const Tensor zero = Tensor::zeros({2}), still = Tensor::ones({2});
  nn::LARS lars({zero, still}, {.lr = 0.5, .momentum = 0, .weight_decay = 0});
  ((zero * 3).sum() + (still * 0).sum()).backward();
  lars.step();
  CHECK(zero.to_vector<float>() == std::vector<float>{-1.5, -1.5});
  CHECK(still.to_vector<float>() == std::vector<float>{1, 1});
  const Tensor other = Tensor::zeros({2});
  nn::LAMB lamb({other}, {.lr = 0.5, .eps = 1e-12});
  (other * 3).sum().backward();
  lamb.step();
  for (const float v : other.to_vector<float>()) CHECK(v == doctest::Approx(-0.5));
}

TEST_CASE("Muon takes every parameter as a matrix") {
  nn::TrainingScope training;
  const Tensor kernel = Tensor::zeros({2, 1, 2, 1}), vector = Tensor::zeros({4}),
               number = Tensor::from(NestedData(0.0));
  nn::Muon muon({kernel, vector, number}, {.lr = 1, .momentum = 0});
  const Tensor g = Tensor::from<float>({2, 0, 0, 2}, {2, 1, 2, 1});
  ((kernel * g).sum() + vector.sum() + number).backward();
  muon.step();
  // Singular values that were equal stay so; those of five steps are in [0.68, 1.14].
  const std::vector<float> k = kernel.to_vector<float>(), v = vector.to_vector<float>();
  CHECK(k[0] == doctest::Approx(k[3]));
  CHECK(std::abs(k[1]) + std::abs(k[2]) < 1e-6);
  CHECK(-k[0] > 0.65);
  CHECK(-k[0] < 1.2);
  CHECK(v == std::vector<float>(4, v[0]));
  CHECK(-2 * v[0] > 0.65);
  CHECK(number.item<float>() < -0.65);
}

TEST_CASE("a group steps all of its optimisers") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({1}), q = Tensor::from<float>({1});
  nn::SGD first({p}, {.lr = 0.5});
  nn::SGD second({q}, {.lr = 0.25, .momentum = 0.5});
  nn::OptimizerGroup group{first, second};
  CHECK(group.size() == 2);
  CHECK(&group[1] == &second);
  for (int step = 0; step < 2; step++) {
    group.zero_grad();
    const Tensor loss = (p + q).sum();
    loss.backward();
    group.step(std::vector{loss});
    CHECK(loss.is_realized());
  }
  CHECK(p.item<float>() == 0.0f);
  CHECK(q.item<float>() == 1 - 0.25f - 0.25f * 1.5f);
  std::vector<std::string> names;
  for (const auto& [name, t] : nn::state_dict(group)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"0.lr", "1.lr", "1.momentum.0"});
  group.zero_grad();
  CHECK(!p.grad());
}

TEST_CASE("a group steps none of its optimisers where one has no gradient") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({1}), q = Tensor::from<float>({1});
  nn::SGD first({p}, {.lr = 0.5}), second({q}, {.lr = 0.5});
  nn::OptimizerGroup group{first, second};
  p.sum().backward();
  CHECK(test::user_error([&] { group.step(); }).kind() == UserError::Kind::Runtime);
  CHECK(p.item<float>() == 1);
}

TEST_CASE("SGD with classic momentum keeps the rate of each step") {
  nn::TrainingScope training;
  for (bool classic : {false, true}) {
    CAPTURE(classic);
    const Tensor p = Tensor::from<float>({1});
    nn::SGD sgd({p}, {.lr = 0.5, .momentum = 0.5, .classic = classic});
    p.sum().backward();
    sgd.step();
    CHECK(p.item<float>() == 0.5);
    sgd.set_lr(0.25);
    sgd.zero_grad();
    p.sum().backward();
    sgd.step();
    // classic: b = .5·.5 + .25·1; else: .25·(.5·1 + 1)
    CHECK(p.item<float>() == (classic ? 0.0f : 0.125f));
  }
}

TEST_CASE("each parameter is updated once, buffers never") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({4});
  Tensor buffer = Tensor::from<float>({4});
  buffer.set_param(false);
  nn::SGD sgd({p, buffer, p}, {.lr = 1});
  CHECK(sgd.params().size() == 1);
  (p * 1 + buffer * 1).sum().backward();
  buffer.assign(buffer + 1);
  sgd.step();
  CHECK(p.item<float>() == 3);
  CHECK(buffer.is_realized());
  CHECK(buffer.item<float>() == 5);
}

TEST_CASE("parameters without axes and of half precision") {
  nn::TrainingScope training;
  const Tensor scalar = Tensor::from(NestedData(2.0));
  const Tensor half = Tensor::from({1.0, 2.0}, {.dtype = DType::Float16, .device = ""});
  for (int kind = 0; kind < 2; kind++) {
    std::unique_ptr<nn::Optimizer> optimizer;
    if (kind == 0)
      optimizer = std::make_unique<nn::SGD>(std::vector{scalar, half}, nn::SGD::Options{.lr = 0.5});
    else
      optimizer = std::make_unique<nn::Adam>(std::vector{scalar, half}, nn::AdamOptions{.lr = 0.5});
    optimizer->zero_grad();
    (scalar + half.sum().to_float()).backward();
    optimizer->step();
    CHECK(scalar.ndim() == 0);
    CHECK(half.dtype() == DType::Float16);
  }
  CHECK(scalar.item<float>() == doctest::Approx(1.0).epsilon(1e-4));
  CHECK(half.to_vector<float>()[1] == doctest::Approx(1.0).epsilon(1e-3));
}

TEST_CASE("squares of small half-precision gradients do not vanish") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from({1.0, 1.0}, {.dtype = DType::Float16, .device = ""});
  nn::Adam adam({p}, {.lr = 0.5});
  (p * Tensor::from({1e-4, -1e-4}).half()).sum().backward();
  adam.step();
  CHECK(p.to_vector<float>()[0] == doctest::Approx(0.5).epsilon(1e-3));
  CHECK(p.to_vector<float>()[1] == doctest::Approx(1.5).epsilon(1e-3));
}

TEST_CASE("wrong use of an optimizer") {
  const Tensor p = Tensor::from<float>({1});
  auto error = test::user_error([&] { nn::SGD({p}, {.lr = -1}); });
  CHECK(error.kind() == UserError::Kind::Value);
  CHECK(std::string(error.what()) == "Invalid learning rate: -1");
  Tensor buffer = Tensor::from<float>({1});
  buffer.set_param(false);
  error = test::user_error([&] { nn::SGD({buffer}); });
  CHECK(test::contains(error.what(), "optimizer must have at least one param"));
  nn::Adam adam({p});
  error = test::user_error([&] { adam.set_lr(std::nan("")); });
  CHECK(std::string(error.what()) == "Invalid learning rate: nan");
  error = test::user_error([&] { adam.step(); });
  CHECK(error.kind() == UserError::Kind::Runtime);
  CHECK(test::contains(error.what(), "TRAINING"));
  nn::TrainingScope training;
  error = test::user_error([&] { adam.step(); });
  CHECK(std::string(error.what()) ==
        "parameter 0 of shape (1,) has no gradient: call backward() on a loss that depends on it");
}
