// RECORD, which tools/replay sets.
#include "base/knobs.h"
#include "base/mmap.h"
#include "tensor/tensor.h"

#include <filesystem>

#include "support/test.h"

using namespace lathe;

TEST_CASE("every kernel leaves its graph and its code, once") {
  const test::TempDir dir;
  const KnobScope record(Knob::RECORD, dir.path().string());
  // A size that no other test has, so that no kernel is in the cache of this process.
  for (const char* device : {"CPU:C", "INTERP"})
    for (int i = 0; i < 2; i++) (Tensor::empty({641}, {.device = device}) * 5.5).realize();
  std::string c, interp;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string text = read_file(entry.path().string());
    CHECK(entry.path().filename() == to_hex(hash_text(text)) + ".txt");
    (test::contains(text, " for INTERP\n") ? interp : c) = text;
    files++;
  }
  CHECK(files == 2);
  for (const std::string& text : {c, interp}) {
    CHECK(text.starts_with("# kernel "));
    CHECK(test::contains(text, " = Sink "));
    CHECK(test::contains(text, "\n# code\n"));
  }
  CHECK(test::contains(c, "void "));
}
