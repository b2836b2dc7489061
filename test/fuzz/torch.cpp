// Whatever the bytes: an error that lies inside them, or tensors whose elements lie in their storages.
#include "formats/torch.h"

#include <algorithm>
#include <cstdlib>

namespace {

void check(const lathe::TorchTensor& t) {
  if (t.shape.size() != t.strides.size()) std::abort();
  if (std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end()) return;
  int64_t last = t.offset;
  for (size_t i = 0; i < t.shape.size(); i++) last += (t.shape[i] - 1) * t.strides[i];
  if (t.offset < 0 || last < t.offset ||
      last >= static_cast<int64_t>(t.storage.size()) / lathe::item_size(t.dtype))
    std::abort();
  volatile unsigned sum = 0;  // so that the whole storage is read
  for (std::byte b : t.storage) sum = sum + std::to_integer<unsigned>(b);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto checkpoint = lathe::parse_torch(std::as_bytes(std::span(data, size)), "fuzz");
  if (!checkpoint.ok()) {
    if (checkpoint.error().offset > size || checkpoint.error().text.empty()) std::abort();
    return 0;
  }
  for (const lathe::TorchTensor& t : checkpoint.value().tensors) check(t);
  return 0;
}
