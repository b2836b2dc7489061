// Whatever the template: an error that lies inside it, or a rendering that ends within its limits, in text or
// a UserError.
#include "llm/jinja/template.h"

#include <cstdlib>

using namespace lathe::jinja;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = Template::parse(source, "fuzz");
  if (!parsed.ok()) {
    if (parsed.error().offset > size || parsed.error().text.empty()) std::abort();
    return 0;
  }
  Dict message, variables;
  message.set(Text("role"), "user");
  message.set(Text("content"), Text("  Hé <b> {{ x }}\n", true));
  variables.set(Text("messages"), List{message, message, Value(int64_t{3}), None{}});
  variables.set(Text("add_generation_prompt"), true);
  variables.set(Text("bos_token"), "<s>");
  constexpr Limits kLimits = {.steps = 20'000, .output_bytes = 1 << 16};
  try {
    const Text text = parsed.value().render(variables, std::tm{}, kLimits);
    if (text.size() > static_cast<size_t>(kLimits.output_bytes)) std::abort();
  } catch (const lathe::UserError& error) {
    if (error.what()[0] == 0) std::abort();
  }
  return 0;
}
