// Where values live.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <string>

namespace lathe {

// The canonical name of a device, or of several with commas between; the default device for "".
std::string place(const std::string& device);
// Where new memory goes beside what is on `device`: a file has room for one value only.
std::string memory_beside(const std::string& device);
// `value` written to new memory on `device` (a canonical name), lazily. What is in pieces there stays so.
UOp stored(const UOp& value, const std::string& device);
// New memory without contents; symbolic sizes get their maximum. On several devices it is equal pieces along
// `axis`, or all of it on each; on "DISK:PATH" it is the file's first bytes, as they are.
UOp uninitialized(const Shape& shape, DType dtype, const std::string& device,
                  std::optional<int> axis = std::nullopt);

}  // namespace lathe
