// The windows of convolutions and pools.
#pragma once
#include "formats/onnx/call.h"

namespace lathe::onnx {

// One number for each spatial axis.
struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  Ints flat_pads() const;  // (before, after) from the last axis on
};

// From the attributes of the node; automatic padding is worked out for an input of these sizes.
Window window_of(const Call& c, const std::vector<int64_t>& spatial, std::vector<int64_t> kernel = {});

std::vector<int64_t> spatial_of(const Tensor& x);  // the sizes behind batch and channel

// Conv, AveragePool and Gemm on other tensors than the inputs.
Tensor convolve(const Call& c, const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias);
Tensor average_pool(const Call& c, const Tensor& x);
Tensor gemm(const Call& c, Tensor a, Tensor b, const std::optional<Tensor>& bias);

}  // namespace lathe::onnx
