// What C with vector extensions and OpenCL C spell differently.
#pragma once
#include "uop/arg.h"
#include "uop/dtype.h"

#include <array>
#include <string>
#include <string_view>

namespace lathe {

// An element of a C vector or scalar in registers: f32, i64, u8.
struct CElement {
  char kind;  // 'f', 'i' or 'u'
  int bits;
  bool operator==(const CElement&) const = default;
};
CElement register_element(DType d);  // booleans as vector lanes: i8
std::string short_name(CElement e);  // "f32"

struct CDialect {
  std::string_view language;  // as messages name it
  // Whether kernels are device code: vectors and functions of them are part of the language, pointers have an
  // address space, work items have indices and meet at barriers.
  bool is_device;
  std::array<std::string_view, 4> signed_ints, unsigned_ints;  // of 8, 16, 32, 64 bits
  std::string_view boolean;
  std::string_view long_suffix;  // of 64-bit literals; behind a u where unsigned
  std::string_view nan, infinity;
  std::string_view function;  // in front of a helper function
  std::string_view barrier;   // a statement
  std::array<std::string_view, 3>
      space;  // in front of a pointee or an array, by AddrSpace: Global, Local, Reg
  // Formats of vectors: {0} is the type, {1} the value; of a lane {0} is the vector, {1} the number.
  std::string_view literal, convert, reinterpret, lane;

  std::string scalar_name(CElement e) const;
  std::string memory_name(DType d) const;  // type of an element in memory
  std::string_view space_name(AddrSpace s) const { return space[static_cast<size_t>(s)]; }
};

extern const CDialect kCDialect;       // gcc ≥ 10 and clang
extern const CDialect kOpenClDialect;  // OpenCL C 1.2

}  // namespace lathe
