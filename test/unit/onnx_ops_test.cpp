// docs/onnx.md lists the ops that there are.
#include "base/mmap.h"
#include "formats/onnx/call.h"
#include "formats/regex.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Names = std::set<std::string>;

struct Listed {
  Names present, missing;
};

// By domain: the words of the text block under its heading, and the first column of the table there.
std::map<std::string, Listed> listed_ops() {
  std::map<std::string, Listed> out;
  std::istringstream in(read_file(std::string(LATHE_SOURCE_DIR) + "/docs/onnx.md"));
  std::string domain;
  bool is_block = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) domain = line.substr(3) == "ai.onnx" ? "" : line.substr(3);
    if (line.starts_with("```"))
      is_block = !is_block;
    else if (is_block)
      for (std::istringstream words(line); words >> line;) out[domain].present.insert(line);
    else if (line.starts_with("| `"))
      out[domain].missing.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return out;
}

}  // namespace

TEST_CASE("docs/onnx.md lists the ops of each domain") {
  std::map<std::string, Names> rows;
  for (const onnx::OpRow* row : onnx::all_ops()) rows[std::string(row->domain)].emplace(row->name);
  const auto listed = listed_ops();
  CHECK(listed.size() == rows.size());
  for (const auto& [domain, names] : rows) {
    CAPTURE(domain);
    REQUIRE(listed.count(domain));
    const Listed& list = listed.at(domain);
    for (const std::string& name : names) CHECK_MESSAGE(list.present.count(name), name << " is not listed");
    for (const std::string& name : list.present) CHECK_MESSAGE(names.count(name), name << " is no row");
    for (const std::string& name : list.missing) CHECK_MESSAGE(!names.count(name), name << " is a row");
  }
  CHECK(listed.at("").present.size() + listed.at("").missing.size() > 200);
}

TEST_CASE("regular expressions match from end to end") {
  CHECK(Regex("a+b?").matches_all("aab"));
  CHECK(!Regex("a+b?").matches_all("aabc"));
  CHECK(!Regex("a|ab").matches_all("b"));
  CHECK(Regex("a|ab").matches_all("ab"));  // the first way through is not the only one
  CHECK(Regex("").matches_all(""));
  CHECK(Regex("\\p{Lu}.").matches_all("Äß"));
  CHECK(!Regex(".").matches_all("\xff"));
  CHECK(!Regex("a.b").matches_all(std::string_view("a\nb")));
  CHECK(contains(user_error([] { Regex("a(b"); }).what(), "`a(b` is no regular expression: missing closing"));
  // A pattern that tries every way to split the text ends in an error, not in hours.
  const std::string text(60, 'a');
  CHECK(contains(user_error([&] { (void)Regex("(a+)+[bc]").matches_all(text); }).what(),
                 "matching `(a+)+[bc]`"));
}
