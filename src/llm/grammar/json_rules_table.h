// Rules of GBNF that schemas refer to by name.
#pragma once

#include <string_view>

namespace lathe {

// Rules that schemas use; `char` is one character of a string. No lone surrogates, which are no text.
inline constexpr std::string_view kJsonRules = R"GBNF(
ws ::= (" " | "\n" [ \t]{0,20})?
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" unit)
hex ::= [0-9a-fA-F]
unit ::= [0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
fraction ::= "." [0-9]{1,16}
number ::= integer fraction? ([eE] [+-]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
value ::= object | array | string | number | boolean | null
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)* ws)? "}"
array ::= "[" ws (value ("," ws value)* ws)? "]"
date ::= [0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])
time ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ("Z" | [+\-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])
uuid ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
)GBNF";

// Keywords that would rule values out.
inline constexpr const char* kUnsupportedKeywords[] = {"not",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "dependentSchemas",
                                                       "dependentRequired",
                                                       "dependencies",
                                                       "patternProperties",
                                                       "propertyNames",
                                                       "minProperties",
                                                       "maxProperties",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "uniqueItems",
                                                       "unevaluatedProperties",
                                                       "unevaluatedItems",
                                                       "multipleOf",
                                                       "additionalItems",
                                                       "$dynamicRef",
                                                       "$recursiveRef"};

}  // namespace lathe
