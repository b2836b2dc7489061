// What the tensor API refuses: kind and text of each error.
#include "tensor/tensor.h"

#include <cmath>
#include <cstdint>
#include <functional>

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Kind = UserError::Kind;

void check_error(Kind kind, std::string_view text, const std::function<void()>& f) {
  const UserError error = user_error(f);
  INFO("got: ", std::string(error.what()));
  INFO("expected: ", std::string(text));
  CHECK(to_string(error.kind()) == to_string(kind));
  CHECK(contains(error.what(), text));
}

Tensor two() { return Tensor::from({1.0, 2.0}); }
Tensor bytes2() { return Tensor::from({1, 2}, {DType::Int8}); }

}  // namespace

TEST_CASE("indexing") {
  const Tensor a = two();
  check_error(Kind::Index, "index=[True, False] contains non-int element", [&] { a.index({{true, false}}); });
  check_error(Kind::Index, "index=[0, 1.5] contains non-int element", [&] { a.index({{0, 1.5}}); });
  check_error(Kind::Index, "too many indices (2) for 1D", [&] { a.at(1, 2); });
  check_error(Kind::Index, "index=5 is out of bounds with size=2", [&] { a.at(5); });
  check_error(Kind::Index, "index=-3 is out of bounds with size=2", [&] { a.at(-3); });
  const std::string where =
      " is out of bounds with size=3: axis 1 of a dtypes.float tensor of shape (2, 3) allows ";
  const Tensor b = Tensor::ones({2, 3});
  check_error(Kind::Index, "index=3" + where + "-3..2", [&] { b.at(0, 3); });
  check_error(Kind::Index, "index=-4" + where + "-3..2", [&] { b.at(newaxis, ellipsis, -4); });
  check_error(Kind::Index, "index=3" + where + "-3..2", [&] { Tensor(b).set({0, 3}, 1); });
  check_error(Kind::Index, "index=3" + where + "-3..2", [&] { b.at(0, SInt(3)); });
  check_error(Kind::Index, "index=v" + where + "0..2", [&] { b.at(0, variable("v", 3, 9)); });
  check_error(Kind::Index, "index=v" + where + "0..2", [&] { b.at(0, variable("v", -3, -1)); });
  CHECK(b.at(0, variable("v", 0, 3)).ndim() == 0);
  check_error(Kind::Index,
              "index=0 is out of bounds with size=0: axis 0 of a dtypes.int tensor of shape (0,)",
              [] { Tensor::empty({0}, {DType::Int32}).at(0); });
  check_error(Kind::Value, "cannot have 0 as step", [&] { a.at(Slice{none, none, 0}); });
  check_error(Kind::Runtime, "slice(v, None, 2) of symbolic size needs step 1",
              [&] { b.at(0, Slice{variable("v", 0, 2), none, 2}); });
  check_error(Kind::Runtime, "slice(v, 1, 1) of size (3,) may have negative length",
              [&] { b.at(0, Slice{variable("v", 0, 2), 1}); });
  check_error(Kind::Runtime, "expected index and tensor on the same device, got CPU:1 and CPU",
              [&] { a.at(Tensor::from({0}, {.device = "CPU:1"})); });
  check_error(Kind::Index, "indices can only have a single ellipsis", [&] { a.at(ellipsis, ellipsis); });
  check_error(Kind::Index, "index dtype dtypes.float is not supported", [&] { a.at(two()); });
  check_error(Kind::Index, "index dtype dtypes.bool is not supported", [&] { a.at(a.gt(1)); });
  check_error(Kind::Index, "cannot broadcast indices",
              [] { Tensor::zeros({2, 2}).at(Tensor::from({0, 1}), Tensor::from({0, 1, 0})); });
  check_error(Kind::Value, "self.ndim must equal index.ndim", [&] { a.gather(0, Tensor::from({{0}})); });
  check_error(Kind::Runtime, "expect integer dtype for one hot", [&] { a.one_hot(3); });
  check_error(Kind::Value, "num_classes must be non-negative", [] { Tensor::from({1}).one_hot(-1); });
  check_error(Kind::Value, "selected index k=5 is out of range", [&] { a.topk(5); });
  check_error(Kind::Index, "dim=1 out of range [-1, 0]", [&] { a.sort(1); });
}

TEST_CASE("picking and placing") {
  const Tensor a = two(), i = Tensor::from({0, 1});
  check_error(Kind::Type, "scatter reduces only a number",
              [&] { a.scatter(0, i, a, ScatterReduction::Sum); });
  check_error(Kind::Type, "by sum or product", [&] { a.scatter(0, i, 1, ScatterReduction::Max); });
  check_error(Kind::Value, "must have the same rank, got 1, 2 and 1",
              [&] { a.scatter(0, Tensor::from({{0}}), a); });
  check_error(Kind::Value, "index of shape (3,) does not fit self (2,) and src (2,)",
              [&] { a.scatter(0, Tensor::from({0, 1, 0}), a); });
  check_error(Kind::Runtime, "expect self and src to have the same dtype, got dtypes.float and dtypes.int",
              [&] { a.scatter_reduce(0, i, i, ScatterReduction::Sum); });
  check_error(Kind::Runtime, "expect integer dtype for index, got dtypes.float", [&] { a.scatter(0, a, a); });
  check_error(Kind::Value, "at least one axis", [] { Tensor(1.).scatter(0, Tensor(0), 2); });
  check_error(Kind::Runtime, "masked_select expects bool mask tensor, got dtypes.float",
              [&] { a.masked_select(a); });
  check_error(Kind::Value, "size must be non-negative, got -1", [&] { a.nonzero(-1); });
  check_error(Kind::Index, "cannot be broadcast", [&] { a.masked_select(Tensor::ones({3}).gt(0)); });
  check_error(Kind::Value, "needs sizes of 1 to 1 axes, got 2", [&] { a.interpolate({2, 2}); });
  check_error(Kind::Value, "needs positive sizes, got 0", [&] { a.interpolate(0); });
  check_error(Kind::Value, "align_corners is only for linear",
              [&] { a.interpolate(3, Interpolation::Nearest, true); });
  check_error(Kind::Value, "without elements", [] { Tensor::zeros({0}).interpolate(3); });
}

TEST_CASE("names of axes") {
  const Tensor x = Tensor::ones({2, 6});
  check_error(Kind::Value, "need exactly one \"->\" in formula", [&] { x.rearrange("a b"); });
  check_error(Kind::Value, "need exactly one \"->\" in formula", [&] { x.rearrange("a -> b -> c"); });
  check_error(Kind::Value, "bracket mismatch", [&] { x.rearrange("(a b -> b a"); });
  check_error(Kind::Value, "bracket mismatch", [&] { x.rearrange("a b -> b) a"); });
  check_error(Kind::Value, "name mismatch", [&] { x.rearrange("a b -> a c"); });
  check_error(Kind::Value, "name mismatch", [&] { x.rearrange("a b -> a"); });
  check_error(Kind::Value, "name mismatch", [&] { x.rearrange("a b ... -> a b"); });
  check_error(Kind::Value, "axis a stands twice", [&] { x.rearrange("a a -> a"); });
  check_error(Kind::Value, "invalid axis name 2b", [&] { x.rearrange("a 2b -> 2b a"); });
  check_error(Kind::Value, "invalid axis name b-", [&] { x.rearrange("a b- -> b- a"); });
  check_error(Kind::Value, "not as many axes as shape (2, 6)", [&] { x.rearrange("a -> a"); });
  check_error(Kind::Value, "not as many axes as shape (2, 6)", [&] { x.rearrange("a b c -> a b c"); });
  check_error(Kind::Value, "axis 1 of shape (2, 6)", [&] { x.rearrange("a (b c) -> a b c", {{"b", 4}}); });
  check_error(Kind::Value, "sizes of b and c are both open", [&] { x.rearrange("a (b c) -> a b c"); });
  check_error(Kind::Value, "has no axis d", [&] { x.rearrange("a b -> b a", {{"d", 4}}); });
}

TEST_CASE("matrices and hashes") {
  const Tensor a = two();
  check_error(Kind::Value, "qr expects at least 2 axes, got shape (2,)", [&] { a.qr(); });
  check_error(Kind::Value, "svd expects at least 2 axes", [&] { a.svd(); });
  check_error(Kind::Value, "newton_schulz expects at least 2 axes", [&] { a.newton_schulz(1, {1}); });
  check_error(Kind::Value, "at least one parameter", [] { Tensor::ones({2, 2}).newton_schulz(1, {}); });
  check_error(Kind::Runtime, "keccak expects uint8, got dtypes.float", [&] { a.keccak(); });
  const Tensor bytes = Tensor::zeros({2}, {DType::UInt8});
  check_error(Kind::Value, "got \"md5\"", [&] { bytes.keccak("md5"); });
  check_error(Kind::Value, "rate must be a multiple of 8 below 200, got 100", [&] { bytes.keccak(100, 6); });
  check_error(Kind::Value, "at least one axis", [] { Tensor(1, DType::UInt8).keccak(); });
}

TEST_CASE("writing") {
  Tensor a = two(), weak = Tensor(2.0).expand({4});
  check_error(Kind::Runtime, "assign dtype mismatch dtypes.float != dtypes.int",
              [&] { a.assign(Tensor::from({1, 2})); });
  Tensor l = Tensor::from(std::vector<int64_t>{1, 2});
  check_error(Kind::Runtime, "assign dtype mismatch dtypes.long != dtypes.float", [&] { l.assign(two()); });
  check_error(Kind::Runtime, "assign dtype mismatch dtypes.int != dtypes.weakfloat", [] {
    Tensor i = Tensor::from({1});
    i += 0.5;
  });
  check_error(Kind::Value, "cannot broadcast (3,) to new_shape=(2,)", [&] { a.assign(Tensor::ones({3})); });
  check_error(Kind::Runtime, "assign device mismatch CPU != CPU:1",
              [&] { a.assign(Tensor::from({1., 2.}, {.device = "CPU:1"})); });
  check_error(Kind::Runtime, "setitem dtype mismatch", [&] { a.set({0}, Tensor::from({1}).at(0)); });
  check_error(Kind::Runtime, "cannot setitem into a weak tensor", [&] { weak.set({0}, 1); });
  check_error(Kind::Runtime, "result would be lost", [&] { (a + 1).at(0) += 1; });
  check_error(Kind::Runtime, "elements share memory", [&] { a.expand({3, 2}).assign(Tensor::ones({3, 2})); });
  check_error(Kind::Value, "replace shape mismatch (2,) != (3,)", [&] { a.replace(Tensor::ones({3})); });
}

TEST_CASE("movement") {
  const Tensor a = two();
  check_error(Kind::Value, "size mismatch, can't reshape ((2,)) -> ((3,))", [&] { a.reshape({3}); });
  check_error(Kind::Runtime, "only one dimension can be inferred using -1, getting (-1, -1)",
              [&] { a.reshape({-1, -1}); });
  check_error(Kind::Value, "shape (-2,) has a negative size", [&] { a.reshape({-2}); });
  check_error(Kind::Value, "size mismatch", [] { Tensor::ones({3}).reshape({2, -1}); });
  check_error(Kind::Value, "cannot broadcast (2,) to new_shape=(3,)", [&] { a.expand({3}); });
  check_error(Kind::Value, "cannot broadcast (2,) to new_shape=()", [&] { a.expand({}); });
  check_error(Kind::Runtime, "order is not a valid permutation, getting (0, 0)",
              [] { Tensor::ones({2, 2}).permute({0, 0}); });
  check_error(Kind::Index, "dim=3 out of range [-1, 0]", [&] { a.squeeze(3); });
  check_error(Kind::Runtime, "dim can appear at most once", [] { Tensor::ones({2, 2}).flip({0, 0}); });
  check_error(Kind::Value, "shrink needs bounds for every axis", [&] { a.shrink({{0, 1}, {0, 1}}); });
  const std::string of_a = " of axis 0 of a dtypes.float tensor of shape (2,), allowed 0..2";
  check_error(Kind::Value, "invalid shrink [0, 3)" + of_a, [&] { a.shrink({{0, 3}}); });
  check_error(Kind::Value, "invalid shrink [-1, 1)" + of_a, [&] { a.shrink({{-1, 1}}); });
  check_error(Kind::Value, "invalid shrink [2, 1)" + of_a, [&] { a.shrink({{2, 1}}); });
  check_error(Kind::Value, "invalid shrink [v, (v+1))" + of_a, [&] {
    const SInt v(variable("v", 2, 5));
    a.shrink({{v, v + 1}});
  });
  check_error(Kind::Value, "invalid shrink [0, 3)" + of_a, [&] { a.shrink_to({3}); });
  check_error(Kind::Value, "invalid shrink [3, 2)" + of_a, [&] { a.pad({-3, 0}); });
  check_error(Kind::Value, "invalid shrink [0, -1)" + of_a, [&] { a.split({-1, 3}); });
  check_error(Kind::Value, "padding of 2 axes for a tensor of rank 1", [&] { a.pad({1, 1, 1, 1}); });
  check_error(Kind::Value, "padding length is improper, 2 pairs for a tensor of rank 1",
              [&] { a.pad(AxisPairs{{0, 1}, {0, 1}}); });
  check_error(Kind::Value, "pad_to needs a size for every axis: (3, 3) for shape (2,)",
              [&] { a.pad_to({3, 3}); });
  check_error(Kind::Runtime, "is only possible with a constant",
              [&] { a.shrink({{0, SInt(variable("v", 1, 2))}}).pad({1, 0}, PadMode::Reflect); });
  check_error(Kind::Runtime, "Negative pads with circular pads is not supported",
              [&] { a.pad({-1, 0}, PadMode::Circular); });
  check_error(Kind::Value, "Flat padding must have even number of pads", [&] { a.pad({1}); });
  check_error(Kind::Value, "Padding value causes wrapping around more than once.",
              [&] { a.pad({3, 0}, PadMode::Circular); });
  check_error(Kind::Value, "should be less than the input size=2", [&] { a.pad({2, 0}, PadMode::Reflect); });
  check_error(Kind::Value, "all shapes must match for stack, got [(2,), (3,)]",
              [&] { Tensor::stack({a, Tensor::ones({3})}); });
  check_error(Kind::Value, "all shapes must match off dim=0 for cat",
              [&] { Tensor::cat({a, Tensor::ones({2, 2})}); });
  check_error(Kind::Value, "expect sizes to sum exactly to 2, but got 3", [&] { a.split({1, 2}); });
  check_error(Kind::Value, "expect chunks to be greater than 0", [&] { a.chunk(0); });
  check_error(Kind::Value, "expect input to be 1-D", [] { Tensor::ones({2, 2}).diag(); });
  check_error(Kind::Runtime, "diagonal dimensions cannot be identical",
              [] { Tensor::ones({2, 2}).diagonal(0, 1, -1); });
  check_error(Kind::Runtime, "shifts and dims must have the same length", [&] { a.roll({1, 2}, Ints(0)); });
  check_error(Kind::Runtime, "step must be > 0", [&] { a.unfold(0, 1, 0); });
  check_error(Kind::Runtime, "maximum size for tensor at dimension 0 is 2 but size is 3",
              [&] { a.unfold(0, 3, 1); });
  check_error(Kind::Runtime, "meshgrid takes 0-D or 1-D tensors, got shape (2, 2)",
              [] { Tensor::meshgrid({Tensor::ones({2, 2})}); });
  check_error(Kind::Value, "repeat needs a number for each of 2 axes, got (2,)",
              [] { Tensor::ones({2, 2}).repeat(2); });
  check_error(Kind::Value, "cannot repeat -1 times", [&] { a.repeat(-1); });
  check_error(Kind::Value, "kernel (1, 1) has more axes than shape (2,)", [&] { a.pool({1, 1}); });
  check_error(Kind::Value, "must be positive, got 1, 0 and 1", [&] { a.pool(1, 0); });
  check_error(Kind::Value, "kernel size cannot be greater than actual input size", [&] { a.pool(3); });
}

TEST_CASE("elementwise") {
  const Tensor i8 = bytes2(), f = two();
  check_error(Kind::Runtime, "subtraction of bool tensors is not supported", [&] { f.gt(0).sub(f.gt(1)); });
  check_error(Kind::Runtime, "base needs to be float", [&] { i8.pow(-1); });
  CHECK_NOTHROW(i8.pow(0.5));
  check_error(Kind::Runtime, "where cond must be bool, got dtypes.char", [&] { i8.where(1, 0); });
  check_error(Kind::Runtime, "shift operands must be int, got [dtypes.char, dtypes.float]", [&] { i8 << f; });
  check_error(Kind::Index, "cannot be broadcast to a single shape", [&] { f + Tensor::ones({3}); });
  check_error(Kind::Runtime, "threefry operands must be uint64, got [dtypes.char, dtypes.char]",
              [&] { i8.threefry(i8); });
  check_error(Kind::Value, "usum needs at least one tensor", [] { Tensor::usum({}); });
  check_error(Kind::Runtime, "at least one of 'min_' or 'max_'", [&] { f.clamp({}, {}); });
  check_error(Kind::Runtime, "approximate must be either", [&] { f.gelu("exact"); });
  check_error(Kind::Runtime, "unsupported size in bitcast",
              [] { Tensor::from({1, 2, 3}, {DType::Int8}).bitcast(DType::Int32); });
  check_error(Kind::Runtime, "bitcast requires concrete dtypes, got dtypes.weakint -> dtypes.int",
              [] { Tensor(1).bitcast(DType::Int32); });
  check_error(Kind::Runtime, "element_size requires a concrete dtype, got dtypes.weakfloat",
              [] { Tensor(1.5).element_size(); });
}

TEST_CASE("creation") {
  check_error(Kind::Value, "inhomogeneous shape from [[1, 2], [3]]", [] { Tensor::from({{1, 2}, {3}}); });
  check_error(Kind::Value, "inhomogeneous shape from [1, [2]]", [] { Tensor::from({1, {2}}); });
  check_error(Kind::Runtime, "cannot create storage for weak dtype dtypes.weakint",
              [] { Tensor::from({1}, {DType::WeakInt}); });
  check_error(Kind::Runtime, "cannot create storage for weak dtype dtypes.weakfloat",
              [] { Tensor::empty({1}, {DType::WeakFloat}); });
  check_error(Kind::Value, "needs 12 bytes, got 8", [] { Tensor::from(std::vector<float>{1, 2}, {3}); });
  check_error(Kind::Overflow, "arange [0, 300) is not representable in dtype dtypes.uchar",
              [] { Tensor::arange(0, 300, 1, {DType::UInt8}); });
  check_error(Kind::Value, "arange [nan, 1) by 1 has no length", [] { Tensor::arange(NAN, 1); });
  check_error(Kind::Overflow, "is too long", [] { Tensor::arange(0, 1e30); });
  check_error(Kind::Overflow, "is too long", [] { Tensor::arange(INT64_MIN, INT64_MAX); });
  check_error(Kind::Value, "step must not be zero", [] { Tensor::arange(0, 3, 0); });
  check_error(Kind::Value, "number of steps must be non-negative", [] { Tensor::linspace(0, 1, -1); });
  check_error(Kind::Value, "linspace with bool dtype", [] { Tensor::linspace(0, 1, 3, {DType::Bool}); });
  check_error(Kind::Value, "cannot have negative", [] { Tensor::eye(-1); });
  check_error(Kind::Value, "rand only supports concrete float dtypes, got dtypes.int",
              [] { Tensor::rand({2}, {DType::Int32}); });
  check_error(Kind::Value, "rand only supports concrete float dtypes, got dtypes.weakfloat",
              [] { Tensor::rand({2}, {DType::WeakFloat}); });
  check_error(Kind::Value, "weak dtype", [] { Tensor(1.5).expand({2}).rand_like(); });
  check_error(Kind::Value, "invalid shape", [] { Tensor::rand({2, -1}); });
  check_error(Kind::Type, "randint dtype must be int", [] { Tensor::randint({2}, 0, 3, {DType::Float32}); });
  check_error(Kind::Value, "randint requires low < high", [] { Tensor::randint({2}, 3, 3); });
  check_error(Kind::Value, "uniform requires low < high", [] { Tensor::uniform({2}, 1, 1); });
  check_error(Kind::Value, "randperm needs n >= 0, got -1", [] { Tensor::randperm(-1); });
  check_error(Kind::Value, "cannot draw 3 samples from 2 without replacement", [] { two().multinomial(3); });
  check_error(Kind::Value, "at least one sample, got 0", [] { two().multinomial(0); });
  check_error(Kind::Value, "vector or matrix of weights", [] { Tensor(1.).multinomial(); });
  check_error(Kind::Runtime, "cannot create storage for weak dtype",
              [] { Tensor::from_blob(nullptr, {1}, DType::WeakInt); });
  check_error(Kind::Value, "needs an address", [] { Tensor::from_blob(nullptr, {1}, DType::Int8); });
  check_error(Kind::Value, "normal requires std >= 0", [] { Tensor::normal({2}, 0, -1); });
}

TEST_CASE("reductions, products and neural functions") {
  const Tensor a = two(), x = Tensor::ones({1, 2, 4, 4});
  check_error(Kind::Index, "dim=1 out of range [-1, 0]", [&] { a.sum(1); });
  check_error(Kind::Runtime, "axis 0 is named twice", [&] { a.sum({0, 0}); });
  check_error(Kind::Runtime, "both tensors need to be at least 1D, got 0D and 1D",
              [&] { Tensor(1.0).dot(a); });
  check_error(Kind::Runtime, "cannot dot (2,) and (3,)", [&] { a.dot(Tensor::ones({3})); });
  check_error(
      Kind::Value,
      "Input Tensor shape (1, 2, 4, 4) does not match the shape of the weights (1, 3, 2, 2). (3 vs. 2)",
      [&] { x.conv2d(Tensor::ones({1, 3, 2, 2})); });
  check_error(Kind::Value, "Padding must be an int or a sequence of length 2 or 4",
              [&] { x.conv2d(Tensor::ones({1, 2, 2, 2}), {}, {.padding = {1, 1, 1}}); });
  check_error(Kind::Value, "indices of shape (2,) for values of shape (1, 2, 4, 4)",
              [&] { x.max_unpool2d(a); });
  check_error(Kind::Value, "output_size must have length 2, got (9,)",
              [&] { x.max_unpool2d(x, {2, 2}, {}, Ints(9)); });
  check_error(Kind::Value, "Padding must be an int or a sequence of length 1 or 2",
              [&] { x.max_pool2d_with_indices(2, {.padding = {1, 1, 1}}); });
  check_error(Kind::Value, "3 output channels do not split into 2 groups",
              [&] { x.conv2d(Tensor::ones({3, 1, 2, 2}), {}, {.groups = 2}); });
  check_error(Kind::Value, "has more letters than a tensor of rank 1",
              [&] { Tensor::einsum("ij...->i", {a}); });
  check_error(Kind::Value, "einsum term ij does not fit shape (2,)", [&] { Tensor::einsum("ij->i", {a}); });
  check_error(Kind::Value, "einsum formula has the invalid index '1'", [&] { Tensor::einsum("1->1", {a}); });
  check_error(Kind::Value, "einsum output index 'i' must appear once", [&] { Tensor::einsum("i->ii", {a}); });
  check_error(Kind::Value, "number of inputs doesn't match number of operands",
              [&] { Tensor::einsum("i,i", {a}); });
  check_error(Kind::Runtime, "cannot set attn_mask when is_causal=True", [] {
    const Tensor q = Tensor::ones({2, 2});
    q.scaled_dot_product_attention(q, q, q, {.is_causal = true});
  });
  check_error(Kind::Value, "p=1.5 is out of range [0, 1]", [&] { a.dropout(1.5); });
  check_error(Kind::Value, "label_smoothing must be in [0.0, 1.0]", [] {
    Tensor::ones({1, 2}).sparse_categorical_crossentropy(Tensor::from({1}), {.label_smoothing = 2});
  });
  check_error(Kind::Value, "ignore_index needs targets that are classes",
              [] { Tensor::ones({1, 2}).cross_entropy(Tensor::ones({1, 2}), {.ignore_index = 0}); });
  check_error(Kind::Value, "nll_loss has no label_smoothing",
              [] { Tensor::ones({1, 2}).nll_loss(Tensor::from({1}), {}, {.label_smoothing = .1}); });
  check_error(Kind::Runtime, "shape mismatch: self.shape=(1, 2), Y.shape=(3,)",
              [] { Tensor::ones({1, 2}).cross_entropy(Tensor::from({1, 0, 1})); });
}

TEST_CASE("gradients and reading") {
  const Tensor a = two();
  check_error(Kind::Runtime, "when no gradient is provided, backward must be called on a scalar tensor",
              [&] { a.backward(); });
  check_error(Kind::Value, "gradient shape must match tensor shape, (3,) != (2,)",
              [&] { a.backward(Tensor::ones({3})); });
  check_error(Kind::Runtime, "only float Tensors have gradient",
              [&] { a.sum().gradient({Tensor::from({1})}); });
  check_error(Kind::Runtime, "cannot take gradient wrt a weak Tensor",
              [&] { a.sum().gradient({Tensor(1.0)}); });
  check_error(Kind::Value, "must have one element for item", [&] { a.item<float>(); });
  check_error(Kind::Value, "cannot read a tensor of symbolic shape",
              [&] { a.shrink({{0, SInt(variable("v", 1, 2))}}).to_vector<float>(); });
  check_error(Kind::Type, "len() of a 0-d tensor", [] { Tensor(1).len(); });
}
