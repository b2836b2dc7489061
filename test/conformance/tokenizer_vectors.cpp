// Texts with the ids that other tokenizers give for them, for six vocabularies.
#include "base/mmap.h"
#include "formats/gguf/gguf.h"
#include "llm/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <sstream>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;

namespace {

std::vector<std::string> parts(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  for (size_t at = 0;;) {
    const size_t end = text.find(separator, at);
    if (end == text.npos) return out;  // what stands behind the last separator is no case
    out.push_back(text.substr(at, end - at));
    at = end + separator.size();
  }
}

std::vector<int32_t> ids_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<int32_t> out;
  for (int32_t id; in >> id;) out.push_back(id);
  return out;
}

// What decoding must give where it is not the text.
std::string without_blanks_and_case(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c > ' ' && static_cast<signed char>(c) > 0) out += static_cast<char>(std::tolower(c));
  return out;
}

}  // namespace

TEST_CASE("tokenizer vectors") {
  const auto folder = test::data_folder("tokenizers");
  if (!folder) return;
  size_t passed = 0;
  for (const std::string name : {"bert-bge", "falcon", "gpt-2", "llama-spm", "phi-3", "qwen2"}) {
    CAPTURE(name);
    const std::string path = (*folder / ("ggml-vocab-" + name + ".gguf")).string();
    const auto texts = parts(read_file(path + ".inp"), "\n__ggml_vocab_test__\n");
    const auto lines = parts(read_file(path + ".out"), "\n");
    const GgufFile file = GgufFile::open(path).or_throw();
    const Tokenizer tokenizer = Tokenizer::from_gguf(file.metadata());
    REQUIRE(texts.size() == 46);
    REQUIRE(lines.size() == 46);
    for (size_t i = 0; i < texts.size(); i++) {
      CAPTURE(texts[i]);
      const auto ids = tokenizer.encode(texts[i], {.add_special = false});
      const bool same = ids == ids_of(lines[i]);
      CHECK_MESSAGE(same, fmt::format("{}", fmt::join(ids, " ")) << " for " << lines[i]);
      passed += same;
      const std::string back = tokenizer.decode(ids);
      if (name == "bert-bge")
        CHECK(without_blanks_and_case(back).size() <= without_blanks_and_case(texts[i]).size() + 20);
      else
        CHECK(back == texts[i]);
      StreamDecoder stream(tokenizer);
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.push(id);
      CHECK(streamed + stream.finish() == back);
    }
  }
  MESSAGE(passed << " of 276 pass");
  CHECK(passed == 276);
}
