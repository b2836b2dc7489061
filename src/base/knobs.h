#pragma once

#include <atomic>
#include <climits>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// One value for every row of knobs.def.
enum class Knob {
#define KNOB_INT(name, initial, help) name,
#define KNOB_STR(name, initial, help) name,
#include "base/knobs.def"
};

namespace detail {

#define KNOB_INT(name, initial, help) +1
#define KNOB_STR(name, initial, help) +1
inline constexpr int kKnobCount = 0
#include "base/knobs.def"
    ;

// INT_MIN and null mean "not read from the environment yet", so the zero-cost path needs no static
// constructor.
inline constexpr int kKnobUnread = INT_MIN;
struct KnobSlot {
  std::atomic<int> number{kKnobUnread};
  std::atomic<const std::string*> text{nullptr};
};
extern KnobSlot g_knobs[kKnobCount];

int read_knob(Knob name);
const std::string& read_knob_str(Knob name);

}  // namespace detail

// The value of an integer knob: one relaxed load after the first use. Throws a UserError that names the knob
// when the environment holds something else than an integer.
inline int knob(Knob name) {
  int value = detail::g_knobs[static_cast<int>(name)].number.load(std::memory_order_relaxed);
  if (value != detail::kKnobUnread) [[likely]]
    return value;
  return detail::read_knob(name);
}

// The value of a text knob. The reference stays valid for the life of the process, whatever is set later.
inline const std::string& knob_str(Knob name) {
  const std::string* value = detail::g_knobs[static_cast<int>(name)].text.load(std::memory_order_acquire);
  if (value != nullptr) [[likely]]
    return *value;
  return detail::read_knob_str(name);
}

// Process-wide, for every thread.
void set_knob(Knob name, int value);
void set_knob(Knob name, std::string_view value);

std::string_view knob_name(Knob name);
std::optional<Knob> find_knob(std::string_view name);

// Sets a knob until the end of the scope. Scopes of one knob must nest; it is set for the whole process.
class [[nodiscard]] KnobScope {
 public:
  KnobScope(Knob name, int value);
  KnobScope(Knob name, std::string_view value);
  ~KnobScope();
  KnobScope(const KnobScope&) = delete;
  KnobScope& operator=(const KnobScope&) = delete;

 private:
  Knob name_;
  int number_ = 0;
  const std::string* text_ = nullptr;  // null for an integer knob
};

// One line a knob: name, default, present value where it differs, help.
std::string knobs_help();

}  // namespace lathe
