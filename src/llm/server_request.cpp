#include "llm/server_request.h"

#include "base/clock.h"
#include "base/error.h"
#include "llm/json_text.h"
#include "llm/output_router.h"
#include "llm/sampling_fields_table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxStops = 16, kMaxStopBytes = 1024, kMaxBias = 1024, kMaxGrammarBytes = 1 << 20;
constexpr double kGreatestBias = 1e6;

[[noreturn]] void refuse(const std::string& param, std::string message, std::string code = {},
                         int status = 400) {
  throw ApiError{status, std::move(message), param, std::move(code)};
}

// A field of the request; null where it is not given or null.
const Json* field(const Json& body, const char* name) {
  const auto at = body.find(name);
  return at == body.end() || at->is_null() ? nullptr : &*at;
}

bool flag(const Json& body, const char* name, bool otherwise = false) {
  const Json* v = field(body, name);
  if (!v) return otherwise;
  if (!v->is_boolean()) refuse(name, fmt::format("\"{}\" must be true or false, not {}", name, v->dump()));
  return v->get<bool>();
}

std::optional<int64_t> integer(const Json& body, const char* name, int64_t least) {
  const Json* v = field(body, name);
  if (!v) return std::nullopt;
  if (!v->is_number_integer() || v->get<int64_t>() < least)
    refuse(name, fmt::format("\"{}\" must be an integer of at least {}, not {}", name, least, v->dump()));
  return v->get<int64_t>();
}

void read(const Json& body, const char* name, float& to) {
  const Json* v = field(body, name);
  if (!v) return;
  if (!v->is_number()) refuse(name, fmt::format("\"{}\" must be a number, not {}", name, v->dump()));
  to = v->get<float>();
}

void read(const Json& body, const char* name, int32_t& to, int64_t least) {
  const auto v = integer(body, name, least);
  if (v) to = static_cast<int32_t>(std::min<int64_t>(*v, std::numeric_limits<int32_t>::max()));
}

// {"15043": -5, "17": false}, or [[15043, -5], …] where a token may also be a text: all tokens of that.
void read_bias(const Json& body, const Tokenizer& tokenizer, SamplingOptions& to) {
  const Json* v = field(body, "logit_bias");
  if (!v) return;
  const auto bad = [&] {
    refuse("logit_bias", "\"logit_bias\" must map tokens to numbers, or to false to rule them out");
  };
  if ((!v->is_object() && !v->is_array()) || v->size() > kMaxBias) bad();
  const auto add = [&](const std::vector<int32_t>& ids, const Json& bias) {
    if (!bias.is_number() && bias != false) bad();
    if (bias.is_number() && !(std::abs(bias.get<double>()) <= kGreatestBias))
      refuse("logit_bias", fmt::format("\"logit_bias\": {} is more than {:.0f}", bias.dump(), kGreatestBias));
    const float value = bias == false ? -std::numeric_limits<float>::infinity() : bias.get<float>();
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer.size())
        refuse("logit_bias", fmt::format("\"logit_bias\": there is no token {}", id));
      to.logit_bias.emplace_back(id, value);
    }
  };
  const auto id_of = [&](const std::string& text) {
    char* end = nullptr;
    const long id = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end || id < 0 || id > std::numeric_limits<int32_t>::max()) bad();
    return static_cast<int32_t>(id);
  };
  for (const auto& [key, value] : v->items()) {
    if (v->is_object()) {
      add({id_of(key)}, value);
      continue;
    }
    if (!value.is_array() || value.size() != 2 || (!value[0].is_number_integer() && !value[0].is_string()))
      bad();
    if (value[0].is_string())
      add(tokenizer.encode(value[0].get_ref<const std::string&>(), {.add_special = false}), value[1]);
    else
      add({id_of(value[0].dump())}, value[1]);
  }
}

void read_sampling(const Json& body, const Tokenizer& tokenizer, SamplingOptions& to) {
  to.temperature = 0.8f, to.top_k = 40, to.top_p = 0.95f, to.min_p = 0.05f;
  for (const FloatField& f : kFloatFields) read(body, f.name, to.*f.member);
  for (const IntegerField& f : kIntegerFields) read(body, f.name, to.*f.member, f.least);
  const auto seed = integer(body, "seed", -1);
  to.seed = seed && *seed >= 0 ? static_cast<uint64_t>(*seed) : std::random_device()();
  read_bias(body, tokenizer, to);
  try {
    to.check();
  } catch (const UserError& error) {
    refuse("", error.what());
  }
}

void read_stops(const Json& body, CompletionRequest& to) {
  const Json* v = field(body, "stop");
  if (!v) return;
  const Json list = v->is_array() ? *v : Json::array({*v});
  if (list.size() > kMaxStops)
    refuse("stop", fmt::format("\"stop\" has {} strings; {} are allowed", list.size(), kMaxStops));
  for (const Json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().size() > kMaxStopBytes)
      refuse("stop", fmt::format("\"stop\" must be a string or a list of strings of at most {} bytes",
                                 kMaxStopBytes));
    to.stop.push_back(stop);
  }
}

// response_format, json_schema and grammar, of which there may be one.
void read_grammar(const Json& body, const ServedModel& model, CompletionRequest& to) {
  const Json *format = field(body, "response_format"), *schema = field(body, "json_schema"),
             *grammar = field(body, "grammar");
  std::string param = "json_schema";
  if (format) {
    param = "response_format";
    const Json type = format->is_object() ? format->value("type", Json()) : Json();
    if (type == "text") {
      format = nullptr;
    } else if (type == "json_object") {
      to.grammar = model.grammars->find("json", "", param);
    } else if (type == "json_schema" && format->contains("json_schema") &&
               (*format)["json_schema"].contains("schema")) {
      if (schema) refuse(param, "\"response_format\" and \"json_schema\" are both given");
      schema = &(*format)["json_schema"]["schema"];
    } else {
      refuse(param,
             "\"response_format\" must have the type text, json_object, or json_schema with a "
             "json_schema.schema");
    }
  }
  if (grammar && (schema || format)) refuse("grammar", "an answer has one grammar; there are several");
  if (schema) to.grammar = model.grammars->find("schema", schema->dump(), param);
  if (grammar && !grammar->is_string()) refuse("grammar", "\"grammar\" must be a string");
  if (grammar) to.grammar = model.grammars->find("gbnf", grammar->get<std::string>(), "grammar");
}

Json parse_body(std::string_view body) {
  Json out;
  try {
    out = parse_json(body, "the request body");
  } catch (const UserError& error) {
    refuse("", error.what());
  }
  if (!out.is_object()) refuse("", fmt::format("the request body is {}, not an object", out.type_name()));
  return out;
}

// What chats and plain completions share.
CompletionRequest read_common(const Json& body, const ServedModel& model) {
  CompletionRequest out;
  const Json* name = field(body, "model");
  out.model = name && name->is_string() ? name->get<std::string>() : model.name;
  out.streams = flag(body, "stream");
  if (const Json* options = field(body, "stream_options"))
    out.includes_usage = options->is_object() && flag(*options, "include_usage");
  for (const char* limit : {"n_predict", "max_tokens", "max_completion_tokens"})  // the last one wins
    out.max_tokens = integer(body, limit, -1).value_or(out.max_tokens);
  out.ignores_end = flag(body, "ignore_eos");
  read_sampling(body, model.tokenizer, out.sampling);
  read_stops(body, out);
  read_grammar(body, model, out);
  if (integer(body, "n", 1).value_or(1) != 1)
    refuse("n", "more than one choice a request is not supported", "", 501);
  const Json* suffix = field(body, "suffix");
  if (integer(body, "best_of", 1).value_or(1) != 1 || flag(body, "echo") || (suffix && *suffix != ""))
    refuse("", "\"best_of\", \"echo\" and \"suffix\" are not supported by this server", "", 501);
  const Json* logprobs = field(body, "logprobs");
  if (logprobs && *logprobs != false && *logprobs != 0)
    refuse("logprobs", "log-probabilities are not supported by this server", "", 501);
  return out;
}

void check_length(const CompletionRequest& request, const ServedModel& model) {
  const auto count = static_cast<int64_t>(request.prompt.size());
  const char* param = request.is_chat ? "messages" : "prompt";
  if (count == 0) refuse(param, "the prompt is empty");
  if (count >= model.context)
    refuse(param, fmt::format("prompt has {} tokens, but the model context is {}", count, model.context),
           "context_length_exceeded");
}

// Tools that may be called; a choice that would force a call is more than the server can do.
bool read_tools(Json& body) {
  const Json* tools = field(body, "tools");
  if (tools && !tools->is_array()) refuse("tools", "\"tools\" must be a list");
  const Json* choice = field(body, "tool_choice");
  if (choice && *choice != "auto" && *choice != "none")
    refuse("tool_choice",
           fmt::format("\"tool_choice\" {} is not supported; \"auto\" and \"none\" are", choice->dump()), "",
           501);
  if (choice && *choice == "none") body.erase("tools");
  return body.contains("tools") && !body["tools"].empty();
}

}  // namespace

Grammar GrammarCache::find(std::string_view kind, const std::string& text, const std::string& param) {
  constexpr size_t kMost = 16;
  if (text.size() > kMaxGrammarBytes)
    refuse(param, fmt::format("\"{}\" has {} bytes; {} are allowed", param, text.size(), kMaxGrammarBytes));
  const std::string key = fmt::format("{} {}", kind, text);
  std::unique_lock lock(mutex_);
  const auto at =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.first == key; });
  if (at != kept_.end()) return at->second;
  lock.unlock();  // a grammar that takes long holds up no other request
  const auto parsed = kind == "gbnf"     ? Grammar::from_gbnf(text)
                      : kind == "schema" ? Grammar::from_json_schema(text)
                                         : Result<Grammar>(Grammar::json());
  if (!parsed.ok()) refuse(param, parsed.error().message());
  lock.lock();
  kept_.emplace_front(key, parsed.value());
  if (kept_.size() > kMost) kept_.pop_back();
  return parsed.value();
}

std::string ApiError::body() const {
  const auto or_null = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
  const char* type = status == 404   ? "not_found_error"
                     : status == 501 ? "not_supported_error"
                     : status == 503 ? "unavailable_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  const Json error = {
      {"message", message}, {"type", type}, {"param", or_null(param)}, {"code", or_null(code)}};
  return Json{{"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CompletionRequest read_chat_request(std::string_view text, const ServedModel& model) {
  Json body = parse_body(text);
  CompletionRequest out = read_common(body, model);
  const Json* format = field(body, "reasoning_format");
  if (format && *format != "none" && *format != "deepseek" && *format != "auto")
    refuse("reasoning_format",
           fmt::format("\"reasoning_format\" must be none, deepseek or auto, not {}", format->dump()));
  out.splits_reasoning = !format || *format != "none";
  out.finds_calls = read_tools(body);
  const double begin = now_seconds();
  // Only what belongs to the template goes there: it may not take a sampling option for a variable of its
  // own.
  Json request;
  for (const char* name :
       {"messages", "tools", "add_generation_prompt", "chat_template_kwargs", "reasoning_effort"})
    if (const Json* v = field(body, name)) request[name] = *v;
  try {
    const ChatPrompt prompt = model.chat_template.render(request);
    out.starts_in_reasoning = OutputRouter::opens_reasoning(prompt.text);
    out.prompt = encode_prompt(model.tokenizer, prompt);
  } catch (const jinja::RaisedError& error) {
    refuse("messages", error.reason);
  } catch (const UserError& error) {
    refuse("messages", error.what());
  }
  out.prepare_seconds = now_seconds() - begin;
  check_length(out, model);
  return out;
}

CompletionRequest read_completion_request(std::string_view text, const ServedModel& model) {
  const Json body = parse_body(text);
  CompletionRequest out = read_common(body, model);
  out.is_chat = out.splits_reasoning = false;
  const Json* prompt = field(body, "prompt");
  const double begin = now_seconds();
  if (prompt && prompt->is_array() && prompt->size() == 1 && (*prompt)[0].is_string()) prompt = &(*prompt)[0];
  if (prompt && prompt->is_string()) {
    try {
      out.prompt = model.tokenizer.encode(prompt->get_ref<const std::string&>(),
                                          {.add_special = true, .parse_special = true});
    } catch (const UserError& error) {
      refuse("prompt", error.what());
    }
  } else if (prompt && prompt->is_array()) {
    for (const Json& id : *prompt) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= model.tokenizer.size())
        refuse("prompt", fmt::format("\"prompt\": {} is no token of this model", id.dump()));
      out.prompt.push_back(id.get<int32_t>());
    }
  } else {
    refuse("prompt", "\"prompt\" must be a string or a list of token ids");
  }
  out.prepare_seconds = now_seconds() - begin;
  check_length(out, model);
  return out;
}

}  // namespace lathe
