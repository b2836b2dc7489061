#include "formats/regex.h"

#include "base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace lathe {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR text[128];
  const int length = pcre2_get_error_message(code, text, sizeof text);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(length > 0 ? length : 0)};
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  int problem = 0;
  size_t at = 0;
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  pcre2_code* code = pcre2_compile(units(pattern_), pattern_.size(), kOptions, &problem, &at, nullptr);
  if (!code) value_error("`{}` is no regular expression: {} at {}", pattern_, message_of(problem), at);
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot be, it is interpreted
}

bool Regex::matches_all(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  pcre2_match_data* match = pcre2_match_data_create_from_pattern(code, nullptr);
  const int outcome = pcre2_match(code, units(text), text.size(), 0, 0, match, nullptr);
  pcre2_match_data_free(match);
  if (outcome < 0 && outcome != PCRE2_ERROR_NOMATCH)
    user_runtime_error("matching `{}`: {}", pattern_, message_of(outcome));
  return outcome >= 0;
}

}  // namespace lathe
