// Losses.
#include "ops/table.h"

#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double cross(double p, double y) { return -y * std::log(p) - (1 - y) * std::log(1 - p); }

// All reductions of the losses of the elements, in the order None, Sum, Mean.
Arrays reduced(const Array& losses) {
  std::vector<int> all;
  for (int i = 0; i < losses.ndim(); i++) all.push_back(i);
  return {losses, fold(losses, all, sum), fold(losses, all, mean)};
}
constexpr Reduction kReductions[] = {Reduction::None, Reduction::Sum, Reduction::Mean};

Array log_softmax(A x, int axis) {
  return along(x, axis, [](const Values& v) {
    double s = 0;
    for (double e : v) s += std::exp(e);
    Values out;
    for (double e : v) out.push_back(e - std::log(s));
    return out;
  });
}
// Loss of each row of x against a label; a label outside the classes contributes nothing but its smoothing.
Array row_losses(A x, A y, double smoothing) {
  const Array logs = log_softmax(x, 1);
  return build({x.shape[0]}, [&](I i) {
    const auto label = static_cast<int64_t>(y.at(i[0]));
    double all = 0;
    for (int64_t c = 0; c < x.shape[1]; c++) all += logs.at(i[0], c) / static_cast<double>(x.shape[1]);
    const double own = label >= 0 && label < x.shape[1] ? logs.at(i[0], label) : 0;
    return -(1 - smoothing) * own - smoothing * all;
  });
}

Rows binary() {
  const Input probabilities = in({3, 5}).range(.0625, .9375), targets = in({3, 5}).range(0, 1);
  return {
      Row(
          "binary_crossentropy", {probabilities, targets},
          [](T x, T y) {
            Tensors out;
            for (Reduction r : kReductions) out.push_back(x.binary_crossentropy(y, r));
            return out;
          },
          [](A x, A y) { return reduced(map(x, y, cross)); })
          .within(8)
          .gradient_within(3e-5),
      Row(
          "binary_crossentropy_logits", {in({3, 5}), targets},
          [](T x, T y) {
            Tensors out;
            for (Reduction r : kReductions) out.push_back(x.binary_crossentropy_logits(y, r));
            return out;
          },
          [](A x, A y) {
            return reduced(map(x, y, [](double a, double b) { return cross(sigmoid(a), b); }));
          })
          .within(8),
      Row(
          "binary_crossentropy_logits: weights", {in({3, 5}), targets, in({5}).range(.5, 2)},
          [](T x, T y, T w) { return x.binary_crossentropy_logits(y, Reduction::Sum, w); },
          [](A x, A y, A w) {
            return fold(map(x, y, w,
                            [](double a, double b, double k) {
                              return -k * b * std::log(sigmoid(a)) - (1 - b) * std::log(1 - sigmoid(a));
                            }),
                        {0, 1}, sum);
          })
          .within(16),
  };
}

// A class for each of four rows; the second has rows of none.
Input labels() { return given({4}, {2, 0, 4, 1}).of(DType::Int32); }
Input partial_labels() { return given({4}, {2, -1, 4, -1}).of(DType::Int32); }

Rows classes() {
  return {
      Row(
          "sparse_categorical_crossentropy", {in({4, 5}), labels()},
          [](T x, T y) {
            Tensors out;
            for (Reduction r : kReductions)
              out.push_back(x.sparse_categorical_crossentropy(y, {.reduction = r}));
            return out;
          },
          [](A x, A y) { return reduced(row_losses(x, y, 0)); })
          .within(8)
          .everywhere(),
      Row(
          "sparse_categorical_crossentropy: smoothing", {in({4, 5}), labels()},
          [](T x, T y) { return x.sparse_categorical_crossentropy(y, {.label_smoothing = .2}); },
          [](A x, A y) { return reduced(row_losses(x, y, .2))[2]; })
          .within(8),
      Row(
          "sparse_categorical_crossentropy: a label of no class", {in({4, 5}), partial_labels()},
          [](T x, T y) { return x.sparse_categorical_crossentropy(y); },
          [](A x, A y) { return reduced(row_losses(x, y, 0))[2]; })
          .within(8),
      Row(
          "sparse_categorical_crossentropy: an ignored label", {in({4, 5}), labels()},
          [](T x, T y) { return x.sparse_categorical_crossentropy(y, {.ignore_index = 4}); },
          [](A x, A y) {
            const Array l = row_losses(x, y, 0);
            return scalar((l.at(0) + l.at(1) + l.at(3)) / 3);
          })
          .within(8),
      Row(
          "sparse_categorical_crossentropy: leading axes",
          {in({2, 2, 5}), given({2, 2}, {2, 0, 4, 1}).of(DType::Int32)},
          [](T x, T y) { return x.sparse_categorical_crossentropy(y, {.reduction = Reduction::None}); },
          [](A x, A y) { return reshape(row_losses(reshape(x, {4, 5}), reshape(y, {4}), 0), {2, 2}); })
          .within(8),
  };
}

Rows cross_entropies() {
  return {
      Row(
          "cross_entropy", {in({4, 5}), labels()},
          [](T x, T y) {
            Tensors out;
            for (Reduction r : kReductions) out.push_back(x.cross_entropy(y, {.reduction = r}));
            return out;
          },
          [](A x, A y) { return reduced(row_losses(x, y, 0)); })
          .within(8),
      Row(
          "cross_entropy: smoothing", {in({4, 5}), labels()},
          [](T x, T y) { return x.cross_entropy(y, {.label_smoothing = .2}); },
          [](A x, A y) { return reduced(row_losses(x, y, .2))[2]; })
          .within(8),
      Row(
          "cross_entropy: probabilities", {in({4, 5}), in({4, 5}).range(0, 1)},
          [](T x, T y) { return x.cross_entropy(y); },
          [](A x, A y) {
            return reduced(
                fold(map(log_softmax(x, 1), y, [](double l, double p) { return -l * p; }), {1}, sum))[2];
          })
          .within(16),
      Row(
          "cross_entropy: ignored labels, of no class too",
          {in({4, 5}), given({4}, {2, -100, 4, 1}).of(DType::Int32), labels()},
          [](T x, T y, T z) {
            Tensors out;
            for (Reduction r : kReductions)
              out.push_back(x.cross_entropy(y, {.reduction = r, .ignore_index = -100}));
            out.push_back(x.cross_entropy(z, {.label_smoothing = .2, .ignore_index = 4}));
            return out;
          },
          [](A x, A y, A z) {
            const Array l = row_losses(x, y, 0), smooth = row_losses(x, z, .2);
            const Array kept = build({4}, [&](I i) { return i[0] == 1 ? 0 : l(i); });
            const double total = l.at(0) + l.at(2) + l.at(3);
            return Arrays{kept, scalar(total), scalar(total / 3),
                          scalar((smooth.at(0) + smooth.at(1) + smooth.at(3)) / 3)};
          })
          .within(8),
      Row(
          "cross_entropy: an image", {in({2, 3, 2}), given({2, 2}, {2, 0, 1, 1}).of(DType::Int32)},
          [](T x, T y) { return x.cross_entropy(y, {.reduction = Reduction::Sum}); },
          [](A x, A y) {
            return reduced(row_losses(reshape(permute(x, {0, 2, 1}), {4, 3}), reshape(y, {4}), 0))[1];
          })
          .within(16),
      Row(
          "nll_loss", {in({4, 5}), labels()},
          [](T x, T y) { return Tensors{x.nll_loss(y), x.nll_loss(y, {}, {.reduction = Reduction::None})}; },
          [](A x, A y) {
            const Array l = build({4}, [&](I i) { return -x.at(i[0], y.at(i[0])); });
            return Arrays{fold(l, {0}, mean), l};
          }),
      Row(
          "nll_loss: weights and an ignored label", {in({4, 5}), labels(), in({5}).range(.5, 2)},
          [](T x, T y, T w) { return x.nll_loss(y, w, {.ignore_index = 4}); },
          [](A x, A y, A w) {
            double s = 0, all = 0;
            for (int64_t i : {0, 1, 3}) {
              s -= x.at(i, y.at(i)) * w.at(y.at(i));
              all += w.at(y.at(i));
            }
            return scalar(s / all);
          })
          .within(8),
  };
}

}  // namespace

TABLE_TEST_CASE("losses of probabilities", binary)
TABLE_TEST_CASE("losses of classes", classes)
TABLE_TEST_CASE("cross entropies", cross_entropies)
