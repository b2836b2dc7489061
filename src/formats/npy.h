// The npy format of NumPy: a header that is a dictionary in Python's notation, then raw data.
#pragma once
#include "base/result.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct NpyHeader {
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  bool fortran_order = false;  // the first axis runs fastest
  size_t data_at = 0;          // bytes from the start of the file to the data
};

// Reads the header (versions 1 to 3) of a file's bytes and checks that the data is as long as it says. Types
// with another byte order than this machine's, and those that no DType stands for, are errors. `where` names
// the file.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view where);

// UserErrors name the file.
Tensor load_npy(const std::string& path, const std::string& device = "");

// Realises the tensor; the file appears whole or not at all. ValueError for a dtype that NumPy lacks
// (bfloat16, the 8-bit floats) and for a symbolic shape; weak values are written at their default dtype.
void save_npy(const Tensor& t, const std::string& path);

}  // namespace lathe
