// Facts that follow from (op, sources, arg): computed once, when a node is made.
#pragma once
#include "uop/uop.h"

#include <span>
#include <string>

namespace lathe {

DType derive_dtype(Op op, std::span<const UOp> srcs, const Arg& arg);
// Interned, so shapes compare by address; null where the op has none. UserError when shapes do not fit.
const Shape* derive_shape(Op op, DType dtype, std::span<const UOp> srcs, const Arg& arg);
// Interned; the empty string where no source has a device.
const std::string* derive_device(Op op, std::span<const UOp> srcs, const Arg& arg);

const Shape* intern_shape(const Shape& s);
const std::string* intern_device(const std::string& name);

}  // namespace lathe
