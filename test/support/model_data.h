#pragma once

// A language model as plain values: metadata and weights under the names that GGUF files give them.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace lathe::test {

using MetadataValue = std::variant<bool, int64_t, double, std::string, std::vector<bool>,
                                   std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;

struct Weight {
  std::vector<int64_t> shape;  // row-major
  std::vector<double> values;
};

struct ModelData {
  std::map<std::string, MetadataValue> metadata;
  std::map<std::string, Weight> weights;
};

}  // namespace lathe::test
