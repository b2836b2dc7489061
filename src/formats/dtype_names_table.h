#pragma once

#include "uop/dtype.h"

#include <string_view>

namespace lathe {

// What formats call element types; "" where one has no name for it.
struct DTypeNames {
  DType dtype;
  std::string_view npy;  // as in `descr`, without the byte order
  std::string_view safetensors;
  std::string_view torch_storage;  // the class is torch.<name>Storage
  std::string_view torch;          // torch.<name>
};
inline constexpr DTypeNames kDTypeNames[] = {
    {DType::Bool, "b1", "BOOL", "Bool", "bool"},
    {DType::Int8, "i1", "I8", "Char", "int8"},
    {DType::UInt8, "u1", "U8", "Byte", "uint8"},
    {DType::Int16, "i2", "I16", "Short", "int16"},
    {DType::UInt16, "u2", "U16", "", "uint16"},
    {DType::Int32, "i4", "I32", "Int", "int32"},
    {DType::UInt32, "u4", "U32", "", "uint32"},
    {DType::Int64, "i8", "I64", "Long", "int64"},
    {DType::UInt64, "u8", "U64", "", "uint64"},
    {DType::Fp8E4M3, "", "F8_E4M3", "", "float8_e4m3fn"},
    {DType::Fp8E4M3Fnuz, "", "", "", "float8_e4m3fnuz"},
    {DType::Fp8E5M2, "", "F8_E5M2", "", "float8_e5m2"},
    {DType::Fp8E5M2Fnuz, "", "", "", "float8_e5m2fnuz"},
    {DType::Float16, "f2", "F16", "Half", "float16"},
    {DType::BFloat16, "", "BF16", "BFloat16", "bfloat16"},
    {DType::Float32, "f4", "F32", "Float", "float32"},
    {DType::Float64, "f8", "F64", "Double", "float64"},
};

}  // namespace lathe
