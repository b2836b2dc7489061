// Files of tensors of whatever format.
#pragma once
#include "formats/file_data.h"

#include <string>

namespace lathe {

struct TensorFile {
  std::string format;  // "safetensors", "safetensors index", "PyTorch", "npz" or "npy"
  NamedTensors tensors;
  Metadata metadata;
};

// Reads a safetensors file, a checkpoint of PyTorch, an npz or npy file, or the index of a checkpoint in
// several files (formats/tensor_index.h): the content says which. A single tensor without a name, as in npy,
// gets that of the file without its extension. Tensors share the file's memory where they can, so what is not
// used is not read. UserErrors name the file and the tensor.
TensorFile load_tensor_file(const std::string& path, const std::string& device = "");
NamedTensors load_tensors(const std::string& path, const std::string& device = "");

// Writes the format that the name ends in: .safetensors, .safetensors.index.json, .npz or .npy (a single
// tensor). ValueError for another ending, and as for safe_save, save_sharded, save_npz and save_npy. Each
// file appears whole or not at all.
void save_tensors(const NamedTensors& tensors, const std::string& path);

}  // namespace lathe
