#include "uop/expression.h"

#include <algorithm>

namespace lathe {
namespace {

struct Infix {
  Op op;
  std::string_view text;
  int precedence;  // how tightly it binds; 0: always in parentheses
};
constexpr Infix kInfix[] = {{Op::Mul, "*", 6},    {Op::FloorDiv, "//", 6}, {Op::FloorMod, "%", 6},
                            {Op::FDiv, "/", 6},   {Op::Add, "+", 5},       {Op::Sub, "-", 5},
                            {Op::Shl, "<<", 4},   {Op::Shr, ">>", 4},      {Op::And, "&", 3},
                            {Op::Xor, "^", 2},    {Op::Or, "|", 1},        {Op::CmpLt, "<", 0},
                            {Op::CmpNe, "!=", 0}, {Op::CmpEq, "==", 0}};

const Infix* find_infix(Op op) {
  const auto row =
      std::find_if(std::begin(kInfix), std::end(kInfix), [op](const Infix& i) { return i.op == op; });
  return row == std::end(kInfix) ? nullptr : row;
}
int precedence(Op op) {
  const Infix* row = find_infix(op);
  return row ? row->precedence : 0;
}

bool is_negative(const UOp& u) {
  return u.is_const() && (u.value().is_int() || u.value().is_float()) && u.value().to_string()[0] == '-';
}

// What prints as one word.
bool is_leaf(Op op) {
  return op == Op::Const || op == Op::Param || op == Op::Buffer || op == Op::Range || op == Op::Special;
}

std::string signed_id(int64_t id) { return id < 0 ? fmt::format("m{}", -id) : fmt::format("{}", id); }

// Writes from left to right with a list of what is still to write, so that a shared graph, whose text may be
// exponentially long, costs no more than the limit.
class Writer {
 public:
  explicit Writer(const ExpressionLimits& limits) : limits_(limits) {}

  std::string run(const UOp& root) {
    todo_.push_back({root.node(), "", false, 0});
    while (!todo_.empty()) {
      const Task task = std::move(todo_.back());
      todo_.pop_back();
      if (!task.node)
        out_ += task.text;
      else if (task.depth > limits_.depth && !is_leaf(task.node->op))
        out_ += "...";
      else
        write(UOp(task.node), task);
      if (out_.size() > limits_.characters) return out_.substr(0, limits_.characters) + "...";
    }
    return std::move(out_);
  }

 private:
  struct Task {
    const Node* node;  // null: plain text
    std::string text;
    bool bare;  // the place needs no parentheses around an infix operator
    int depth;
  };

  // Collects parts in reading order; they go on the list when the node is done.
  void text(std::string s) { parts_.push_back({nullptr, std::move(s), false, 0}); }
  void node(const UOp& u, bool bare) { parts_.push_back({u.node(), "", bare, depth_ + 1}); }
  void list(std::span<const UOp> nodes) {
    for (size_t i = 0; i < nodes.size(); i++) {
      if (i) text(", ");
      node(nodes[i], true);
    }
  }
  void call(std::string_view name, std::span<const UOp> args) {
    text(std::string(name) + "(");
    list(args);
    text(")");
  }
  // `$i` is source i, `@i` the same in parentheses where it is an infix operator.
  void form(const UOp& u, std::string_view pattern) {
    for (size_t at = pattern.find_first_of("$@"); at != pattern.npos; at = pattern.find_first_of("$@")) {
      text(std::string(pattern.substr(0, at)));
      node(u.src(static_cast<size_t>(pattern[at + 1] - '0')), pattern[at] == '$');
      pattern.remove_prefix(at + 2);
    }
    text(std::string(pattern));
  }

  void write(const UOp& u, const Task& task) {
    depth_ = task.depth;
    parts_.clear();
    if (const int p = precedence(u.op()))
      write_infix(u, p, task.bare);
    else if (is_alu(u.op()))
      write_alu(u);
    else if (is_movement(u.op()) || u.op() == Op::Reduce)
      write_method(u);
    else
      write_other(u);
    todo_.insert(todo_.end(), std::make_move_iterator(parts_.rbegin()),
                 std::make_move_iterator(parts_.rend()));
  }

  void write_infix(const UOp& u, int p, bool bare) {
    const int left = precedence(u.src(0).op()), right = precedence(u.src(1).op());
    if (!bare) text("(");
    node(u.src(0), left >= p);
    if (u.op() == Op::Add && is_negative(u.src(1))) {
      text(u.src(1).value().to_string());  // a-5
    } else {
      text(std::string(find_infix(u.op())->text));
      node(u.src(1), right > p);
    }
    if (!bare) text(")");
  }

  void write_alu(const UOp& u) {
    if (u.op() == Op::CmpNe && u.src(1).is_const() && u.src(1).value() == Scalar(true)) return form(u, "!@0");
    if (has_flag(u.op(), kComparison)) return form(u, fmt::format("($0{}$1)", find_infix(u.op())->text));
    switch (u.op()) {
      case Op::Where: return form(u, "($1 if $0 else $2)");
      case Op::Reciprocal: return form(u, "(1/@0)");
      case Op::Neg: return form(u, "(-@0)");
      case Op::MulAcc:
        text("(");
        node(u.src(0), precedence(u.src(0).op()) >= precedence(Op::Mul));
        text("*");
        node(u.src(1), false);
        text("+");
        node(u.src(2), precedence(u.src(2).op()) > precedence(Op::Add));
        return text(")");
      default: return call(lower_name(u.op()), u.srcs());
    }
  }

  static std::string lower_name(Op op) {
    std::string name(op_name(op));
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return name;
  }

  // x.reshape(2, 3), x.pad((1, 6), (0, 4)), x.reduce(Add, 2)
  void write_method(const UOp& u) {
    node(u.src(0), false);
    text("." + lower_name(u.op()) + "(");
    if (const auto* axes = std::get_if<AxesArg>(&u.arg())) {
      for (size_t i = 0; i < axes->span().size(); i++)
        text(fmt::format("{}{}", i ? ", " : "", axes->span()[i]));
    } else if (const auto* r = std::get_if<ReduceArg>(&u.arg())) {
      text(std::string(op_name(r->op)));
      if (r->n_axes) text(fmt::format(", {}", r->n_axes));
      for (const UOp& s : u.srcs().subspan(1)) {
        text(", ");
        node(s, true);
      }
    } else if (u.n_srcs() == 3 && u.src(1).n_srcs() == u.src(2).n_srcs()) {
      for (size_t i = 0; i < u.src(1).n_srcs(); i++) {
        const UOp pair[] = {u.src(1).src(i), u.src(2).src(i)};
        call(i ? ", " : "", pair);
      }
    } else {
      for (size_t i = 1; i < u.n_srcs(); i++) list(u.src(i).srcs());
    }
    text(")");
  }

  void write_other(const UOp& u) {
    switch (u.op()) {
      case Op::Const: return text(u.value().to_string());
      case Op::Param:
      case Op::Buffer: {
        const ParamArg& p = u.param();
        if (!p.name.empty()) return text(p.name);
        return text((u.op() == Op::Param ? "p" : "b") + signed_id(p.slot));
      }
      case Op::Range: return text("r" + signed_id(u.range().id));
      case Op::Special: return text(*u.arg_as<TextArg>().text);
      case Op::Cast:
        if (u.src(0).is_const() && u.src(0).dtype() == weak_dtype(u.src(0).value()))
          return node(u.src(0), true);
        return form(u, fmt::format("({})($0)", u.dtype()));
      case Op::Bitcast: return form(u, fmt::format("bitcast($0, {})", u.dtype()));
      case Op::Stack:
        text("{");
        list(u.srcs());
        return text("}");
      case Op::After: return node(u.src(0), false);
      case Op::Index:
        node(u.src(0), false);
        for (const UOp& i : u.srcs().subspan(1)) {
          text("[");
          node(i, true);
          text("]");
        }
        return;
      case Op::Load:
        if (u.n_srcs() == 1) return node(u.src(0), false);
        return call("load", u.srcs());
      default: return call(lower_name(u.op()), u.srcs());
    }
  }

  ExpressionLimits limits_;
  std::string out_;
  std::vector<Task> todo_, parts_;
  int depth_ = 0;
};

}  // namespace

std::string expression(const UOp& u, const ExpressionLimits& limits) { return Writer(limits).run(u); }
std::string expression(const UOp& u) { return expression(u, ExpressionLimits{}); }

}  // namespace lathe
