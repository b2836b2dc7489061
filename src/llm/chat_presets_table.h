// Chat templates for models that bring none.
#pragma once

#include <string_view>

namespace lathe {

// What models without a template are asked in, by how their vocabulary splits text.
inline constexpr std::string_view kTurns =
    "{{ start }}{% for m in messages %}{{ opening|replace('ROLE', m.role) }}"
    "{{ m.content if m.content is string else m.content|map(attribute='text')|join }}{{ closing }}{% endfor "
    "%}"
    "{% if add_generation_prompt %}{{ opening|replace('ROLE', 'assistant') }}{% endif %}";
inline constexpr std::string_view kInstructions =
    "{{ start }}{% for m in messages %}"
    "{% set content = m.content if m.content is string else m.content|map(attribute='text')|join %}"
    "{% if m.role == 'user' %}{{ opening }}{{ content }}{{ closing }}"
    "{% elif m.role == 'assistant' %}{{ content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('this model has no turns of role ' ~ m.role) }}{% endif %}{% endfor %}";

struct ChatPreset {
  std::string_view pre, source, start, opening, closing;  // EOS: the text of that token
};
inline constexpr ChatPreset kChatPresets[] = {
    {"", kTurns, "", "<|start_header_id|>ROLE<|end_header_id|>\n\n", "EOS"},
    {"qwen2 qwen35", kTurns, "", "<|im_start|>ROLE\n", "EOS\n"},
    {"olmo", kTurns, "", "<|ROLE|>\n", "\n"},
    {"kimi-k2", kTurns, "", "<|im_ROLE|>ROLE<|im_middle|>", "EOS"},
    {"glm4 chatglm-bpe", kTurns, "<sop>", "<|ROLE|>", ""},
    {"tekken", kInstructions, "", "[INST]", "[/INST]"},
};

}  // namespace lathe
