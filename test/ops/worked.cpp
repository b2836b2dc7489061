// Worked values: the expressions of the specification of the tensor interface and the numbers that they give,
// on every device.
#include "base/knobs.h"
#include "ops/table.h"

#include <cmath>
#include <sstream>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

const Slice all, backwards{none, none, -1};

// The operands that the expressions name.
struct Operands {
  Tensor A = Tensor::arange(6).reshape({2, 3}), B = Tensor::arange(24).reshape({2, 3, 4}),
         r = Tensor::arange(4);
  Tensor z = Tensor::from({-2, -.5, 0, 1, 3}), w = Tensor::from({.1, .5, .9});
  Tensor m = Tensor::from({{1., 2., 3.}, {2., 2., 5.}});
  Tensor img = Tensor::arange(16).to_float().reshape({1, 1, 4, 4}), k = Tensor::ones({1, 1, 2, 2});
  Tensor logits = Tensor::from({{1., 2., 3.}, {1., 0., 0.}}), y = Tensor::from({2, 0});
  Tensor square = Tensor::from({{1., 2.}, {3., 4.}}), I2 = Tensor::eye(2);
};

struct Worked {
  const char* text;
  Tensor value;
  const char* expected;  // numbers in row-major order; '/' only separates rows for the reader
};

#define WORKED(expression, expected) \
  Worked { #expression, expression, expected }

std::vector<Worked> indexing(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  const auto t = [](NestedData v) { return Tensor::from(v); };
  return {
      WORKED(A.at(1), "3 4 5"),
      WORKED(A.at(all, backwards), "2 1 0 / 5 4 3"),
      WORKED(A.at(backwards, Slice{none, none, 2}), "3 5 / 0 2"),
      WORKED(A.index({{1, 0}, {2, 0}}), "5 0"),
      WORKED(A.index({all, {0, 2}}), "0 2 / 3 5"),
      WORKED(A.at(t({-1})), "3 4 5"),
      WORKED(A.at(t({5})), "0 0 0"),
      WORKED(A.at(t({1, 7}), t({2, 0})), "5 0"),
      WORKED(B.at(t({0, 1}), all, t({1, 3})), "1 5 9 / 15 19 23"),
      WORKED(B.at(1, ellipsis, 2), "14 18 22"),
      WORKED(B.at(newaxis, 0, 1, Slice{1, 3}), "5 6"),
      WORKED(A.gather(1, t({{2, 0}, {1, 1}})), "2 0 / 4 4"),
      WORKED(Tensor::zeros({2, 3}).scatter(1, t({{0, 2}, {1, 1}}), t({{1., 2.}, {3., 4.}})), "1 0 2 / 0 4 0"),
      WORKED(t({2, 0}).one_hot(3), "0 0 1 / 1 0 0"),
      WORKED(Tensor::ones({3}).scatter(0, t({0, 0, 2}), 5, ScatterReduction::Sum), "11 1 6"),
      WORKED(A.masked_select(A.gt(2)), "3 4 5"),
      WORKED(A.masked_select(A.gt(2), 5, -1), "3 4 5 -1 -1"),
      WORKED(t({{0, 3}, {4, 0}}).nonzero(), "0 1 / 1 0"),
      WORKED(t({3, 1, 2, 1}).sort().values, "1 1 2 3"),
      WORKED(t({3, 1, 2, 1}).sort().indices, "1 3 2 0"),
      WORKED(t({3, 1, 2, 1}).sort(-1, true).values, "3 2 1 1"),
      WORKED(t({3, 1, 2, 1}).sort(-1, true).indices, "0 2 1 3"),
      WORKED(t({3, 1, 2, 5}).topk(2).values, "5 3"),
      WORKED(t({3, 1, 2, 5}).topk(2).indices, "3 0"),
  };
}

std::vector<Worked> folding_scatters(const Operands&) {
  const Tensor x = Tensor::from({10., 20., 30.}), i = Tensor::from({0, 0, 2, 2}),
               s = Tensor::from({1., 2., 3., 4.});
  const auto scattered = [&](ScatterReduction r, bool include_self) {
    return x.scatter_reduce(0, i, s, r, include_self);
  };
  using enum ScatterReduction;
  return {
      WORKED(scattered(Sum, true), "13 20 37"),
      WORKED(scattered(Prod, true), "20 20 360"),
      WORKED(scattered(Mean, true), "4.333333 20 12.33333"),
      WORKED(scattered(Max, true), "10 20 30"),
      WORKED(scattered(Min, true), "1 20 3"),
      WORKED(scattered(Sum, false), "3 20 7"),
      WORKED(scattered(Prod, false), "2 20 12"),
      WORKED(scattered(Mean, false), "1.5 20 3.5"),
      WORKED(scattered(Max, false), "2 20 4"),
      WORKED(scattered(Min, false), "1 20 3"),
  };
}

std::vector<Worked> resampling(const Operands&) {
  const Tensor x = Tensor::from({1., 2., 4.});
  return {
      WORKED(x.interpolate(5), "1 1.4 2 3.2 4"),
      WORKED(x.interpolate(5, Interpolation::Linear, true), "1 1.5 2 3 4"),
      WORKED(x.interpolate(5, Interpolation::Nearest), "1 1 2 2 4"),
      WORKED(x.interpolate(5, Interpolation::NearestExact), "1 1 2 4 4"),
  };
}

std::vector<Worked> movement(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  return {
      WORKED(A.pad({1, 0, 0, 1}), "0 0 1 2 / 0 3 4 5 / 0 0 0 0"),
      WORKED(A.pad({{0, 0}, {-1, 1}}), "1 2 0 / 4 5 0"),
      WORKED(A.pad({1, 1}, PadMode::Constant, 7), "7 0 1 2 7 / 7 3 4 5 7"),
      WORKED(r.pad({2, 1}, PadMode::Circular), "2 3 0 1 2 3 0"),
      WORKED(r.pad({2, 1}, PadMode::Reflect), "2 1 0 1 2 3 2"),
      WORKED(r.pad({2, 1}, PadMode::Replicate), "0 0 0 1 2 3 3"),
      WORKED(r.roll(1, Ints(0)), "3 0 1 2"),
      WORKED(A.roll({1, 1}, Ints{0, 1}), "5 3 4 / 2 0 1"),
      WORKED(A.roll(2), "4 5 0 / 1 2 3"),
      WORKED(r.unfold(0, 2, 1), "0 1 / 1 2 / 2 3"),
      WORKED(Tensor::from({1, 2}).diag(), "1 0 / 0 2"),
      WORKED(A.diagonal(1), "1 5"),
      WORKED(A.diagonal(-1), "3"),
      WORKED(A.triu(1), "0 1 2 / 0 0 5"),
      WORKED(A.tril(-1), "0 0 0 / 3 0 0"),
      WORKED(A.repeat_interleave(2, 1), "0 0 1 1 2 2 / 3 3 4 4 5 5"),
      WORKED(A.repeat({1, 2}), "0 1 2 0 1 2 / 3 4 5 3 4 5"),
      WORKED(B.rearrange("a b c -> c (a b)").at(0), "0 4 8 12 16 20"),
      WORKED(Tensor::meshgrid({Tensor::from({1, 2}), Tensor::from({3, 4, 5})})[0], "1 1 1 / 2 2 2"),
      WORKED(Tensor::meshgrid({Tensor::from({1, 2}), Tensor::from({3, 4, 5})})[1], "3 4 5 / 3 4 5"),
      WORKED(Tensor::arange(5).split({1, 4})[1], "1 2 3 4"),
      WORKED(Tensor::arange(11).chunk(6)[4], "8 9"),
      WORKED(Tensor::arange(11).chunk(6)[5], "10"),
      WORKED(Tensor::arange(3, 9, .7), "3 3.7 4.4 5.1 5.8 6.5 7.2 7.9 8.6"),
      WORKED(Tensor::arange(3, 8.5, 3), "3 6"),
      WORKED(Tensor::arange(3, 5, -2), ""),
      WORKED(Tensor::arange(5.0, 3.0), ""),
  };
}

std::vector<Worked> arithmetic(const Operands&) {
  const Tensor seven = Tensor::from({7, -7}), half = Tensor::from({7.5, -7.5}),
               nan = Tensor::from({double{NAN}});
  return {
      WORKED(seven.div_floor(2), "3 -4"),
      WORKED(seven % 3, "1 2"),
      WORKED(seven.fmod(3), "1 -1"),
      WORKED(seven.div_trunc(2), "3 -3"),
      WORKED(seven / 2, "3.5 -3.5"),
      WORKED(half % 2, "1.5 .5"),
      WORKED(half.fmod(2), "1.5 -1.5"),
      WORKED(half.div_floor(2), "3 -4"),
      WORKED(Tensor::from({-1.5, -.5, .5, 1.5, 2.5, 2.6}).round(), "-2 0 0 2 2 3"),
      WORKED(Tensor::from({1., -2.}).copysign(Tensor::from({-0., 1.})), "-1 2"),
      WORKED(nan.lt(1), "0"),
      WORKED(nan.ge(1), "0"),  // IEEE comparison, a choice of the specification
      WORKED(Tensor::from({-8., 2., 0.}).pow(Tensor::from({3., -1., 0.})), "-512 .5 1"),
      WORKED(Tensor::from({-8.}).pow(.5), "nan"),
      WORKED(Tensor::from({2, 3}).pow(3), "8 27"),
      WORKED(Tensor::from({1, 4, 9, 16}).sqrt(), "1 2 3 4"),
  };
}

std::vector<Worked> functions(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  return {
      WORKED(z.relu(), "0 0 0 1 3"),
      WORKED(z.relu6(), "0 0 0 1 3"),
      WORKED(z.hardtanh(), "-1 -.5 0 1 1"),
      WORKED(z.sigmoid(), ".1192029 .3775407 .5 .7310586 .9525741"),
      WORKED(z.tanh(), "-.9640276 -.4621171 0 .7615941 .9950548"),
      WORKED(z.hardswish(), "-.3333333 -.2083333 0 .6666667 3"),
      WORKED(z.hardsigmoid(), ".1666667 .4166667 .5 .6666667 1"),
      WORKED(z.leaky_relu(), "-.02 -.005 0 1 3"),
      WORKED(z.elu(), "-.8646647 -.3934693 0 1 3"),
      WORKED(z.celu(), "-.8646647 -.3934693 0 1 3"),
      WORKED(z.selu(), "-1.520162 -.6917562 0 1.0507 3.1521"),
      WORKED(z.gelu(), "-.04540232 -.154286 0 .841192 2.996363"),
      WORKED(z.gelu("none"), "-.0455001 -.1542688 0 .8413447 2.99595"),
      WORKED(z.quick_gelu(), "-.06434137 -.1496116 0 .8457958 2.981929"),
      WORKED(z.swish(), "-.2384059 -.1887703 0 .7310586 2.857722"),
      WORKED(z.mish(), "-.2525015 -.2207438 0 .8650984 2.986535"),
      WORKED(z.softplus(), ".126928 .474077 .6931472 1.313262 3.048587"),
      WORKED(z.logsigmoid(), "-2.126928 -.974077 -.6931472 -.3132617 -.04858733"),
      WORKED(z.softsign(), "-.6666667 -.3333333 0 .5 .75"),
      WORKED(z.erf(), "-.9953222 -.5205001 0 .8427007 .9999779"),
      WORKED(z.exp(), ".1353353 .6065307 1 2.718282 20.08554"),
      WORKED(z.sinh(), "-3.62686 -.5210953 0 1.175201 10.01787"),
      WORKED(z.cosh(), "3.762196 1.127626 1 1.543081 10.06766"),
      WORKED(z.atan(), "-1.107149 -.4636477 0 .7853982 1.249046"),
      WORKED(w.log(), "-2.302585 -.6931472 -.1053605"),
      WORKED(w.log2(), "-3.321928 -1 -.1520031"),
      WORKED(w.log10(), "-1 -.30103 -.0457575"),
      WORKED(w.rsqrt(), "3.162278 1.414214 1.054093"),
      WORKED(w.asin(), ".1001676 .5235989 1.11977"),
      WORKED(w.acos(), "1.470629 1.047197 .4510268"),
      WORKED(w.atanh(), ".1003354 .5493062 1.472219"),
  };
}

std::vector<Worked> reductions(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  const Tensor halves = Tensor::from({40000, 40000}, {DType::Float16});
  return {
      WORKED(Tensor::from({1, 3, 3}).argmax(), "1"),
      WORKED(Tensor::from({2, 0, 0}).argmin(), "1"),
      WORKED(Tensor::from({1, 3, 2, 3, 5}).cummax().values, "1 3 3 3 5"),
      WORKED(Tensor::from({1, 3, 2, 3, 5}).cummax().indices, "0 1 1 1 4"),
      WORKED(Tensor::from({4, 2, 3, 2}).cummin().values, "4 2 2 2"),
      WORKED(Tensor::from({4, 2, 3, 2}).cummin().indices, "0 1 1 1"),
      WORKED(square.cumsum(1), "1 3 / 3 7"),
      WORKED(Tensor::from({1, 2, 3}).cumprod(), "1 2 6"),
      WORKED(Tensor::zeros({3}).logcumsumexp(), "0 .6931472 1.098612"),
      WORKED(m.softmax(), ".09003057 .2447285 .6652409 / .04527851 .04527851 .909443"),
      WORKED(m.log_softmax(), "-2.407606 -1.407606 -.4076059 / -3.094923 -3.094923 -.09492292"),
      WORKED(m.softmin().at(0), ".6652409 .2447285 .09003057"),
      WORKED(m.var(1), "1 3"),
      WORKED(m.std(1), "1 1.732051"),
      WORKED(m.mean(0), "1.5 2 4"),
      WORKED(m.var(1, false, 0), ".6666667 2"),
      WORKED(m.logsumexp(1), "3.407606 5.094923"),
      WORKED(m.prod(1), "6 20"),
      WORKED(m.normalize(), ".2672612 .5345225 .8017837 / .3481553 .3481553 .8703883"),
      WORKED(m.layernorm(), "-1.224736 0 1.224736 / -.707105 -.707105 1.41421"),
      WORKED(halves.sum(), "inf"),
      WORKED(halves.sum(0, false, DType::Float32), "80000"),
      WORKED(Tensor::zeros({2, 3, 0}).sum(-1), "0 0 0 / 0 0 0"),
  };
}

std::vector<Worked> products(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  const Tensor small = square.reshape({1, 1, 2, 2});
  return {
      WORKED(m.matmul(m.T()), "14 21 / 21 33"),
      WORKED(Tensor::einsum("ij,kj->ik", {m, m}), "14 21 / 21 33"),
      WORKED(Tensor::einsum("ii->i", {square}), "1 4"),
      WORKED(Tensor::einsum("ij->", {m}), "15"),
      WORKED(img.avg_pool2d(), "2.5 4.5 / 10.5 12.5"),
      WORKED(img.avg_pool2d({3, 3}, {.stride = 2, .padding = 1}), "1.111111 2.666667 / 5.666667 10"),
      WORKED(img.avg_pool2d({3, 3}, {.stride = 2, .padding = 1, .count_include_pad = false}),
             "2.5 4 / 8.5 10"),
      WORKED(img.avg_pool2d({3, 3}, {.stride = 2, .ceil_mode = true}), "5 6.5 / 11 12.5"),
      WORKED(img.max_pool2d(), "5 7 / 13 15"),
      WORKED(img.max_pool2d_with_indices().indices, "5 7 / 13 15"),
      WORKED(img.max_pool2d().max_unpool2d(img.max_pool2d_with_indices().indices),
             "0 0 0 0 / 0 5 0 7 / 0 0 0 0 / 0 13 0 15"),
      WORKED(Tensor::from({{3., 1.}, {4., 2.}}).qr().q, "-.6 .8 / -.8 -.6"),
      WORKED(Tensor::from({{3., 1.}, {4., 2.}}).qr().r, "-5 -2.2 / 0 -.4"),
      WORKED(Tensor::from({{3., 0.}, {4., 5.}}).svd().s, "6.708204 2.236068"),
      WORKED(square.newton_schulz(5, {3.4445, -4.775, 2.0315}), "-.6806613 .8255396 / .7412953 .2594402"),
      WORKED(img.conv2d(k, {}, {.stride = 2}), "10 18 / 42 50"),
      WORKED(img.conv2d(k, {}, {.padding = 1, .dilation = 2}).at(0, 0, 0), "5 10 12 6"),
      WORKED(small.conv_transpose2d(k, {}, {.stride = 2}), "1 1 2 2 / 1 1 2 2 / 3 3 4 4 / 3 3 4 4"),
      WORKED(small.conv_transpose2d(k, {}, {.stride = 2, .padding = 1, .output_padding = 1}),
             "1 2 2 / 3 4 4 / 3 4 4"),
      WORKED(I2.scaled_dot_product_attention(I2, I2), ".6697615 .3302385 / .3302385 .6697615"),
      WORKED(I2.scaled_dot_product_attention(I2, I2, {}, {.is_causal = true}), "1 0 / .3302385 .6697615"),
  };
}

std::vector<Worked> losses(const Operands& o) {
  const auto& [A, B, r, z, w, m, img, k, logits, y, square, I2] = o;
  const Tensor targets = Tensor::from({0., 1., 1., 0., 1.});
  return {
      WORKED(logits.sparse_categorical_crossentropy(y), ".4795253"),
      WORKED(logits.sparse_categorical_crossentropy(y, {.reduction = Reduction::None}), ".4076059 .5514446"),
      WORKED(logits.sparse_categorical_crossentropy(Tensor::from({2, -1})), ".203803"),
      WORKED(logits.sparse_categorical_crossentropy(y, {.ignore_index = 0}), ".4076059"),
      WORKED(logits.sparse_categorical_crossentropy(y, {.label_smoothing = .1}), ".5628586"),
      WORKED(logits.cross_entropy(y), ".4795253"),
      WORKED(logits.cross_entropy(y, {.reduction = Reduction::Sum, .label_smoothing = .1}), "1.125717"),
      WORKED(logits.log_softmax().nll_loss(y, Tensor::from({1., 2., 3.})), ".4435656"),
      WORKED(w.binary_crossentropy(Tensor::from({0., 1., 1.})), ".3012894"),
      WORKED(z.binary_crossentropy_logits(targets, Reduction::Mean, 2), ".9743626"),
  };
}

std::vector<double> numbers(std::string text) {
  for (char& c : text)
    if (c == '/') c = ' ';
  std::istringstream in(text);
  std::vector<double> out;
  for (std::string word; in >> word;) out.push_back(std::stod(word));
  return out;
}

void check(std::vector<Worked> (*table)(const Operands&)) {
  for (const std::string& device : devices()) {
    const KnobScope dev(Knob::DEV, device);
    for (const Worked& row : table(Operands())) {
      INFO(row.text, " on ", device);
      const std::vector<double> got = row.value.to_vector<double>(), expected = numbers(row.expected);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); i++) {
        INFO("element ", i, ": got ", got[i], ", expected ", expected[i]);
        // Seven digits are stated.
        const bool is_close = std::abs(got[i] - expected[i]) <= 1e-6 * std::max(1.0, std::abs(expected[i]));
        CHECK((is_close || got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))));
      }
    }
  }
}

// Digests as bytes.
std::string bytes_of(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2)
    out += std::to_string(std::stoi(hex.substr(i, 2), nullptr, 16)) + " ";
  return out;
}
void check_digests() {
  static const std::string k224 = bytes_of("e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
                           k128 = bytes_of("5881092dd818bf5cf8a3ddb793fbcba7"),
                           k256 =
                               bytes_of("3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
  check([](const Operands&) -> std::vector<Worked> {
    const Tensor abc = Tensor::from(std::vector<uint8_t>{'a', 'b', 'c'});
    return {
        WORKED(abc.keccak("sha3_224"), k224.c_str()),
        WORKED(abc.keccak("shake_128"), k128.c_str()),
        WORKED(abc.keccak("sha3_256"), k256.c_str()),
    };
  });
}

}  // namespace

TEST_CASE("worked: indexing") { check(indexing); }
TEST_CASE("worked: scatters that fold") { check(folding_scatters); }
TEST_CASE("worked: resampling") { check(resampling); }
TEST_CASE("worked: digests") { check_digests(); }
TEST_CASE("worked: movement") { check(movement); }
TEST_CASE("worked: arithmetic") { check(arithmetic); }
TEST_CASE("worked: functions") { check(functions); }
TEST_CASE("worked: reductions") { check(reductions); }
TEST_CASE("worked: products") { check(products); }
TEST_CASE("worked: losses") { check(losses); }
