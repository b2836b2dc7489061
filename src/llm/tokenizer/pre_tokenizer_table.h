// How vocabularies split text, by the names that files have for it.
#pragma once

#include <array>
#include <string_view>

// White space in the sense of Unicode, for use in a class; PCRE2's \s has U+180E too, which is none.
#define WS R"(\t-\r\x{85}\p{Z})"
#define CONTRACTION R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define TAIL "[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"
#define SYMBOLS " ?[^" WS R"(\p{L}\p{N}]+)"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|[" WS "]+(?![^" WS "])|[" WS "]+"
#define LEAD R"([^\r\n\p{L}\p{N}]?)"
#define WORD LEAD R"(\p{L}+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
// The same two without ideographs, as the classes of all that is neither.
#define UPPER_NO_HAN R"([^\p{Han}\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}])"
#define LOWER_NO_HAN R"([^\p{Han}\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}])"

namespace lathe {

struct PreTokenizerRow {
  std::string_view names;  // separated by blanks
  std::array<const char*, 4> passes;
  bool ignore_merges = false, add_bos = false;
};

inline constexpr const char* kLlama3 = CONTRACTION "|" WORD R"(|\p{N}{1,3}|)" SYMBOLS R"([\r\n]*|)" TAIL;
inline constexpr const char* kGpt4o =
    LEAD UPPER "*" LOWER "+" CONTRACTION "?|" LEAD UPPER "+" LOWER "*" CONTRACTION R"(?|\p{N}{1,3}|)" SYMBOLS
               R"([\r\n/]*|)" TAIL;

inline constexpr PreTokenizerRow kPreTokenizers[] = {
    {"", {R"([\p{P}\$\+<=>\^~\|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"llama3 llama-v3 llama-bpe falcon3 pixtral lfm2", {kLlama3}, true, true},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {kLlama3}},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez grok-2 solar-open",
     {CONTRACTION "|" WORD R"(|\p{N}|)" SYMBOLS R"([\r\n]*|)" TAIL}},
    {"qwen35", {CONTRACTION "|" LEAD R"([\p{L}\p{M}]+|\p{N}| ?[^)" WS R"(\p{L}\p{M}\p{N}]+[\r\n]*|)" TAIL}},
    {"gpt-2 olmo phi-2 mpt jais exaone4 granite-docling", {GPT2}},
    {"starcoder refact smollm command-r codeshell exaone minerva-7b", {R"(\p{N})", GPT2}},
    {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", GPT2, "[0-9][0-9][0-9]"}},
    {"deepseek-v3 hunyuan-dense joyai-llm",
     {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
      R"( ?[\p{P}\p{S}]+[\r\n]*|)" TAIL}},
    {"tekken",
     {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER R"(*|\p{N}|)" SYMBOLS R"([\r\n/]*|)" TAIL},
     true,
     true},
    {"gpt-4o llama4 minimax-m2", {kGpt4o}},
    {"kimi-k2",
     {R"(\p{Han}+|)" LEAD UPPER_NO_HAN "*" LOWER_NO_HAN "+" CONTRACTION "?|" LEAD UPPER_NO_HAN
      "+" LOWER_NO_HAN "*" CONTRACTION R"(?|\p{N}{1,3}|)" SYMBOLS R"([\r\n]*|)" TAIL}},
    {"gemma4", {R"([^\n]+|[\n]+)"}},
};

}  // namespace lathe

#undef WS
#undef CONTRACTION
#undef TAIL
#undef SYMBOLS
#undef GPT2
#undef LEAD
#undef WORD
#undef UPPER
#undef LOWER
#undef UPPER_NO_HAN
#undef LOWER_NO_HAN
