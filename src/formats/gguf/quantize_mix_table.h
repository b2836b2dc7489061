// Mixes of types by the names of llama.cpp.
#pragma once

#include "formats/gguf/ggml_type.h"

#include <optional>
#include <string_view>

namespace lathe {

struct QuantizeMix {
  std::string_view name;
  int file_type;                    // of the key general.file_type
  std::optional<GgmlType> weights;  // none: every tensor stays
  // What gets more bits in some layers (attn_v and ffn_down), and what fused attn_qkv is; none: `weights`.
  std::optional<GgmlType> more = {}, fused = {};
};
inline constexpr QuantizeMix kMixes[] = {
    {"F32", 0, GgmlType::F32},        {"F16", 1, GgmlType::F16},
    {"BF16", 32, GgmlType::BF16},     {"Q4_0", 2, GgmlType::Q4_0},
    {"Q4_1", 3, GgmlType::Q4_1},      {"Q5_0", 8, GgmlType::Q5_0},
    {"Q5_1", 9, GgmlType::Q5_1},      {"Q8_0", 7, GgmlType::Q8_0},
    {"Q2_K", 10, GgmlType::Q2_K},     {"Q3_K", 11, GgmlType::Q3_K},
    {"Q4_K_S", 14, GgmlType::Q4_K},   {"Q4_K_M", 15, GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::Q5_K},
    {"Q5_K_S", 16, GgmlType::Q5_K},   {"Q5_K_M", 17, GgmlType::Q5_K, GgmlType::Q6_K, GgmlType::Q6_K},
    {"Q6_K", 18, GgmlType::Q6_K},     {"IQ4_NL", 25, GgmlType::IQ4_NL},
    {"IQ4_XS", 30, GgmlType::IQ4_XS}, {"TQ1_0", 36, GgmlType::TQ1_0},
    {"TQ2_0", 37, GgmlType::TQ2_0},   {"MXFP4", 38, GgmlType::MXFP4},
    {"NVFP4", 39, GgmlType::NVFP4},   {"Q1_0", 40, GgmlType::Q1_0},
    {"Q2_0", 41, GgmlType::Q2_0},     {"COPY", -1, std::nullopt},
};

// What takes the place of a type whose blocks do not fit into rows.
struct Fallback {
  GgmlType type, other;
};
inline constexpr Fallback kFallbacks[] = {
    {GgmlType::Q2_K, GgmlType::Q4_0},  {GgmlType::Q3_K, GgmlType::Q4_0},
    {GgmlType::Q2_0, GgmlType::Q4_0},  {GgmlType::Q1_0, GgmlType::Q4_0},
    {GgmlType::TQ1_0, GgmlType::Q4_0}, {GgmlType::TQ2_0, GgmlType::Q4_0},
    {GgmlType::Q4_K, GgmlType::Q5_0},  {GgmlType::Q5_K, GgmlType::Q5_1},
    {GgmlType::Q6_K, GgmlType::Q8_0},  {GgmlType::IQ4_XS, GgmlType::IQ4_NL},
};

}  // namespace lathe
