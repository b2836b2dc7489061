// JSON Schema as a grammar.
#pragma once
#include "base/result.h"
#include "llm/grammar/net_builder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// The grammar, in GBNF, of JSON texts that satisfy a schema; not of all of them:
// - properties come in the order of their declaration, and only declared ones unless additionalProperties
// says
//   otherwise; further keys are written without escapes;
// - white space is what `ws` allows behind brackets, colons and commas; numbers have up to 16 digits;
// - oneOf is anyOf; a schema without a type gets it from its keywords.
// Read are: type, properties, required, additionalProperties, items, prefixItems, minItems, maxItems, enum,
// const, oneOf, anyOf, allOf, local $ref, minLength, maxLength, pattern, format (date, time, date-time, uuid;
// others mean nothing), minimum, maximum, exclusiveMinimum, exclusiveMaximum (whole numbers). Other keywords
// that would rule values out, and schemas that nothing satisfies, are errors that name the place.
Result<std::string> json_schema_to_gbnf(std::string_view schema);

// Of the characters of JSON strings that a regular expression (ECMA-262, without look-around, back-references
// and word boundaries) accepts: an expression of GBNF. Without ^ and $ it may stand anywhere in the string.
// `char` is the rule of one character of a string. Throws a ParseError.
std::string pattern_to_gbnf(std::string_view pattern, std::string_view where);

// The class of the ranges as GBNF writes it, and the characters of them as JSON strings write them.
std::string gbnf_class(const std::vector<CodePointRange>& ranges);
std::string json_characters(std::vector<CodePointRange> ranges);

// Decimal digits of the whole numbers from `low` on up to `high` (nothing: up to 16 digits); 0 ≤ low ≤ high.
std::string digits_between(int64_t low, std::optional<int64_t> high);

}  // namespace lathe
