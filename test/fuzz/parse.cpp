// The text form of graphs: whatever parses must print, read back as the same nodes, and be judged by the
// spec.
#include "uop/parse.h"

#include "uop/expression.h"
#include "uop/print.h"
#include "uop/spec.h"

using namespace lathe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto list = parse_list(text);
  if (!list.ok() || list.value().empty()) return 0;
  const UOp& root = list.value().back();

  const std::string printed = print(root);
  CHECK(parse(printed).or_throw() == root, "another node from\n{}", printed);
  CHECK(print(parse(printed).or_throw()) == printed, "another text from\n{}", printed);
  const std::string renumbered = print(root, {.renumber = true, .shapes = false});
  CHECK(print(parse(renumbered).or_throw(), {.renumber = true, .shapes = false}) == renumbered,
        "another text from\n{}", renumbered);

  for (const UOp& u : list.value()) {
    (void)expression(u, {.characters = 1000, .depth = 50});
    (void)print_node(u);
  }
  (void)print_head(root, 1, {.renumber = false, .shapes = true});
  (void)parse_list(print_list(list.value())).or_throw();
  for (const SpecLevel level : {SpecLevel::Tensor, SpecLevel::Kernel, SpecLevel::Program})
    (void)find_violation(root, level);
  (void)find_violation(list.value());
  return 0;
}
