// NumPy's npz: a zip archive of npy files.
#pragma once
#include "archive/zip.h"
#include "formats/file_data.h"

#include <string>
#include <vector>

namespace lathe {

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
