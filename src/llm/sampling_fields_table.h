// Fields of requests that are sampling options.
#pragma once

#include "llm/sampling.h"

#include <cstdint>

namespace lathe {

struct FloatField {
  const char* name;
  float SamplingOptions::* member;
};
inline constexpr FloatField kFloatFields[] = {{"temperature", &SamplingOptions::temperature},
                                              {"top_p", &SamplingOptions::top_p},
                                              {"min_p", &SamplingOptions::min_p},
                                              {"typical_p", &SamplingOptions::typical_p},
                                              {"top_n_sigma", &SamplingOptions::top_n_sigma},
                                              {"repeat_penalty", &SamplingOptions::repeat_penalty},
                                              {"presence_penalty", &SamplingOptions::presence_penalty},
                                              {"frequency_penalty", &SamplingOptions::frequency_penalty},
                                              {"dry_multiplier", &SamplingOptions::dry_multiplier},
                                              {"dry_base", &SamplingOptions::dry_base},
                                              {"xtc_probability", &SamplingOptions::xtc_probability},
                                              {"xtc_threshold", &SamplingOptions::xtc_threshold},
                                              {"dynatemp_range", &SamplingOptions::temperature_range},
                                              {"dynatemp_exponent", &SamplingOptions::temperature_exponent},
                                              {"mirostat_tau", &SamplingOptions::mirostat_tau},
                                              {"mirostat_eta", &SamplingOptions::mirostat_eta}};
struct IntegerField {
  const char* name;
  int32_t SamplingOptions::* member;
  int64_t least;
};
inline constexpr IntegerField kIntegerFields[] = {
    {"top_k", &SamplingOptions::top_k, 0},
    {"repeat_last_n", &SamplingOptions::penalty_last, -1},
    {"dry_allowed_length", &SamplingOptions::dry_allowed_length, 0},
    {"dry_penalty_last_n", &SamplingOptions::dry_last, -1},
    {"mirostat", &SamplingOptions::mirostat, 0}};

}  // namespace lathe
