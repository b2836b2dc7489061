#include "llm/output_router.h"

#include "base/error.h"
#include "base/log.h"
#include "llm/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
using Kind = OutputPiece::Kind;

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kSection = "<|tool_calls_section_begin|>",
                           kSectionEnd = "<|tool_calls_section_end|>";
constexpr std::string_view kSectionCall = "<|tool_call_begin|>", kArguments = "<|tool_call_argument_begin|>",
                           kSectionCallEnd = "<|tool_call_end|>";
constexpr std::string_view kContentTags[] = {kCall, kSection};
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const size_t end = text.find_last_not_of(kBlanks);
  return end == text.npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

std::optional<Json> as_json(std::string_view text) {
  try {
    return parse_json(text, "a tool call");
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

OutputPiece call(std::string name, std::string arguments) {
  return {Kind::ToolCall, "", std::move(name), std::move(arguments)};
}

// {"name": …, "arguments" or "parameters": …}
std::optional<OutputPiece> json_call(std::string_view payload) {
  const auto json = as_json(payload);
  if (!json || !json->is_object() || !json->contains("name") || !(*json)["name"].is_string())
    return std::nullopt;
  const char* key = json->contains("arguments") ? "arguments" : "parameters";
  const Json arguments = json->value(key, Json::object());
  return call((*json)["name"], arguments.is_string() ? arguments.get<std::string>() : to_text(arguments));
}

// The text up to `end`, which goes too; nothing where that is not there.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  const std::string_view out = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return out;
}
bool take(std::string_view& text, std::string_view prefix) {
  const bool is_there = text.starts_with(prefix);
  if (is_there) text.remove_prefix(prefix.size());
  return is_there;
}

// <function=NAME> <parameter=KEY>VALUE</parameter> … </function>, where the last tag may be missing.
std::optional<OutputPiece> xml_call(std::string_view payload) {
  if (!take(payload, "<function=")) return std::nullopt;
  const auto name = take_until(payload, ">");
  if (!name) return std::nullopt;
  Json arguments = Json::object();
  while (!(payload = trimmed(payload)).empty() && payload != "</function>") {
    if (!take(payload, "<parameter=")) return std::nullopt;
    const auto key = take_until(payload, ">");
    auto value = take_until(payload, "</parameter>");
    if (!key || !value) return std::nullopt;
    if (!take(*value, "\r\n")) take(*value, "\n");
    if (value->ends_with("\n")) value->remove_suffix(value->ends_with("\r\n") ? 2 : 1);
    const auto json = as_json(*value);
    arguments[std::string(trimmed(*key))] = json ? *json : Json(*value);
  }
  return call(std::string(trimmed(*name)), to_text(arguments));
}

// [functions.]NAME[:INDEX]<|tool_call_argument_begin|>JSON
std::optional<OutputPiece> section_call(std::string_view payload) {
  auto name = take_until(payload, kArguments);
  if (!name || !as_json(payload)) return std::nullopt;
  *name = trimmed(*name);
  take(*name, "functions.");
  const size_t colon = name->rfind(':');
  if (colon != name->npos && name->find_first_not_of("0123456789", colon + 1) == name->npos)
    *name = name->substr(0, colon);
  if (name->empty()) return std::nullopt;
  return call(std::string(*name), std::string(trimmed(payload)));
}

}  // namespace

size_t certain_length(std::string_view text, std::span<const std::string_view> tags, bool at_end,
                      const std::string_view** found) {
  *found = nullptr;
  size_t length = text.size();
  for (const std::string_view& tag : tags)
    if (const size_t at = text.find(tag); at < length) length = at, *found = &tag;
  // Another one may begin before that.
  for (const std::string_view tag : at_end ? std::span<const std::string_view>() : tags)
    for (size_t n = std::min(tag.size() - 1, text.size()); n > 0 && text.size() - n < length; n--)
      if (text.ends_with(tag.substr(0, n))) length = text.size() - n, *found = nullptr;
  return length;
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
  views_.assign(stops_.begin(), stops_.end());
}

std::string StopStrings::take(std::string_view text, bool at_end) {
  if (found_) return {};
  held_ += text;
  const std::string_view* tag = nullptr;
  const size_t length = certain_length(held_, views_, at_end, &tag);
  if (tag) found_ = &stops_[static_cast<size_t>(tag - views_.data())];
  std::string out = held_.substr(0, length);
  held_.erase(0, length);
  return out;
}

OutputRouter::OutputRouter(const Options& options)
    : options_(options),
      state_(!options.splits_reasoning     ? State::Content
             : options.starts_in_reasoning ? State::Reasoning
                                           : State::Undecided) {}

bool OutputRouter::opens_reasoning(std::string_view prompt) { return trimmed(prompt).ends_with(kThink); }

bool OutputRouter::is_tag(std::string_view token) {
  constexpr std::string_view kTags[] = {kThink,      kThinkEnd,    kCall,      kCallEnd,       kSection,
                                        kSectionEnd, kSectionCall, kArguments, kSectionCallEnd};
  return std::find(std::begin(kTags), std::end(kTags), token) != std::end(kTags);
}

std::vector<OutputPiece> OutputRouter::push(std::string_view text) {
  held_ += text;
  std::vector<OutputPiece> out;
  while (step(out, false)) {
  }
  return out;
}

std::vector<OutputPiece> OutputRouter::finish() {
  std::vector<OutputPiece> out;
  while (step(out, true)) {
  }
  return out;
}

void OutputRouter::emit(std::vector<OutputPiece>& out, Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind && kind != Kind::ToolCall)
    out.back().text += text;
  else
    out.push_back({kind, std::string(text), "", ""});
}

// Emits what is certain, and takes a tag off; whether there was one.
bool OutputRouter::pass(std::vector<OutputPiece>& out, Kind kind, std::span<const std::string_view> tags,
                        bool at_end) {
  const std::string_view* tag = nullptr;
  const size_t length = certain_length(held_, tags, at_end, &tag);
  std::string_view text = std::string_view(held_).substr(0, length);
  if (skips_blanks_) {  // behind a call, unless other text follows
    if (trimmed(text).empty()) {
      if (!tag && !at_end) return false;
      text = {};
    }
    skips_blanks_ = false;
  }
  emit(out, kind, text);
  held_.erase(0, length);
  return tag != nullptr;
}

// One move of the state machine; false when more text is needed.
bool OutputRouter::step(std::vector<OutputPiece>& out, bool at_end) {
  switch (state_) {
    case State::Undecided: {
      const bool is_thinking = held_.starts_with(kThink);
      if (!is_thinking && !at_end && kThink.starts_with(held_)) return false;
      if (is_thinking) held_.erase(0, kThink.size());
      state_ = is_thinking ? State::Reasoning : State::Content;
      return true;
    }
    case State::Reasoning:
      if (!pass(out, Kind::Reasoning, std::span(&kThinkEnd, 1), at_end)) return false;
      held_.erase(0, kThinkEnd.size());
      state_ = State::Content;
      return true;
    case State::Content: {
      const std::span<const std::string_view> none;
      if (!pass(out, Kind::Content, options_.finds_calls ? kContentTags : none, at_end)) return false;
      state_ = held_.starts_with(kCall) ? State::Call : State::Section;
      skips_blanks_ = state_ == State::Section;
      held_.erase(0, (state_ == State::Call ? kCall : kSection).size());
      return true;
    }
    case State::Call: return take_call(out, kCall, kCallEnd, State::Content, at_end);
    case State::SectionCall: return take_call(out, kSectionCall, kSectionCallEnd, State::Section, at_end);
    case State::Section: return take_section(out, at_end);
  }
  return false;
}

// The payload of a call, once it is there. One that is none is emitted as it came.
bool OutputRouter::take_call(std::vector<OutputPiece>& out, std::string_view open, std::string_view close,
                             State after, bool at_end) {
  const size_t end = held_.find(close);
  if (end == held_.npos && !at_end) return false;
  const std::string payload = held_.substr(0, end);
  const std::string_view inner = trimmed(payload);
  const auto parsed = open == kSectionCall     ? section_call(inner)
                      : inner.starts_with('{') ? json_call(inner)
                                               : xml_call(inner);
  if (parsed) {
    out.push_back(*parsed);
    has_calls_ = true;
  } else {
    log_warn("what the model wrote between {} and {} is no tool call: {}", open, close, payload);
    emit(out, Kind::Content, std::string(open) + payload + (end == held_.npos ? "" : std::string(close)));
  }
  held_.erase(0, end == held_.npos ? end : end + close.size());
  state_ = end == std::string::npos ? State::Content : after;
  skips_blanks_ = parsed || after == State::Section;
  return true;
}

// Between the calls of a section, where there are blanks.
bool OutputRouter::take_section(std::vector<OutputPiece>& out, bool at_end) {
  constexpr std::string_view kTags[] = {kSectionCall, kSectionEnd};
  if (!pass(out, Kind::Content, kTags, at_end)) return false;
  const bool is_call = held_.starts_with(kSectionCall);
  held_.erase(0, (is_call ? kSectionCall : kSectionEnd).size());
  state_ = is_call ? State::SectionCall : State::Content;
  skips_blanks_ = true;
  return true;
}

}  // namespace lathe
