// Types and small functions that a C kernel turned out to need, defined in front of it.
#pragma once
#include "uop/dtype.h"

#include <cstdint>
#include <optional>
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
int64_t padded_lanes(int64_t lanes);  // next power of two

class CHelpers {
 public:
  std::string text() const { return types_ + functions_; }

  // Each defines what it names on first use and returns the name.
  std::string vector_type(CElement e, int64_t lanes);
  std::string type(CElement e, int64_t lanes) { return lanes ? vector_type(e, lanes) : scalar_name(e); }
  std::string splat(CElement e, int64_t lanes);
  // (p[, indices][, mask, otherwise]): contiguous lanes, or one at each of the indices.
  std::string load(DType d, int64_t lanes, std::optional<CElement> index, bool gated);
  // (p[, indices], v[, mask])
  std::string store(DType d, int64_t lanes, std::optional<CElement> index, bool gated);
  std::string where(CElement e, int64_t lanes);  // (mask, a, b)
  std::string max(CElement e, int64_t lanes);
  std::string rounding(const std::string& name, CElement e, int64_t lanes);  // "sqrt" or "trunc"
  std::string divide(CElement e, int64_t lanes, bool remainder);  // padding lanes divide by nothing
  std::string shuffle(CElement e, int64_t lanes, std::span<const int64_t> picked);
  std::string bitcast(CElement from, CElement to);  // scalars

 private:
  std::string define(const std::string& name, const std::string& result, const std::string& parameters,
                     const std::string& body);
  std::string memory_type(CElement e, int64_t lanes);
  std::string access_name(const char* verb, DType d, int64_t lanes, std::optional<CElement> index,
                          bool gated) const;

  std::unordered_set<std::string> defined_;
  std::string types_;
  std::string functions_;
  std::vector<std::string> shuffles_;
};

}  // namespace lathe
