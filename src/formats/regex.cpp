#include "formats/regex.h"

#include "base/error.h"
#include "formats/utf8.h"

#include <algorithm>
#include <cstdint>
#include <optional>

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

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// Matches of one pattern, one at a time.
class Matcher {
 public:
  Matcher(const void* code, const std::string& pattern)
      : code_(static_cast<const pcre2_code*>(code)),
        match_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        pattern_(pattern) {
    if (!match_ || !context_) throw std::bad_alloc();
  }

  // The first match at or behind `from`.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from, uint32_t options) {
    // Steps back through a run of blanks are as many as it has bytes, for each of the alternatives.
    constexpr size_t kSteps = 10'000'000, kStepsEach = 64;
    pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(std::min<size_t>(
                                              kSteps + kStepsEach * text.size(), UINT32_MAX)));
    const auto match = [&](uint32_t more) {
      return pcre2_match(code_, units(text), text.size(), from, options | more, match_.get(), context_.get());
    };
    int outcome = match(0);
    if (outcome == PCRE2_ERROR_JIT_STACKLIMIT) outcome = match(PCRE2_NO_JIT);
    if (outcome == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (outcome < 0) user_runtime_error("matching `{}`: {}", pattern_, message_of(outcome));
    const size_t* ends = pcre2_get_ovector_pointer(match_.get());
    return std::pair(ends[0], ends[1]);
  }

 private:
  const pcre2_code* code_;
  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  std::unique_ptr<pcre2_match_context, FreeMatch> context_;
  const std::string& pattern_;
};

// Bytes from `from` on that are UTF-8, or, where there are none, those that are not.
size_t uniform_run(std::string_view text, size_t from, bool& valid) {
  size_t at = from;
  valid = decode_utf8(text, at).state == Utf8Step::State::Complete;
  while (at < text.size()) {
    if (static_cast<signed char>(text[at]) >= 0) {  // ASCII, most of most texts
      if (!valid) break;
      at++;
      continue;
    }
    const Utf8Step step = decode_utf8(text, at);
    if ((step.state == Utf8Step::State::Complete) != valid) break;
    at += step.length;
  }
  return at - from;
}

}  // namespace

Regex::Regex(const std::string& pattern, Anchor anchor) : pattern_(pattern) {
  int problem = 0;
  size_t at = 0;
  const uint32_t options = anchor == Anchor::Whole
                               ? PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED
                               : PCRE2_UTF;
  pcre2_code* code = pcre2_compile(units(pattern_), pattern_.size(), options, &problem, &at, nullptr);
  if (!code) value_error("`{}` is no regular expression: {} at {}", pattern_, message_of(problem), at);
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot be, it is interpreted
}

bool Regex::matches_all(std::string_view text) const {
  return Matcher(code_.get(), pattern_).find(text, 0, 0).has_value();
}

void Regex::split(std::string_view text, std::vector<std::string_view>& out) const {
  Matcher matcher(code_.get(), pattern_);
  for (size_t begin = 0; begin < text.size();) {
    bool valid = false;
    const std::string_view run = text.substr(begin, uniform_run(text, begin, valid));
    begin += run.size();
    size_t done = 0;  // of the run
    // PCRE2 would look at the whole rest again before each match; it has been looked at here.
    for (size_t from = 0; valid && from < run.size();) {
      const auto found = matcher.find(run, from, PCRE2_NO_UTF_CHECK);
      if (!found) break;
      const auto [first, last] = *found;
      if (last <= first) {  // an empty match: on to the next character
        from = first + decode_utf8(run, first).length;
        if (first >= run.size()) break;
        continue;
      }
      if (first > done) out.push_back(run.substr(done, first - done));
      out.push_back(run.substr(first, last - first));
      done = from = last;
    }
    if (done < run.size()) out.push_back(run.substr(done));
  }
}

}  // namespace lathe
