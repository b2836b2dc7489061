// A grammar for a schema, or an error; what is made is always a grammar that can be read, unless it is too
// large or a reference leads to itself.
#include "llm/grammar/json_schema.h"

#include "base/error.h"

using namespace lathe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4000) return 0;
  const auto text = json_schema_to_gbnf({reinterpret_cast<const char*>(data), size});
  if (!text.ok()) {
    CHECK(!text.error().text.empty());
    return 0;
  }
  const auto net = parse_gbnf(text.value());
  if (net.ok()) return 0;
  const std::string_view reason = net.error().text;
  CHECK(reason.find("nodes") != reason.npos || reason.find("calls itself") != reason.npos ||
            reason.find("times") != reason.npos || reason.find("deep") != reason.npos,
        "{}\n{}", net.error().message(), text.value());
  return 0;
}
