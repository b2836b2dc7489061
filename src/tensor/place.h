// Where values live.
#pragma once
#include "uop/uop.h"

#include <string>

namespace lathe {

// The canonical name of a device; the default device for "".
std::string place(const std::string& device);
// `value` written to new memory on `device` (a canonical name), lazily.
UOp stored(const UOp& value, const std::string& device);
// New memory without contents; symbolic sizes get their maximum.
UOp uninitialized(const Shape& shape, DType dtype, const std::string& device);

}  // namespace lathe
