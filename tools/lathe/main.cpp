// The lathe command. Exit codes: 0 done, 1 the work failed, 2 wrong usage.
#include "base/error.h"
#include "base/knobs.h"
#include "engine/cancel.h"
#include "lathe/command.h"

#include <signal.h>

#include <cstdio>
#include <exception>
#include <new>

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

void complain(const char* text) { std::fprintf(stderr, "lathe: %s\n", text); }

int run(int argc, char** argv) {
  CLI::App app("Turns tensor programs into kernels.", "lathe");
  app.set_version_flag("--version", "lathe " LATHE_VERSION);
  app.footer(
      "Examples:\n"
      "  lathe demo                train a network on handwritten digits\n"
      "  lathe devices --json      what can run kernels here\n"
      "  DEBUG=2 lathe demo        the same with a line for every kernel\n"
      "  lathe knobs               the environment variables that change what happens\n"
      "`lathe COMMAND --help` has more of each.");
  lathe::command::add_bench(app);
  lathe::command::add_chat(app);
  lathe::command::add_demo(app);
  lathe::command::add_devices(app);
  lathe::command::add_eval(app);
  lathe::command::add_gguf(app);
  lathe::command::add_knobs(app);
  lathe::command::add_onnx(app);
  lathe::command::add_perplexity(app);
  lathe::command::add_profile(app);
  lathe::command::add_run(app);
  lathe::command::add_serve(app);
  lathe::command::add_template(app);
  lathe::command::add_tensors(app);
  lathe::command::add_tokenize(app);
  lathe::command::add_trace(app);
  lathe::command::add_tune(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help and --version
  } catch (const CLI::ParseError& error) {
    complain(error.what());
    std::fputs("`lathe --help` and `lathe COMMAND --help` tell what can be asked.\n", stderr);
    return kWrongUsage;
  }
  if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kWrongUsage;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The first Ctrl-C ends the work in good order, the second one the process.
  struct sigaction on_interrupt = {};
  on_interrupt.sa_handler = [](int) { lathe::cancel(); };
  on_interrupt.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &on_interrupt, nullptr);
  try {
    return run(argc, argv);
  } catch (const lathe::InternalError& error) {
    complain(error.what());
    complain("this is a fault of lathe, not of what you asked for");
  } catch (const std::bad_alloc&) {
    complain(
        "there is not enough memory; smaller inputs take less, and models with a smaller context (--ctx)");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return kFailed;
}
