// The npy format of NumPy: a header that is a dictionary in Python's notation, then raw data.
#pragma once
#include "archive/zip.h"
#include "base/result.h"
#include "formats/file_data.h"

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
  bool is_big_endian = false;
  size_t data_at = 0;  // bytes from the start of the file to the data
};

// Reads the header (versions 1 to 3) of a file's bytes and checks that the data is as long as it says. Types
// that no DType stands for, structures among them, are errors. `where` names the file.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file, std::string_view where);

// UserErrors name the file; `name` is that of the tensor in them.
Tensor load_npy(const std::string& path, const std::string& device = "");
Tensor load_npy(const FileData& file, const std::string& name, const std::string& device);

// What comes before the data of this tensor in a file. ValueError as for save_npy.
std::string npy_header(const Tensor& t);

// Realises the tensor; the file appears whole or not at all. ValueError for a dtype that NumPy lacks
// (bfloat16, the 8-bit floats) and for a symbolic shape; weak values are written at their default dtype.
void save_npy(const Tensor& t, const std::string& path);

// ---- npz, a zip archive of npy files

// The arrays of an archive by name, without ".npy"; entries of another kind are left out. The content of all
// is checked against its CRC. UserErrors name the file and the entry.
NamedTensors load_npz(const std::string& path, const std::string& device = "");
NamedTensors load_npz(const FileData& file, const std::vector<ZipEntry>& entries, const std::string& device);

struct NpzOptions {
  bool compressed = false;
};
// As np.savez and np.savez_compressed do. Realises the tensors; the file appears whole or not at all.
// ValueError for a name that occurs twice and as for save_npy.
void save_npz(const NamedTensors& tensors, const std::string& path, const NpzOptions& options = {});

}  // namespace lathe
