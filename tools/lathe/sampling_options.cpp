#include "lathe/sampling_options.h"

#include "base/error.h"
#include "base/mmap.h"
#include "llm/tokenizer/tokenizer.h"

#include <charconv>

namespace lathe::command {
namespace {

// "ID=BIAS"; -inf forbids a token.
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t at = text.find('=');
  std::pair<int32_t, float> out{-1, 0.f};
  const char* const end = text.data() + text.size();
  const char* const middle = text.data() + std::min(at, text.size());
  const bool has_id = std::from_chars(text.data(), middle, out.first).ptr == middle && middle != text.data();
  if (at == text.npos || !has_id || std::from_chars(middle + 1, end, out.second).ptr != end ||
      middle + 1 == end)
    value_error("--logit-bias {}: expected TOKEN=BIAS, as in 13=-inf", text);
  return out;
}

}  // namespace

void SamplingArguments::add_to(CLI::App& command) {
  SamplingOptions& s = options;
  const auto add = [&](const char* name, auto& value, const char* text) {
    command.add_option(name, value, text)->capture_default_str()->group("Sampling");
  };
  add("--temp", s.temperature, "Temperature; 0 takes the likeliest token");
  add("--top-k", s.top_k, "Draw from so many of the likeliest; 0 is all");
  add("--top-p", s.top_p, "Draw from the fewest of this mass");
  add("--min-p", s.min_p, "Draw from those of this part of the likeliest");
  add("--typical", s.typical_p, "Draw from those whose surprise is usual, of this mass");
  add("--repeat-penalty", s.repeat_penalty, "Makes what was said less likely");
  add("--repeat-last-n", s.penalty_last, "Tokens that penalties look at; -1 is all");
  add("--presence-penalty", s.presence_penalty, "Taken off logits of what was said");
  add("--frequency-penalty", s.frequency_penalty, "The same, for each time");
  add("--dry-multiplier", s.dry_multiplier, "Strength of DRY, which ends repetitions; 0 is off");
  add("--dry-base", s.dry_base, "How DRY grows with the length of a repetition");
  add("--dry-allowed-length", s.dry_allowed_length, "Tokens of a repetition that DRY lets pass");
  add("--mirostat", s.mirostat, "2: Mirostat 2.0 instead of cutting the distribution");
  add("--mirostat-tau", s.mirostat_tau, "Surprise that Mirostat aims at, in bits");
  add("--mirostat-eta", s.mirostat_eta, "How fast Mirostat adapts");
  add("--seed", s.seed, "The same seed draws the same tokens");
  command.add_option("--logit-bias", logit_bias, "TOKEN=BIAS, added to a logit; -inf forbids the token")
      ->group("Sampling");
}

void SamplingArguments::add_grammars(CLI::App& command) {
  command.add_option("--grammar", grammar, "File with a grammar (GBNF) that the answer keeps to")
      ->check(CLI::ExistingFile)
      ->group("Sampling");
  command.add_option("--json-schema", json_schema, "File with a JSON schema that the answer satisfies")
      ->check(CLI::ExistingFile)
      ->excludes("--grammar")
      ->group("Sampling");
}

SamplingOptions SamplingArguments::resolved(const Tokenizer& tokenizer) const {
  SamplingOptions out = options;
  for (const std::string& text : logit_bias) out.logit_bias.push_back(parse_bias(text));
  if (out.dry_multiplier != 0)
    out.dry_breakers = tokens_with(tokenizer, std::vector<std::string>{"\n", ":", "\"", "*"});
  out.check();
  return out;
}

std::optional<Grammar> SamplingArguments::load_grammar() const {
  if (!grammar.empty()) return Grammar::from_gbnf(read_file(grammar)).or_throw();
  if (!json_schema.empty()) return Grammar::from_json_schema(read_file(json_schema)).or_throw();
  return std::nullopt;
}

}  // namespace lathe::command
