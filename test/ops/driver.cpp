#include "base/knobs.h"
#include "ops/inputs.h"
#include "ops/table.h"
#include "runtime/device.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "support/test.h"

namespace lathe::ops {
namespace {

const std::string kOracle = "INTERP";

// Kernels compiled here stay out of the user's cache, and none of an earlier build is taken from it.
void use_fresh_cache() {
  static test::TempDir* const folder = [] {
    auto* made = new test::TempDir;
    set_knob(Knob::CACHEDB, made->file("kernels.db"));
    std::atexit([] { delete folder; });
    return made;
  }();
  (void)folder;
}

bool works(const std::string& device) {
  try {
    const KnobScope dev(Knob::DEV, device);
    return (Tensor::from({1, 2}) + 1).to_vector<int>() == std::vector<int>{2, 3};
  } catch (const Error& e) {
    test::skip(fmt::format("{} does not work here: {}", device, e.what()));
    return false;
  }
}

}  // namespace

const std::vector<std::string>& devices() {
  static const std::vector<std::string> kDevices = [] {
    use_fresh_cache();
    std::vector<std::string> out{kOracle};
    const char* wanted = std::getenv("LATHE_OPS_DEVICE");  // only this one beside the oracle
    for (const std::string& name : known_devices())
      if (name != kOracle && !name.starts_with("NULL") && (wanted == nullptr || name == wanted) &&
          works(name))
        out.push_back(name);
    return out;
  }();
  return kDevices;
}

namespace {

// How far a result may be from what is expected.
struct Tolerance {
  double relative, absolute;
  bool accepts(double got, double expected) const {
    if (std::isnan(expected)) return std::isnan(got);
    if (std::isinf(expected) || relative + absolute == 0) return got == expected;
    return std::abs(got - expected) <= relative * std::max(1.0, std::abs(expected)) + absolute;
  }
};

// Empty, or the first difference.
std::string difference(const Array& got, const Array& expected, const Tolerance& tolerance) {
  if (got.shape != expected.shape)
    return fmt::format("shape is {}, expected {}", to_string(got.shape), to_string(expected.shape));
  std::string out;
  for_each(got.shape, [&](const Index& i) {
    if (!out.empty() || tolerance.accepts(got(i), expected(i))) return;
    out = fmt::format("element {} is {:.9g}, expected {:.9g}", to_string(i), got(i), expected(i));
  });
  return out;
}

// One row in one dtype: inputs, and what its op must give.
class Case {
 public:
  Case(const Row& row, DType variant) : row_(row), variant_(variant) {
    Random random(row.name);
    for (const Input& input : row.inputs) {
      dtypes_.push_back(input.dtype.value_or(variant));
      inputs_.push_back(draw(input, dtypes_.back(), random));
    }
    expected_ = row.reference(inputs_).list;
    for (size_t k = 0; k < expected_.size(); k++) {
      if (!is_float(result(k)))
        for (double& v : expected_[k].data) v = rounded(v, result(k));
      weights_.push_back(draw_weights(expected_[k].shape, random));
    }
  }

  DType result(size_t k) const { return row_.results[std::min(k, row_.results.size() - 1)].of(variant_); }
  bool has_gradient() const { return variant_ == DType::Float32 && row_.checks_gradient(); }

  // Runs the op; the values of all outputs.
  Arrays forward(Layout layout) const {
    const Tensors out = row_.op(upload_all(layout)).list;
    Tensor::realize(out);
    Arrays values;
    for (size_t k = 0; k < out.size(); k++) {
      if (out[k].dtype() != result(k))
        user_runtime_error("dtype of output {} is {}, expected {}", k, dtype_name(out[k].dtype()),
                           dtype_name(result(k)));
      values.push_back(download(out[k]));
    }
    return values;
  }

  // Of the weighted sum of all outputs, for every float input.
  Arrays gradient() const {
    const Tensors inputs = upload_all(Layout::Plain);
    const Tensors out = row_.op(inputs).list;
    Tensors targets;
    for (size_t i = 0; i < inputs.size(); i++)
      if (is_target(i)) targets.push_back(inputs[i]);
    Tensor loss = 0.0;
    for (size_t k = 0; k < out.size(); k++)
      if (is_float(out[k].dtype())) loss = loss + (out[k] * upload(weights_[k], out[k].dtype())).sum();
    const Tensors found = loss.gradient(targets);
    Tensor::realize(found);
    Arrays values;
    for (const Tensor& g : found) values.push_back(download(g));
    return values;
  }

  // The same by central differences of the reference.
  Arrays expected_gradient() const {
    constexpr double kStep = 1e-5;
    Arrays out, inputs = inputs_;
    for (size_t i = 0; i < inputs.size(); i++) {
      if (!is_target(i)) continue;
      out.push_back(inputs[i]);
      for (size_t at = 0; at < inputs[i].data.size(); at++) {
        double& x = inputs[i].data[at];
        const double old = x;
        x = old + kStep;
        const double up = loss(row_.reference(inputs).list);
        x = old - kStep;
        const double down = loss(row_.reference(inputs).list);
        x = old;
        out.back().data[at] = (up - down) / (2 * kStep);
      }
    }
    return out;
  }

  std::string compare(const Arrays& got) const { return compare(got, expected_, row_.absolute); }
  // Devices round alike, whatever the error of the approximation.
  std::string compare(const Arrays& got, const Arrays& oracle) const { return compare(got, oracle, 0); }
  std::string compare_gradient(const Arrays& got, const Arrays& expected) const {
    if (got.size() != expected.size()) return "number of gradients";
    for (size_t k = 0; k < got.size(); k++) {
      const std::string d = difference(got[k], expected[k], {row_.gradient_tolerance, 0});
      if (!d.empty()) return fmt::format("gradient {}: {}", k, d);
    }
    return "";
  }

 private:
  bool is_target(size_t i) const { return row_.inputs[i].differentiable && dtypes_[i] == DType::Float32; }
  Tensors upload_all(Layout layout) const {
    Tensors out;
    for (size_t i = 0; i < inputs_.size(); i++) out.push_back(upload(inputs_[i], dtypes_[i], layout));
    return out;
  }
  std::string compare(const Arrays& got, const Arrays& expected, double absolute) const {
    if (got.size() != expected.size())
      return fmt::format("{} outputs, expected {}", got.size(), expected.size());
    for (size_t k = 0; k < got.size(); k++) {
      const double relative = row_.ulps * epsilon(result(k));
      const std::string d = difference(got[k], expected[k], {relative, is_float(result(k)) ? absolute : 0});
      if (!d.empty()) return fmt::format("output {}: {}", k, d);
    }
    return "";
  }
  double loss(const Arrays& out) const {
    double sum = 0;
    for (size_t k = 0; k < out.size(); k++)
      for (size_t i = 0; is_float(result(k)) && i < out[k].data.size(); i++)
        sum += out[k].data[i] * weights_[k].data[i];
    return sum;
  }

  const Row& row_;
  DType variant_;
  std::vector<DType> dtypes_;
  Arrays inputs_, expected_, weights_;
};

// Text of what goes wrong in f, behind where it happened.
template <class F>
void note(std::vector<std::string>& problems, const std::string& where, F f) {
  std::string problem;
  try {
    problem = f();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  if (!problem.empty()) problems.push_back(where + ": " + problem);
}

Layout other_layout(const Row& row) {
  return static_cast<Layout>(1 + Random(row.name).below(kNumLayouts - 1));
}

}  // namespace

std::vector<std::string> problems(const Row& row) {
  std::vector<std::string> out;
  for (DType variant : row.dtypes) {
    const Case one(row, variant);
    Arrays oracle, oracle_gradient, expected_gradient;
    if (one.has_gradient()) expected_gradient = one.expected_gradient();
    for (size_t d = 0; d < devices().size(); d++) {
      // What takes a compiler run for every kernel runs each row once.
      const bool is_main = d < 2;
      if (!is_main && variant != row.dtypes[0]) continue;
      const KnobScope dev(Knob::DEV, devices()[d]);
      const std::string where = fmt::format("{} of {} on {}", row.name, dtype_name(variant), devices()[d]);
      note(out, where, [&] {
        Arrays got = one.forward(Layout::Plain);
        std::string problem = one.compare(got);
        if (d == 0)
          oracle = std::move(got);
        else if (problem.empty() && !oracle.empty())
          problem = one.compare(got, oracle);
        return problem;
      });
      if (is_main && row.any_layout && variant == row.dtypes[0]) {
        const Layout layout = other_layout(row);
        note(out, fmt::format("{}, inputs {}", where, layout_name(layout)),
             [&] { return one.compare(one.forward(layout)); });
      }
      if (!one.has_gradient() || (!is_main && !row.every_device)) continue;
      note(out, where, [&] {
        Arrays got = one.gradient();
        std::string problem = one.compare_gradient(got, expected_gradient);
        if (d == 0)
          oracle_gradient = std::move(got);
        else if (problem.empty() && !oracle_gradient.empty())
          problem = one.compare_gradient(got, oracle_gradient);
        return problem;
      });
    }
  }
  return out;
}

void run(const Rows& rows) {
  const char* wanted = std::getenv("LATHE_OPS_ROW");
  for (const Row& row : rows) {
    if (wanted != nullptr && row.name.find(wanted) == std::string::npos) continue;
    const std::vector<std::string> found = problems(row);
    if (row.known_failure.empty()) {
      for (const std::string& problem : found) FAIL_CHECK(problem);
      CHECK(found.empty());
    } else if (found.empty()) {
      FAIL_CHECK(row.name << " passes: take away its mark \"" << row.known_failure << "\"");
    } else {
      MESSAGE("KNOWN FAILURE of " << row.name << " (" << row.known_failure << "): " << found[0]);
    }
  }
}

}  // namespace lathe::ops
