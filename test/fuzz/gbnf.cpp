// A grammar, or an error that lies within the text. What it allows is followed for a while, always by the
// first or the last byte.
#include "base/error.h"
#include "llm/grammar/automaton.h"

using namespace lathe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4000) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto net = parse_gbnf(text);
  if (!net.ok()) {
    CHECK(net.error().offset <= size && !net.error().text.empty());
    return 0;
  }
  try {
    GrammarAutomaton automaton(std::make_shared<const GrammarNet>(std::move(net).value()));
    for (const bool last : {false, true}) {
      GrammarAutomaton::State state = automaton.start();
      for (int step = 0; step < 20 && state != GrammarAutomaton::kDead; step++) {
        GrammarAutomaton::State next = GrammarAutomaton::kDead;
        for (int b = 0; b < 256 && next == GrammarAutomaton::kDead; b++)
          next = automaton.step(state, static_cast<uint8_t>(last ? 255 - b : b));
        state = next;
      }
    }
  } catch (const UserError& error) {
    CHECK(std::string_view(error.what()).find("too ambiguous") != std::string_view::npos, "{}", error.what());
  }
  return 0;
}
