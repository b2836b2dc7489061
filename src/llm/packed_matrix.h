// Matrices of weights as they lie in memory, packed, and products with them.
#pragma once
#include "formats/gguf/gguf.h"
#include "tensor/tensor.h"

#include <vector>

namespace lathe {

// A matrix (rows, columns), or several of one shape, (experts, rows, columns). Of some types codes and scales
// lie apart, so that the sums of a block are dot products of integers over contiguous codes; other types lie
// as in the file.
struct PackedMatrix {
  GgmlType type{};
  int64_t rows = 0, columns = 0;
  std::vector<Tensor> parts;  // each (…, rows, …)
};

// `tensor` of shape (rows, columns) or (experts, rows, columns).
PackedMatrix pack(const GgufFile& file, const GgufTensor& tensor, const std::string& device);
// What `index` picks along the first axis: rows [begin, end), rows or experts by number.
PackedMatrix select(const PackedMatrix& w, const TensorIndex& index);
// The values, float32 (…, rows, columns); an expression that fuses into what reads it.
Tensor unpack(const PackedMatrix& w);
// x Wᵀ: (…, m, columns) float32 and (…, rows, columns) give float32 (…, m, rows); axes in front broadcast.
// Where codes are integers, x is rounded to 8 bits in blocks of 32 as it goes in, unless INT8_ACTIVATIONS is
// 0.
Tensor multiply(const Tensor& x, const PackedMatrix& w);

}  // namespace lathe
