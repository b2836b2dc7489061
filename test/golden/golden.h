// Parts of the golden driver; golden_test.cpp describes the files.
#pragma once
#include "uop/uop.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/parse_expression.h"

namespace lathe::test {

// What passes work on: a graph, a linear program, or text.
using GoldenValue = std::variant<UOp, std::vector<UOp>, std::string>;
using GoldenFunction = std::function<GoldenValue(const GoldenValue&)>;

struct GoldenPass {
  std::string_view name;
  GoldenFunction run;
};
// The table of passes.cpp, where a new pass gets its row.
std::span<const GoldenPass> golden_passes();

// `input` and `expected` blocks: the text that a value stands for.
std::string to_text(const GoldenValue& v);
// Lines with "  ", "- " or "+ " in front; unchanged runs are cut short.
std::string diff(std::string_view expected, std::string_view actual);

// ---- rows

// Value of an expression where its variables and Ranges have the values of `names`, in that order. Empty
// where it has none: a division by zero, an overflow of weakint. UserError for nodes that are no scalar
// arithmetic.
class Evaluator {
 public:
  Evaluator(const UOp& root, const Names& names);
  std::optional<Scalar> operator()(std::span<const Scalar> values) const;

 private:
  struct Step {
    UOp node;
    int variable = -1;         // index in `names`, -1 for others
    std::vector<size_t> srcs;  // steps
  };
  std::vector<Step> steps_;
};

// Calls `f` with values of `names` until it returns false: every point of the box if there are at most
// 20,000, else 8,000 that a fixed seed picks, ends of intervals often.
void for_each_point(const Names& names, const std::function<bool(std::span<const Scalar>)>& f);

// Where `b` does not have the value of `a`, as text; empty when it has it everywhere. Where `a` is Invalid or
// has no value, anything goes. Floats may differ by 1e-6 of their size.
std::string find_difference(const UOp& a, const UOp& b, const Names& names);

// Normal form under commutativity and associativity; constants become weak.
UOp reorder(const UOp& u);

// Problems of one `variables | input => output …` line, one a line; empty when it holds. `n_rows` counts the
// rows, `now_hold` those of other kinds than "simplify" that simplify() gives.
std::string check_row_line(std::string_view kind, std::string_view line, int& n_rows, int& now_hold);

// The same of a line "graph => rule" of a level: the rule of the spec that refuses the graph, or ok.
std::string check_refused_line(std::string_view level, std::string_view line);
// Rules of the spec that no such line was refused by, one a line.
std::string rules_without_a_row();

}  // namespace lathe::test
