// The text form of graphs: one node a line, sources before users, so that two dumps diff well.
//
//   %0 = Param float [16] {slot=0}
//   %1 = Range weakint 16 {id=0 type=Loop}
//   %2 = Index float %0 %1
//   %3 = Load float %2
//   %4 = Mul float %3 2.0
//   %5 = Store %2 %4
//   %6 = End %5 %1
//   %7 = Sink %6 {kernel="double"}
//
// A line is `%number = Op dtype sources… {arguments}`; void dtypes and arguments that hold their default are
// left out. Constants (`3`, `1.5:half`, `true`, `Invalid`) and short Stacks of constants (`[2 3]`) are
// written where they are used.
// `#` starts a comment. uop/parse.h reads it back.
#pragma once
#include "uop/uop.h"

#include <span>
#include <string>

namespace lathe {

struct PrintOptions {
  // Buffer slots are unique in the process. As they are, parse(print(u)) is the identical node. Renumbered
  // (`slot=@0`, in order of appearance), two graphs that differ only in their buffers print the same, and
  // parse makes new Buffers.
  bool renumber = false;
  bool shapes = false;  // "# (2, 3)" behind each value
};

// The last line is `root`. Bodies of Calls are part of the text.
std::string print(const UOp& root, const PrintOptions& options = {});
// A linear program: one line an element, in order. A source that is no element gets a line before its first
// user.
std::string print_list(std::span<const UOp> list, const PrintOptions& options = {});
// The first and last `n` lines with the numbers they have in print(root), and how many lines lie between.
std::string print_head(const UOp& root, size_t n, const PrintOptions& options = {});
// The arguments of one node as they stand in its line, with the blank before them: ` {slot=0}`, or "" for
// none.
std::string print_arg(const UOp& u);
// One node, its sources only by kind: "Store (Index float, Const weakint)". For messages.
std::string print_node(const UOp& u);

}  // namespace lathe
