// The infix notation: the first line declares variables, the rest is an expression.
#include "uop/spec.h"

#include "support/parse_expression.h"

using namespace lathe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const auto names = parse_names(text.substr(0, end));
  if (!names.ok() || end == text.npos) return 0;
  const auto u = parse_expression(text.substr(end + 1), names.value());
  if (!u.ok()) return 0;
  const std::string printed = expression(u.value());
  // Casts of weak constants print as constants, so the printed text may stand for another node; it prints the
  // same again.
  if (printed.find("...") != printed.npos) return 0;
  const auto again = parse_expression(printed, names.value());
  if (again.ok())
    CHECK(expression(again.value()) == printed, "{} prints as {}", printed, expression(again.value()));
  for (const SpecLevel level : {SpecLevel::Tensor, SpecLevel::Kernel}) (void)find_violation(u.value(), level);
  return 0;
}
