// From the pickle of a checkpoint to its tensors.
#pragma once
#include "formats/pickle.h"
#include "formats/torch.h"

#include <functional>

namespace lathe {

constexpr int kMaxTorchAxes = 64;  // as in the other formats

// A type of storage; PyTorch has more than there are dtypes here.
struct TorchType {
  std::string_view storage;  // the class is torch.<storage>Storage
  int bytes;                 // of an element
  std::optional<DType> dtype;
};
std::optional<TorchType> torch_storage_type(const PickleValue& global);

// What a persistent id stands for: a storage as a tensor of one axis, or a tensor.
using TorchResolver = std::function<TorchTensor(const PickleValue& persistent)>;

// Fills `out.tensors` and `out.metadata`. Throws a ParseError.
void collect_tensors(const Pickle& pickle, const TorchResolver& resolve, std::string_view where,
                     TorchCheckpoint& out);

// Throws a ParseError unless the elements lie in the storage.
void check_torch_view(const TorchTensor& t, size_t at, std::string_view where);

}  // namespace lathe
