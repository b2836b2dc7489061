#include "llm/chat_template.h"

#include "base/error.h"
#include "base/log.h"
#include "formats/gguf/metadata.h"
#include "llm/chat_presets_table.h"
#include "llm/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Text;
using jinja::Value;

constexpr std::string_view kKey = "tokenizer.chat_template";

const ChatPreset& preset_of(std::string_view pre) {
  for (const ChatPreset& preset : kChatPresets)
    if (!pre.empty() &&
        (" " + std::string(preset.pre) + " ").find(" " + std::string(pre) + " ") != std::string::npos)
      return preset;
  return kChatPresets[0];
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// The text of a content that is a list of parts.
std::string joined_parts(const Json& parts) {
  std::string out;
  for (const Json& part : parts) out += (out.empty() ? "" : "\n") + part["text"].get<std::string>();
  return out;
}

void check_content(const Json& content, std::string_view where) {
  if (content.is_string() || content.is_null()) return;
  if (!content.is_array())
    type_error("{}.content is {}, not a string or a list of parts", where, content.type_name());
  for (size_t i = 0; i < content.size(); i++) {
    const Json& part = content[i];
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    if (type != "text" || !part.contains("text") || !part["text"].is_string())
      type_error("{}.content[{}]: only parts {{\"type\": \"text\", \"text\": …}} are supported, not {}",
                 where, i, type.is_string() ? "type " + type.dump() : part.type_name());
  }
}

// A call whose arguments come as text is what the template wants to see as an object.
Json with_parsed_arguments(Json calls) {
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    try {
      function["arguments"] = parse_json(function["arguments"].get_ref<const std::string&>(), "arguments");
    } catch (const UserError&) {  // stays text
    }
  }
  return calls;
}

// What strangers wrote is marked; a role is what templates build control tokens of.
Value message_value(const Json& message, size_t i, bool takes_parts) {
  const std::string where = fmt::format("messages[{}]", i);
  if (!message.is_object()) type_error("{} is {}, not an object", where, message.type_name());
  if (!message.contains("role") || !message["role"].is_string())
    type_error("{} has no \"role\" that is a string", where);
  jinja::Dict out;
  for (const auto& [key, value] : message.items()) {
    Json adapted = value;
    if (key == "content") {
      check_content(value, where);
      if (value.is_array() && !takes_parts) adapted = joined_parts(value);
    } else if (key == "tool_calls" && value.is_array()) {
      adapted = with_parsed_arguments(value);
    }
    const bool plain = key != "role" || !is_word(value.get_ref<const std::string&>());
    out.set(Text(key), jinja::from_json(adapted, plain));
  }
  if (!out.find("content")) out.set(Text("content"), Text());
  return out;
}

ChatTemplate::Tokens tokens_of(const Tokenizer& tokenizer) {
  const auto text = [&](int32_t id) {
    return id == Vocabulary::kNone ? std::string() : std::string(tokenizer.piece(id));
  };
  return {text(tokenizer.bos()), text(tokenizer.eos()), tokenizer.adds_bos()};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, Tokens tokens, std::string name)
    : tokens_(std::move(tokens)),
      source_(source),
      template_(jinja::Template::parse(source, std::move(name)).or_throw()) {
  takes_parts_ = takes_parts();
}

ChatTemplate ChatTemplate::fallback(std::string_view pre, Tokens tokens) {
  const ChatPreset& preset = preset_of(pre);
  ChatTemplate out(preset.source, std::move(tokens), "built-in chat template");
  std::string closing(preset.closing);
  if (closing.starts_with("EOS")) closing.replace(0, 3, out.tokens_.eos);
  out.constants_.set(Text("start"),
                     Text((out.tokens_.add_bos ? out.tokens_.bos : "") + std::string(preset.start)));
  out.constants_.set(Text("opening"), Text(preset.opening));
  out.constants_.set(Text("closing"), Text(closing));
  out.is_fallback_ = out.takes_parts_ = true;
  return out;
}

ChatTemplate ChatTemplate::from_gguf(const GgufMetadata& metadata, const Tokenizer& tokenizer,
                                     bool ignore_template) {
  const auto source = metadata.find<std::string>(kKey);
  if (source && !source->empty() && !ignore_template) {
    try {
      return ChatTemplate(*source, tokens_of(tokenizer), std::string(kKey));
    } catch (const UserError& error) {
      log_warn("{}; a built-in one takes its place", error.what());
    }
  }
  return fallback(tokenizer.vocabulary().pre, tokens_of(tokenizer));
}

// Many templates know contents that are text only.
bool ChatTemplate::takes_parts() const {
  const Json part = {{"type", "text"}, {"text", "a part"}};
  jinja::Dict message, variables;
  message.set(Text("role"), "user");
  message.set(Text("content"), jinja::from_json(Json::array({part}), false));
  variables.set(Text("messages"), jinja::List{message});
  variables.set(Text("bos_token"), Text(tokens_.bos));
  variables.set(Text("eos_token"), Text(tokens_.eos));
  try {
    const Text text = template_.render(variables);
    return text.bytes().find("a part") != std::string::npos &&
           text.bytes().find("'text'") == std::string::npos &&
           text.bytes().find("\"text\"") == std::string::npos;
  } catch (const jinja::RaisedError&) {
    return true;  // it says what it thinks of them
  } catch (const UserError&) {
    return false;
  }
}

ChatPrompt ChatTemplate::render(const Json& request, const std::optional<std::tm>& now) const {
  if (!request.is_object() || !request.contains("messages") || !request["messages"].is_array() ||
      request["messages"].empty())
    type_error("\"messages\" must be a list of at least one message");
  jinja::Dict variables = constants_;
  variables.set(Text("bos_token"), Text(tokens_.bos));
  variables.set(Text("eos_token"), Text(tokens_.eos));
  variables.set(Text("add_generation_prompt"), true);
  variables.set(Text("preserve_thinking"), true);
  const auto add = [&](const Json& object) {
    for (const auto& [key, value] : object.items())
      if (key != "messages" && key != "chat_template_kwargs" &&
          !(key == "tools" && (value.is_null() || value.empty())))
        variables.set(Text(key), jinja::from_json(value, !key.ends_with("_token")));
  };
  add(request);
  if (request.contains("chat_template_kwargs")) {
    if (!request["chat_template_kwargs"].is_object())
      type_error("\"chat_template_kwargs\" must be an object");
    add(request["chat_template_kwargs"]);
  }
  jinja::List messages;
  for (const Json& message : request["messages"])
    messages.push_back(message_value(message, messages.size(), takes_parts_));
  variables.set(Text("messages"), std::move(messages));
  const Text text = template_.render(variables, now);
  ChatPrompt out{text.bytes(), {}};
  for (size_t i = 0; i < text.size(); i++) {
    if (!text.is_marked(i)) continue;
    if (out.plain.empty() || out.plain.back().end != i) out.plain.push_back({i, i});
    out.plain.back().end = i + 1;
  }
  return out;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const ChatPrompt& prompt) {
  auto ids =
      tokenizer.encode(prompt.text, {.add_special = false, .parse_special = true, .plain = prompt.plain});
  if (tokenizer.adds_bos() && (ids.empty() || ids[0] != tokenizer.bos()))
    ids.insert(ids.begin(), tokenizer.bos());
  return ids;
}

}  // namespace lathe
