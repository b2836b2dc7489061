// Types and small functions that a C kernel turned out to need, defined in front of it.
#pragma once
#include "renderer/cstyle.h"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace lathe {

// An element of a C vector or scalar in registers: f32, i64, u8.
struct CElement {
  char kind;  // 'f', 'i' or 'u'
  int bits;
  bool operator==(const CElement&) const = default;
};
CElement register_element(DType d);   // booleans as vector lanes: i8
std::string short_name(CElement e);   // "f32"
std::string scalar_name(CElement e);  // "float", "int64_t"
std::string memory_name(DType d);     // C type of an element in memory
std::string dtype_tag(DType d);       // part of helper names: "f16", "bool"
bool is_rounded(DType d);             // half and bfloat16: registers hold a float on the type's grid
int64_t padded_lanes(int64_t lanes);  // next power of two

class CHelpers {
 public:
  explicit CHelpers(const CDialect& dialect) : dialect_(dialect) {}
  std::string text() const;

  // Each defines what it names on first use and returns the name.
  std::string vector_type(CElement e, int64_t lanes);
  std::string type(CElement e, int64_t lanes) { return lanes ? vector_type(e, lanes) : scalar_name(e); }
  std::string splat(CElement e, int64_t lanes);
  std::string load(DType d, int64_t lanes);
  std::string store(DType d, int64_t lanes);
  std::string load_if(DType d, int64_t lanes);                     // (p, mask, otherwise)
  std::string store_if(DType d, int64_t lanes);                    // (p, v, mask)
  std::string gather(DType d, int64_t lanes, CElement index);      // (p, index)
  std::string gather_if(DType d, int64_t lanes, CElement index);   // (p, index, mask, otherwise)
  std::string scatter(DType d, int64_t lanes, CElement index);     // (p, index, v)
  std::string scatter_if(DType d, int64_t lanes, CElement index);  // (p, index, v, mask)
  std::string where(CElement e, int64_t lanes);                    // (mask, a, b)
  std::string max(CElement e, int64_t lanes);
  std::string square_root(CElement e, int64_t lanes);
  std::string truncate(CElement e, int64_t lanes);
  std::string divide(CElement e, int64_t lanes, bool remainder);  // padding lanes divide by nothing
  std::string shuffle(CElement e, int64_t lanes, std::span<const int64_t> picked);
  std::string round(DType d, int64_t lanes);  // float to the grid of half or bfloat16
  std::string bits(DType d, int64_t lanes);   // half or bfloat16 to uint16
  std::string from_bits(DType d, int64_t lanes);
  std::string float_from_double_odd(int64_t lanes);
  std::string uint64_from_double(int64_t lanes);
  std::string bitcast(CElement from, CElement to);  // scalars

 private:
  std::string define(const std::string& name, const std::string& result, const std::string& parameters,
                     const std::string& body);
  std::string memory_type(CElement e, int64_t lanes);
  std::string mask_type(DType d, int64_t lanes);
  // One statement a lane, `i` is the lane: "r[i] = …".
  std::string each_lane(int64_t lanes, const std::string& statement) const;
  std::string from_memory(DType d, const std::string& x);  // one element to its lane
  std::string to_memory(DType d, const std::string& x);
  std::string map(const std::string& name, CElement from, CElement to, int64_t lanes,
                  const std::string& function);
  std::string scalar_conversion(const std::string& name);

  const CDialect& dialect_;
  std::unordered_set<std::string> defined_;
  std::string types_;
  std::string functions_;
  std::vector<std::string> shuffles_;
};

}  // namespace lathe
