#include "base/knobs.h"

#include "lathe/command.h"

#include <cstdio>

namespace lathe::command {

void add_knobs(CLI::App& app) {
  CLI::App* command = app.add_subcommand("knobs", "Lists the environment variables that lathe reads.");
  command->footer(
      "Each line has a name, the default and what it does, then the present value where that differs.\n"
      "Examples:\n"
      "  lathe knobs\n"
      "  NOOPT=1 lathe knobs | grep NOOPT");
  command->callback([] { std::fputs(knobs_help().c_str(), stdout); });
}

}  // namespace lathe::command
