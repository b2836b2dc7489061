// What ran when, in a file that Chrome's trace viewer and Perfetto open: docs/profile.md.
#pragma once
#include "base/clock.h"

#include <string>
#include <string_view>

namespace lathe {

// Whether events are kept: a load. The first call opens the file that the knob PROFILE names.
bool is_profiling();
// Ends the profile before, if any. UserError where the file cannot be created.
void start_profile(const std::string& path);
// Gives the file its name, as the end of the process does.
void stop_profile();

// An event of this thread, or of a device where one is named. `start` is of now_seconds(); `args` are the
// members of a JSON object: "\"bytes\":64". Thread-safe; without effect while nothing is kept.
void profile_event(std::string_view kind, std::string_view name, double start, double seconds,
                   std::string_view args, std::string_view device = {});
// Text as JSON has it, with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace lathe
