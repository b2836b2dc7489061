// JSON of strangers.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lathe {

struct JsonLimits {
  size_t depth = 200;  // of containers in each other
  int64_t values = 4'000'000;
  // Of objects that keep the order of their keys, each key is searched for among those before it.
  int64_t keys = 1024;            // of an object
  int64_t searched = 50'000'000;  // keys looked at, in all
};

// Goes through the text without making anything of it, in linear time. False where it is nested too deep;
// ValueError naming `what` for the other limits. Text that is no JSON is left to the parser, which knows
// where.
[[nodiscard]] bool check_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// What the text says, within the limits. ValueError naming `what` for text that is no JSON.
nlohmann::ordered_json parse_json(std::string_view text, std::string_view what);

}  // namespace lathe
