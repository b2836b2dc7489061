// Types and small functions that a C kernel turned out to need, defined in front of it.
#pragma once
#include "renderer/c_dialect.h"

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace lathe {

int64_t padded_lanes(int64_t lanes);  // next power of two

// How lanes are found in memory.
struct CAccess {
  AddrSpace space;
  std::optional<CElement> index;  // one index a lane; else they follow each other
  bool is_gated;                  // a gate a lane
};

class CHelpers {
 public:
  explicit CHelpers(const CDialect& dialect) : dialect_(dialect) {}
  std::string text() const { return types_ + functions_; }
  std::string lane(const std::string& vector, int64_t number) const;
  std::string literal(const std::string& type, const std::string& items) const;  // items: "a, b"

  // Each defines what it names on first use and returns the name.
  std::string vector_type(CElement e, int64_t lanes);
  std::string type(CElement e, int64_t lanes) {
    return lanes ? vector_type(e, lanes) : dialect_.scalar_name(e);
  }
  std::string splat(CElement e, int64_t lanes);
  // (p[, indices][, mask, otherwise]): contiguous lanes, or one at each of the indices.
  std::string load(DType d, int64_t lanes, const CAccess& a);
  // (p[, indices], v[, mask])
  std::string store(DType d, int64_t lanes, const CAccess& a);
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
  std::string access_name(const char* verb, DType d, int64_t lanes, const CAccess& a) const;
  std::string each_lane(int64_t lanes, std::string_view statement) const;
  std::string negative_byte() const { return fmt::format("-({})", dialect_.scalar_name({'i', 8})); }

  const CDialect& dialect_;
  std::unordered_set<std::string> defined_;
  std::string types_;
  std::string functions_;
  std::vector<std::string> shuffles_;
};

}  // namespace lathe
