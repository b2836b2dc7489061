// Walks test/golden/**/*.txt. A file is a sequence of blocks, each ended by a line `end`; between blocks,
// blank lines and lines that start with # are free text.
//
// 1. A case: what passes make of an input.
//
//   input                      the text form of uop/print.h …
//   %0 = Add weakint 1 2
//   passes simplify            names from the table in passes.cpp, left to right
//   expected
//   %0 = 3
//   end
//
//   `input list` reads a linear program; `input expression a[0,3] b[0,5]` reads one line of the notation of
//   support/parse_expression.h over these variables. Buffers are renumbered in the result. A pass that throws
//   makes the result "error: <first line>". `golden_tests --update` (or GOLDEN_UPDATE=1) rewrites the
//   expected parts in place.
//
// 2. Rows: one-line facts, in the layout of the tables that they come from.
//
//   rows simplify
//   -- a heading
//   a[0,3] | a*0 => 0 ; a+a => a*2 {0..6} || a[0,8] b[0,8] | b+a => =
//   end
//
//   `variables | input => output {lo..hi} ; …`, groups parted by ` || `; `=` means the input itself. Checked:
//   both sides and simplify(input) have one value wherever the input has one (all points of the box up to
//   20,000, else samples); simplify(input) is the output, up to the order of commutative operands; its range
//   is {lo..hi}. `rows sound` checks only values, and so does `rows pending`, which tells when rows hold.
//   `rows bounds` has `expression (lo,hi)`: the range without simplification. `rows gate` are
//   those of gates.h; both forms are executed, too. `rows accesses` has `load => ok`, `load => bad text`
//   or `address = value => …`: whether the accesses stay in their buffers, and a part of the error.
//
//   `rows refused tensor` (kernel, program) has a graph a line, its lines parted by ` ; `:
//   `%0 = Sub 1:int 2:int => the rule of the spec that refuses it`, or ok. Every rule of the spec needs a
//   row.
//
// GOLDEN_ONLY=text runs only files whose path contains the text.
#include "golden/golden.h"

#include "uop/parse.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "support/test.h"

namespace fs = std::filesystem;
using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  size_t line;  // of `input`, from 1
  std::string kind;
  std::string input;
  std::vector<std::string> passes;
  size_t first_expected, end_expected;  // lines, from 0
  std::string expected;
};

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  if (!in) user_runtime_error("cannot read {}", path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  std::ofstream out(path);
  for (const std::string& line : lines) out << line << '\n';
  out.close();
  if (!out) user_runtime_error("cannot write {}", path.string());
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

GoldenValue read_input(const Case& c) {
  if (c.kind == "input") return parse(c.input).or_throw();
  if (c.kind == "input list") return parse_list(c.input).or_throw();
  constexpr std::string_view kExpression = "input expression";
  if (!c.kind.starts_with(kExpression)) value_error("'{}' is no kind of input", c.kind);
  const Names names = parse_names(std::string_view(c.kind).substr(kExpression.size())).or_throw();
  return parse_expression(c.input, names).or_throw();
}

std::string run_case(const Case& c) {
  GoldenValue value = read_input(c);
  for (const std::string& name : c.passes) {
    const auto passes = golden_passes();
    const auto pass =
        std::find_if(passes.begin(), passes.end(), [&](const GoldenPass& p) { return p.name == name; });
    if (pass == passes.end()) value_error("there is no pass '{}'", name);
    try {
      value = pass->run(value);
    } catch (const Error& e) {
      const std::string_view text = e.what();
      return fmt::format("error: {}\n", text.substr(0, text.find('\n')));
    }
  }
  return to_text(value);
}

class GoldenFile {
 public:
  explicit GoldenFile(fs::path path) : path_(std::move(path)), lines_(read_lines(path_)) {}

  void run(bool update) {
    std::vector<std::pair<Case, std::string>> changed;
    while (at_ < lines_.size()) {
      const std::string& line = lines_[at_];
      if (line.empty() || line[0] == '#')
        at_++;
      else if (line.starts_with("rows "))
        run_rows(line.substr(5));
      else
        run_one(read_case(), update, changed);
    }
    for (size_t i = changed.size(); i-- > 0;) {
      const auto& [c, actual] = changed[i];
      const auto first = lines_.begin() + static_cast<std::ptrdiff_t>(c.first_expected);
      const auto end = lines_.begin() + static_cast<std::ptrdiff_t>(c.end_expected);
      const auto place = lines_.erase(first, end);
      std::vector<std::string> fresh;
      std::istringstream in(actual);
      for (std::string line; std::getline(in, line);) fresh.push_back(line);
      lines_.insert(place, fresh.begin(), fresh.end());
    }
    if (!changed.empty()) write_lines(path_, lines_);
  }
  int blocks() const { return blocks_; }

 private:
  std::string where(size_t line) const { return fmt::format("{}:{}", path_.string(), line); }

  // Lines up to the one that starts with `stop`, which becomes the current one.
  std::string body(std::string_view stop) {
    std::string text;
    const size_t start = at_;
    for (; at_ < lines_.size() && !lines_[at_].starts_with(stop); at_++) text += lines_[at_] + '\n';
    if (at_ == lines_.size()) value_error("{}: no line '{}' follows", where(start), stop);
    return text;
  }

  Case read_case() {
    Case c;
    c.line = at_ + 1;
    c.kind = lines_[at_++];
    if (!c.kind.starts_with("input"))
      value_error("{}: expected input, rows or a # comment, got '{}'", where(c.line), c.kind);
    c.input = body("passes");
    c.passes = words(lines_[at_++]);
    c.passes.erase(c.passes.begin());
    if (at_ == lines_.size() || lines_[at_] != "expected")
      value_error("{}: expected follows passes", where(at_ + 1));
    c.first_expected = ++at_;
    while (at_ < lines_.size() && lines_[at_] != "end") c.expected += lines_[at_++] + '\n';
    if (at_ == lines_.size()) value_error("{}: no end", where(c.line));
    c.end_expected = at_++;
    return c;
  }

  void run_one(const Case& c, bool update, std::vector<std::pair<Case, std::string>>& changed) {
    blocks_++;
    std::string actual;
    try {
      actual = run_case(c);
    } catch (const std::exception& e) {  // not of a pass: the case itself is wrong
      FAIL_CHECK(where(c.line), ": ", e.what());
      return;
    }
    if (actual == c.expected) return;
    if (update) {
      changed.emplace_back(c, actual);
      return;
    }
    FAIL_CHECK(where(c.line), ": expected (-) and actual (+) differ\n", diff(c.expected, actual));
  }

  void run_rows(const std::string& kind) {
    blocks_++;
    constexpr std::string_view kRefused = "refused ";
    const std::string_view kinds[] = {"simplify", "sound", "pending", "bounds", "gate", "accesses"};
    if (std::find(std::begin(kinds), std::end(kinds), kind) == std::end(kinds) && !kind.starts_with(kRefused))
      value_error("{}: no rows of kind '{}'", where(at_ + 1), kind);
    int n_rows = 0, now_hold = 0;
    for (at_++; at_ < lines_.size() && lines_[at_] != "end"; at_++) {
      const std::string& line = lines_[at_];
      if (line.empty() || line.starts_with("--") || line[0] == '#') continue;
      n_rows += kind.starts_with(kRefused);
      const std::string problems = kind.starts_with(kRefused)
                                       ? check_refused_line(kind.substr(kRefused.size()), line)
                                       : check_row_line(kind, line, n_rows, now_hold);
      if (!problems.empty()) FAIL_CHECK(where(at_ + 1), ":\n", problems);
    }
    if (at_ == lines_.size()) value_error("{}: no end", where(at_));
    at_++;
    CHECK(n_rows > 0);
    if (kind == "pending" && now_hold)
      MESSAGE(path_.string(), ": ", now_hold, " of ", n_rows, " rows hold now and may move to rows simplify");
  }

  fs::path path_;
  std::vector<std::string> lines_;
  size_t at_ = 0;
  int blocks_ = 0;
};

}  // namespace

TEST_CASE("golden files") {
  const char* update = std::getenv("GOLDEN_UPDATE");
  const char* only = std::getenv("GOLDEN_ONLY");
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(LATHE_SOURCE_DIR) / "test" / "golden"))
    if (entry.path().extension() == ".txt" && (!only || contains(entry.path().string(), only)))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const fs::path& path : files) {
    CAPTURE(path.string());
    GoldenFile file(path);
    try {
      file.run(update && std::string_view(update) == "1");
    } catch (const Error& e) {  // the rest of the file cannot be read
      FAIL_CHECK(e.what());
    }
    CHECK(file.blocks() > 0);
  }
  if (!only) CHECK(rules_without_a_row() == "");
}

TEST_CASE("the driver sees what is wrong") {
  int rows = 0, hold = 0;
  CHECK(check_row_line("simplify", "a[0,3] | a+0 => a {0..3} ; a*0 => 0", rows, hold) == "");
  CHECK(rows == 2);
  CHECK(contains(check_row_line("simplify", "a[0,3] | a+0 => a+1", rows, hold),
                 "the row is wrong: 1 instead of 0 at a=0"));
  CHECK(contains(check_row_line("simplify", "a[0,3] | a+0 => a*1", rows, hold), "simplify gives a"));
  CHECK(contains(check_row_line("simplify", "a[0,3] | a+0 => a {0..4}", rows, hold),
                 "the range is 0..3, expected 0..4"));
  CHECK(contains(check_row_line("simplify", "a[0,3] | a+0 = a", rows, hold), "has no ' => '"));
  CHECK(contains(check_row_line("sound", "a[0,100000] | a//3 => a//3+(a<99999?0:1)", rows, hold),
                 "the row is wrong"));
  CHECK(check_row_line("sound", "a[0,3] | a+0 => a ; a+0 => a*1", rows, hold) == "");
  CHECK(hold == 1);
  CHECK(check_row_line("bounds", "a[0,3] | a+1 (1,4) || q:bool | q (F,T)", rows, hold) == "");
  CHECK(contains(check_row_line("bounds", "a[0,3] | a+1 (1,5)", rows, hold), "the range is 1..4"));
}

TEST_CASE("evaluation follows ranges and skips what has no value") {
  const Names names = parse_names("a[1,4] r0=range(a+2)").or_throw();
  int points = 0;
  for_each_point(names, [&](std::span<const Scalar> p) {
    CHECK(p[1].as_int() < p[0].as_int() + 2);
    return ++points > 0;
  });
  CHECK(points == 3 + 4 + 5 + 6);
  const auto value = [&](const char* text) { return parse_expression(text, names).or_throw(); };
  CHECK(find_difference(value("r0//(a+2)"), value("0"), names) == "");
  CHECK(find_difference(value("r0//(a-1)"), value("r0//(a-1)*1"), names) == "");
  CHECK(find_difference(value("r0<2?r0:Inv"), value("r0"), names) == "");
  CHECK(find_difference(value("r0"), value("r0<2?r0:Inv"), names) == "Invalid instead of 2 at a=1 r0=2");
  CHECK(reorder(value("a*2+(r0+3)")) == reorder(value("3+r0+2*a")));
  CHECK(!(reorder(value("a-r0")) == reorder(value("r0-a"))));
}

TEST_CASE("a difference shows the lines around it") {
  CHECK(diff("a\nb\nc\n", "a\nx\nc\n") == "  a\n- b\n+ x\n  c\n");
  CHECK(diff("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7\n") == "  ...\n  4\n  5\n  6\n+ 7\n");
  CHECK(diff("same\n", "same\n") == "");
}
