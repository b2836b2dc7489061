// `lathe tokenize` between files.
#include "base/mmap.h"
#include "formats/gguf/writer.h"
#include "llm/tokenizer/byte_alphabet.h"

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cstdlib>

#include "support/test.h"

using namespace lathe;

TEST_CASE("tokenize") {
  test::TempDir dir;
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; b++) tokens.push_back(bytes_to_characters(std::string(1, static_cast<char>(b))));
  tokens.push_back("hi");
  tokens.push_back("<|end|>");
  std::vector<int32_t> types(257, 1);
  types.push_back(3);
  GgufWriter writer;
  writer.set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", "gpt-2");
  writer.set("tokenizer.ggml.tokens", tokens);
  writer.set("tokenizer.ggml.token_type", types);
  writer.set("tokenizer.ggml.merges", std::vector<std::string>{"h i"});
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{257});
  writer.set("tokenizer.ggml.add_bos_token", true);
  writer.write(dir.file("model.gguf"));
  std::string err;
  const auto run = [&](const std::string& input, const std::string& options) {
    write_file_atomically(dir.file("in"), input);
    const int status = std::system(fmt::format("'{}' tokenize -m '{}' {} <'{}' >'{}' 2>'{}'", LATHE_COMMAND,
                                               dir.file("model.gguf"), options, dir.file("in"),
                                               dir.file("out"), dir.file("err"))
                                       .c_str());
    err = read_file(dir.file("err"));
    return WEXITSTATUS(status) == 0 ? read_file(dir.file("out"))
                                    : fmt::format("exit {}", WEXITSTATUS(status));
  };
  CHECK(run("hi\n", "") == "256 10\n");
  CHECK(run("", "") == "\n");
  CHECK(run("hi", "--special") == "257 256\n");
  CHECK(run("hi<|end|>", "--parse-special") == "256 257\n");
  CHECK(run("256 10, [256]\n", "--detokenize") == "hi\nhi");
  CHECK(run("257 256", "--detokenize --special") == "<|end|>hi");
  CHECK(nlohmann::json::parse(run("hi", "--json"))["ids"] == std::vector<int>{256});
  CHECK(run("12 x", "--detokenize") == "exit 1");
  CHECK(test::contains(err, "\"x\" at byte 3 of the input is no token id"));
  CHECK(run("999", "--detokenize") == "exit 1");
  CHECK(test::contains(err, "token 999 is outside of the 258 tokens"));
}
