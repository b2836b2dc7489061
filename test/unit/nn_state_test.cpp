#include "base/log.h"
#include "nn/layers.h"
#include "nn/state.h"

#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "support/test.h"

using namespace lathe;

namespace {

struct Block {
  nn::Linear first{2, 3};
  nn::Linear second{3, 2, false};
  void each(auto&& visit) const {
    visit("first", first);
    visit("second", second);
  }
};

struct Model {
  std::vector<Block> layers = std::vector<Block>(2);
  std::map<std::string, Tensor> extra{{"b", Tensor::zeros({1})}, {"a", Tensor::zeros({2})}};
  std::array<Tensor, 2> pair{Tensor::zeros({3}), Tensor::zeros({4})};
  std::tuple<nn::Dropout, Tensor> mixed{nn::Dropout(), Tensor::zeros({5})};
  std::unique_ptr<Tensor> absent, present = std::make_unique<Tensor>(Tensor::zeros({6}));
  nn::BatchNorm norm{2};
  void each(auto&& visit) const {
    visit("layers", layers);
    visit("extra", extra);
    visit("pair", pair);
    visit("mixed", mixed);
    visit("absent", absent);
    visit("present", present);
    visit("norm", norm);
  }
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, t] : tensors) out.push_back(name);
  return out;
}

struct Pair {
  Tensor w = Tensor::zeros({2, 3}), b = Tensor::zeros({1});
  void each(auto&& visit) const {
    visit("w", w);
    visit("b", b);
  }
};

// The log lines that `f` causes.
std::vector<std::string> logged(auto&& f) {
  std::vector<std::string> out;
  LogSink before = set_log_sink([&](LogLevel, std::string_view line) { out.emplace_back(line); });
  f();
  set_log_sink(std::move(before));
  return out;
}

}  // namespace

TEST_CASE("tensors of a model by name") {
  const Model model;
  CHECK(names(nn::state_dict(model)) ==
        std::vector<std::string>{"layers.0.first.weight", "layers.0.first.bias", "layers.0.second.weight",
                                 "layers.1.first.weight", "layers.1.first.bias", "layers.1.second.weight",
                                 "extra.a", "extra.b", "pair.0", "pair.1", "mixed.1", "present",
                                 "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
                                 "norm.num_batches_tracked"});
  CHECK(names(nn::state_dict(model.layers[0].second, "head")) == std::vector<std::string>{"head.weight"});
  CHECK(names(nn::state_dict(model.extra)) == std::vector<std::string>{"a", "b"});
  const std::vector<Tensor> all = nn::parameters(model);
  CHECK(all.size() == 17);
  CHECK(all[0].is_same(model.layers[0].first.weight));
  CHECK(all[0].is_param());
  CHECK(!model.norm.running_mean->is_param());
  CHECK(!model.norm.num_batches_tracked->is_param());
}

TEST_CASE("a state dict is loaded whole or not at all") {
  const Pair model;
  const NamedTensors values{{"b", Tensor::from<float>({7})},
                            {"w", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})}};
  nn::load_state_dict(model, values);
  CHECK(model.w.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(model.b.item<float>() == 7);

  CHECK_THROWS_AS(nn::load_state_dict(model, {{"w", Tensor::zeros({2, 3})}, {"b", Tensor::zeros({2})}}),
                  UserError);
  CHECK_THROWS_AS(nn::load_state_dict(model, {{"w", Tensor::zeros({2, 3})}}), UserError);
  CHECK(model.w.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});

  CHECK(logged([&] { nn::load_state_dict(model, {{"w", Tensor::zeros({2, 3})}}, {.strict = false}); }) ==
        std::vector<std::string>{"a state dict of 1 tensors does not fit a model of 2\n  missing: `b`"});
  CHECK(model.w.to_vector<float>() == std::vector<float>(6, 0));
  CHECK(model.b.item<float>() == 7);
}

TEST_CASE("one error says all that does not fit") {
  const Pair model;
  auto text = [&](const NamedTensors& values, UserError::Kind kind, bool strict = true) {
    const auto error = test::user_error([&] { nn::load_state_dict(model, values, {.strict = strict}); });
    CHECK(error.kind() == kind);
    return std::string(error.what());
  };
  NamedTensors values;
  for (int i = 0; i < 7; i++) values.emplace_back(fmt::format("x{}", i), Tensor::zeros({1}));
  const std::string names =
      "a state dict of 7 tensors does not fit a model of 2\n  missing: `w`, `b`\n  unexpected: `x0`, `x1`, "
      "`x2`, "
      "`x3`, `x4` and 2 more";
  CHECK(text(values, UserError::Kind::Index) == names);
  values = {{"b", Tensor::zeros({2}).half()}, {"x", Tensor::zeros({1})}};
  const std::string mismatch =
      "Shape mismatch in layer `b`: Expected shape (1,) of float, but found (2,) of half in state dict.\n"
      "a state dict of 2 tensors does not fit a model of 2\n  missing: `w`\n  unexpected: `x`";
  CHECK(text(values, UserError::Kind::Value) == mismatch);
  CHECK(text(values, UserError::Kind::Value, false) == mismatch);

  const std::vector<Pair> many(4);
  values.clear();
  for (const auto& [name, t] : nn::state_dict(many)) values.emplace_back(name, Tensor::zeros({5}));
  const auto error = test::user_error([&] { nn::load_state_dict(many, values); });
  CHECK(test::contains(error.what(), "layer `2.w`: Expected"));
  CHECK(!test::contains(error.what(), "layer `2.b`"));
  CHECK(test::contains(error.what(), "\n3 more do not match.\n"));
}

TEST_CASE("no axes and one element count as the same shape") {
  const Pair model;
  nn::load_state_dict(model, {{"w", Tensor::zeros({2, 3})}, {"b", Tensor::from(NestedData(2.5))}});
  CHECK(to_string(model.b.shape()) == "(1,)");
  CHECK(model.b.item<float>() == 2.5);
}

TEST_CASE("values that nothing asks for are logged where that is allowed") {
  const Pair model;
  NamedTensors values = nn::state_dict(Pair());
  CHECK(logged([&] { nn::load_state_dict(model, values); }).empty());
  values.emplace_back("x", Tensor::zeros({1}));
  CHECK(logged([&] { nn::load_state_dict(model, values, {.strict = false}); }) ==
        std::vector<std::string>{"a state dict of 3 tensors does not fit a model of 2\n  unexpected: `x`"});
}
