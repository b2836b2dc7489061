#pragma once

// The whole public interface.

#include "base/clock.h"
#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "engine/profile.h"
#include "formats/npy.h"
#include "formats/npz.h"
#include "formats/onnx/session.h"
#include "formats/safetensors.h"
#include "formats/tensor_file.h"
#include "formats/tensor_index.h"
#include "formats/torch.h"
#include "nn/data_parallel.h"
#include "nn/datasets.h"
#include "nn/layers.h"
#include "nn/lr_schedule.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "nn/training.h"
#include "runtime/device.h"
#include "tensor/custom_kernel.h"
#include "tensor/function.h"
#include "tensor/jit.h"
#include "tensor/tensor.h"
#include "uop/variable.h"

// The library's own assertion. Its name is left to the program, and to the program's test framework.
#undef CHECK
