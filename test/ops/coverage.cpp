// Every method of Tensor that computes something has a row, in test/ops and in docs/tensor.md.
#include "ops/table.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

// Names declared in the public part of class Tensor that have no row, and why.
const std::map<std::string, std::string> kExempt = {
    {"Tensor", "constructors make the operands of other rows"},
    {"uop", "gives the node"},
    {"shape", "asks about the node"},
    {"size", "asks about the node"},
    {"ndim", "asks about the node"},
    {"dtype", "asks about the node"},
    {"device", "asks about the node"},
    {"numel", "asks about the node"},
    {"shard_axis", "asks about the node"},
    {"max_shape", "asks about the node"},
    {"max_numel", "asks about the node"},
    {"element_size", "asks about the node"},
    {"nbytes", "asks about the node"},
    {"len", "asks about the node"},
    {"is_floating_point", "asks about the node"},
    {"is_same", "asks about the handle"},
    {"set_param", "a mark for optimizers"},
    {"is_param", "a mark for optimizers"},
    {"to_string", "text"},
    {"is_realized", "asks about the node"},
    {"realize", "the driver calls it for every row"},
    {"bytes", "the driver reads every result with it"},
    {"to_vector", "readers: test/unit/tensor_values.cpp"},
    {"item", "readers: test/unit/tensor_values.cpp"},
    {"gradient", "the driver calls it for every row that has one"},
    {"backward", "gradients of tensors: test/unit/tensor_gradient.cpp"},
    {"grad", "gradients of tensors: test/unit/tensor_gradient.cpp"},
    {"hash", "takes a mebibyte at least, too much for the interpreter: test/unit/tensor_hash.cpp"},
    {"set_grad", "gradients of tensors: test/unit/tensor_gradient.cpp"},
};

std::ifstream source_file(const char* path) {
  return std::ifstream(std::filesystem::path(LATHE_SOURCE_DIR) / path);
}

// The text of tensor.h without comments.
std::string header() {
  std::ifstream file = source_file("src/tensor/tensor.h");
  std::string line, text;
  while (std::getline(file, line)) text += line.substr(0, line.find("//")) + "\n";
  return text;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// What is declared by a statement of the class body: the word before its first parenthesis that is not inside
// <…>, with the sign behind "operator".
std::string declared_name(const std::string& statement) {
  const size_t op = statement.find("operator");
  if (op != std::string::npos) {
    std::string name = statement.substr(op, statement.find('(', op) - op);
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    return name;
  }
  int angles = 0;
  for (size_t i = 0; i < statement.size(); i++) {
    if (statement[i] == '<') angles++;
    if (statement[i] == '>') angles--;
    if (statement[i] != '(' || angles > 0) continue;
    size_t end = i;
    while (end > 0 && std::isspace(static_cast<unsigned char>(statement[end - 1]))) end--;
    size_t start = end;
    while (start > 0 && is_name(statement[start - 1])) start--;
    return statement.substr(start, end - start);
  }
  return "";
}

// Names of the public members of class Tensor.
std::set<std::string> public_methods() {
  const std::string text = header();
  const size_t body = text.find("public:", text.find("class Tensor {")), end = text.find("private:", body);
  REQUIRE(end != std::string::npos);
  std::set<std::string> names;
  std::string statement;
  int braces = 0;
  for (size_t i = body + std::string("public:").size(); i < end; i++) {
    const char c = text[i];
    if (c == '{') braces++;
    if (braces == 0 && c != ';') statement += c;
    if (c == '}') braces--;
    // A body ends a statement; braces of default arguments are inside parentheses and end nothing.
    const bool inside = std::count(statement.begin(), statement.end(), '(') !=
                        std::count(statement.begin(), statement.end(), ')');
    if (inside || braces > 0 || (c != ';' && c != '}')) continue;
    const std::string name = declared_name(statement);
    if (!name.empty()) names.insert(name);
    statement.clear();
  }
  return names;
}

// Cells of a line "| a | b |"; "\\|" is a bar inside a cell.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out{""};
  for (size_t i = 1; i < line.size(); i++) {
    if (line[i] == '|')
      out.emplace_back();
    else
      out.back() += line[line[i] == '\\' ? ++i : i];
  }
  out.pop_back();
  return out;
}

// What docs/tensor.md says about the gradient of each method: "yes", "0" or "–".
std::map<std::string, std::string> documented() {
  std::ifstream file = source_file("docs/tensor.md");
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> row = cells(line);
    REQUIRE(row.size() == 5);
    for (size_t at = row[0].find('`'); at != std::string::npos; at = row[0].find('`', at + 1)) {
      const size_t end = row[0].find('`', at + 1);
      const std::string text = row[0].substr(at + 1, end - at - 1);
      const auto stop = std::find_if_not(text.begin(), text.end(), is_name);
      const std::string name = stop == text.begin() ? "operator" + text : std::string(text.begin(), stop);
      INFO(name, " stands twice");
      CHECK(out.emplace(name, row[3].substr(1, row[3].size() - 2)).second);
      at = end;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("docs/tensor.md lists the public methods of Tensor") {
  const std::map<std::string, std::string> listed = documented();
  const std::set<std::string> methods = public_methods();
  for (const std::string& method : methods) {
    INFO(method, " is not in docs/tensor.md");
    CHECK(listed.contains(method));
  }
  for (const auto& [method, gradient] : listed) {
    INFO(method, " of docs/tensor.md is no public method of Tensor");
    CHECK(methods.contains(method));
  }
}

TEST_CASE("gradients are checked where docs/tensor.md says that there are some") {
  std::set<std::string> checked;
  for (const Row& row : all_rows())
    if (row.checks_gradient())
      for (const std::string& method : row.methods()) checked.insert(method);
  for (const auto& [method, gradient] : documented()) {
    INFO(method, " has the gradient ", gradient, " in docs/tensor.md");
    CHECK((gradient == "yes" || gradient == "0" || gradient == "–"));
    CHECK(checked.contains(method) == (gradient != "–"));
  }
}

TEST_CASE("every public method of Tensor has a row") {
  std::set<std::string> covered;
  for (const Row& row : all_rows())
    for (const std::string& method : row.methods()) covered.insert(method);
  const std::set<std::string> methods = public_methods();
  REQUIRE(methods.size() > 150);
  for (const std::string& method : methods) {
    const bool is_exempt = kExempt.contains(method);
    INFO(method, " has no row in test/ops, or has one and is exempt");
    CHECK(covered.contains(method) != is_exempt);
  }
}

TEST_CASE("rows and exempt names are of methods that exist") {
  const std::set<std::string> methods = public_methods();
  for (const auto& [name, reason] : kExempt) {
    INFO(name);
    CHECK(methods.contains(name));
  }
  std::set<std::string> names;
  for (const Row& row : all_rows()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    for (const std::string& method : row.methods()) CHECK(methods.contains(method));
  }
}
