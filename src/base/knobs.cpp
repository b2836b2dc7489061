#include "base/knobs.h"

#include "base/error.h"

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

namespace lathe {

namespace detail {
KnobSlot g_knobs[kKnobCount];
}

namespace {

struct KnobRow {
  const char* name;
  bool is_int;
  int number;
  const char* text;
  const char* help;
};

constexpr KnobRow kRows[] = {
#define KNOB_INT(name, initial, help) {#name, true, initial, "", help},
#define KNOB_STR(name, initial, help) {#name, false, 0, initial, help},
#include "base/knobs.def"
};

const KnobRow& row(Knob name) { return kRows[static_cast<int>(name)]; }
detail::KnobSlot& slot(Knob name) { return detail::g_knobs[static_cast<int>(name)]; }

// Texts are kept for ever, because knob_str hands out references.
const std::string* keep(std::string_view text) {
  static std::mutex mutex;
  static auto* kept = new std::set<std::string, std::less<>>;
  std::lock_guard lock(mutex);
  return &*kept->emplace(text).first;
}

int parse_int(const KnobRow& knob_row, std::string_view text) {
  int value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value == detail::kKnobUnread)
    value_error("{} must be an integer, not \"{}\" ({})", knob_row.name, text, knob_row.help);
  return value;
}

}  // namespace

namespace detail {

int read_knob(Knob name) {
  CHECK(row(name).is_int, "{} is a text knob", row(name).name);
  const char* text = std::getenv(row(name).name);
  int value = text == nullptr || *text == '\0' ? row(name).number : parse_int(row(name), text);
  // Another thread may have read or set it meanwhile; its value stands.
  int unread = kKnobUnread;
  return slot(name).number.compare_exchange_strong(unread, value) ? value : unread;
}

const std::string& read_knob_str(Knob name) {
  CHECK(!row(name).is_int, "{} is an integer knob", row(name).name);
  const char* text = std::getenv(row(name).name);
  const std::string* value = keep(text == nullptr || *text == '\0' ? row(name).text : text);
  const std::string* unread = nullptr;
  return slot(name).text.compare_exchange_strong(unread, value) ? *value : *unread;
}

}  // namespace detail

void set_knob(Knob name, int value) {
  CHECK(row(name).is_int, "{} is a text knob", row(name).name);
  CHECK(value != detail::kKnobUnread);
  slot(name).number.store(value);
}

void set_knob(Knob name, std::string_view value) {
  CHECK(!row(name).is_int, "{} is an integer knob", row(name).name);
  slot(name).text.store(keep(value));
}

std::string_view knob_name(Knob name) { return row(name).name; }

std::optional<Knob> find_knob(std::string_view name) {
  for (int i = 0; i < detail::kKnobCount; i++)
    if (kRows[i].name == name) return static_cast<Knob>(i);
  return std::nullopt;
}

KnobScope::KnobScope(Knob name, int value) : name_(name), number_(knob(name)) { set_knob(name, value); }

KnobScope::KnobScope(Knob name, std::string_view value) : name_(name), text_(&knob_str(name)) {
  set_knob(name, value);
}

KnobScope::~KnobScope() {
  if (text_ != nullptr)
    slot(name_).text.store(text_);
  else
    slot(name_).number.store(number_);
}

std::string knobs_help() {
  std::string out;
  for (int i = 0; i < detail::kKnobCount; i++) {
    const KnobRow& r = kRows[i];
    Knob name = static_cast<Knob>(i);
    std::string initial = r.is_int ? fmt::format("{}", r.number) : fmt::format("\"{}\"", r.text);
    std::string now = r.is_int ? fmt::format("{}", knob(name)) : fmt::format("\"{}\"", knob_str(name));
    out += fmt::format("{:<26}{:<12}{}", r.name, initial, r.help);
    if (now != initial) out += fmt::format(" [now {}]", now);
    out += '\n';
  }
  return out;
}

}  // namespace lathe
