#include "llm/jinja/template.h"

#include "llm/jinja/evaluate.h"
#include "llm/jinja/lexer.h"
#include "llm/jinja/node.h"

#include <fmt/format.h>

namespace lathe::jinja {

Result<Template> Template::parse(std::string_view source, std::string name) {
  // Line ends become \n, and the last one is dropped.
  std::string text;
  for (size_t i = 0; i < source.size(); i++) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  Template out;
  out.name_ = std::move(name);
  try {
    out.root_ = parse_template(text);
  } catch (const SyntaxError& error) {
    return ParseError{fmt::format("line {}: {}", error.line, error.text), error.offset, out.name_};
  }
  return out;
}

Text Template::render(const Dict& variables, const std::optional<std::tm>& now, const Limits& limits) const {
  return lathe::jinja::render(*root_, variables, name_, now, limits);
}

}  // namespace lathe::jinja
