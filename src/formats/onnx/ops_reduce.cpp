// Reductions and running sums.
#include "formats/onnx/call.h"

namespace lathe::onnx {
namespace {

// The axes: an input from opset 13 (sums) or 18 (the others) on, an attribute before; none means all, or
// nothing where the node says so.
template <class F>
Tensor reduced(const Call& c, F f) {
  const std::vector<int64_t> axes = c.ints_or_attr(1, "axes");
  if (axes.empty() && c.attr_flag("noop_with_empty_axes")) return f(c[0], Axes(Ints()), true);
  return f(c[0], axes.empty() ? Axes() : Axes(Ints(axes)), c.attr_flag("keepdims", true));
}

// The sum in the type of what is summed.
Tensor sum_of(const Tensor& x, const Axes& axes, bool keep) { return x.sum(axes, keep).cast(x.dtype()); }

template <class F>
constexpr auto reduction(F) {
  return [](const Call& c) { return reduced(c, F{}); };
}

template <auto Method>
Tensor arg_extreme(const Call& c) {
  const int64_t axis = c.attr_int("axis", 0);
  const bool keep = c.attr_flag("keepdims", true);
  if (!c.attr_flag("select_last_index")) return (c[0].*Method)(axis, keep).cast(DType::Int64);
  const Tensor from_end = (c[0].flip(Call::axis(axis, c[0].ndim())).*Method)(axis, keep);
  return Tensor(c[0].size(axis).value() - 1).sub(from_end).cast(DType::Int64);
}

// Sums or products up to each element, from either end, with or without the element itself.
template <auto Method>
Tensor running(const Call& c, const Scalar& identity) {
  const Tensor& x = c[0];
  const int64_t axis = Call::axis(c.integer(1), x.ndim());
  Tensor out = c.attr_flag("reverse") ? x.flip(axis) : x;
  if (c.attr_flag("exclusive")) {
    AxisPairs shifted(x.shape().size(), AxisPair(0, 0));
    shifted[static_cast<size_t>(axis)] = {SInt(1), SInt(-1)};
    out = out.pad(shifted, PadMode::Constant, cast_scalar(identity, x.dtype()));
  }
  out = (out.*Method)(axis).cast(x.dtype());
  return c.attr_flag("reverse") ? out.flip(axis) : out;
}

constexpr OpRow kRows[] = {
    {"ArgMax", of<arg_extreme<&Tensor::argmax>>},
    {"ArgMin", of<arg_extreme<&Tensor::argmin>>},
    {"CumProd", [](const Call& c) { return running<&Tensor::cumprod>(c, 1); }},
    {"CumSum", [](const Call& c) { return running<&Tensor::cumsum>(c, 0); }},
    {"ReduceL1", reduction([](const Tensor& x, const Axes& a, bool k) { return sum_of(x.abs(), a, k); })},
    {"ReduceL2", reduction([](const Tensor& x, const Axes& a, bool k) {
       return sum_of(x.square(), a, k).sqrt().cast(x.dtype());
     })},
    {"ReduceLogSum",
     reduction([](const Tensor& x, const Axes& a, bool k) { return sum_of(x, a, k).log().cast(x.dtype()); })},
    {"ReduceLogSumExp", reduction([](const Tensor& x, const Axes& a, bool k) { return x.logsumexp(a, k); })},
    {"ReduceMax", reduction([](const Tensor& x, const Axes& a, bool k) { return x.max(a, k); })},
    {"ReduceMean",
     reduction([](const Tensor& x, const Axes& a, bool k) { return x.mean(a, k).cast(x.dtype()); })},
    {"ReduceMin", reduction([](const Tensor& x, const Axes& a, bool k) { return x.min(a, k); })},
    {"ReduceProd", reduction([](const Tensor& x, const Axes& a, bool k) { return x.prod(a, k); })},
    {"ReduceSum", reduction([](const Tensor& x, const Axes& a, bool k) { return sum_of(x, a, k); })},
    {"ReduceSumSquare",
     reduction([](const Tensor& x, const Axes& a, bool k) { return sum_of(x.square(), a, k); })},
};

}  // namespace

std::span<const OpRow> reduce_ops() { return kRows; }

}  // namespace lathe::onnx
