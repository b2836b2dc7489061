#include "golden/gates.h"
#include "golden/golden.h"
#include "uop/access_bounds.h"
#include "uop/literal.h"
#include "uop/parse.h"
#include "uop/print.h"
#include "uop/simplify.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace lathe::test {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> split(std::string_view s, std::string_view by) {
  std::vector<std::string_view> parts;
  for (size_t at = s.find(by); at != s.npos; at = s.find(by)) {
    parts.push_back(trimmed(s.substr(0, at)));
    s.remove_prefix(at + by.size());
  }
  parts.push_back(trimmed(s));
  return parts;
}

// T, F or a literal of the text form.
Scalar read_scalar(std::string_view text) {
  if (text == "T" || text == "F") return text == "T";
  const Literal literal = scan_literal(text).or_throw();
  if (literal.size != text.size()) value_error("'{}' is no literal", text);
  return literal.value;
}

// "lo<separator>hi"
Bounds read_bounds(std::string_view text, std::string_view separator) {
  const auto parts = split(text, separator);
  if (parts.size() != 2) value_error("'{}' is no pair of bounds", text);
  return {read_scalar(parts[0]), read_scalar(parts[1])};
}

std::string bounds_text(const Bounds& b) { return fmt::format("{}..{}", b.lo.to_string(), b.hi.to_string()); }

bool same_bounds(const Bounds& a, const Bounds& b) { return a.lo.equals(b.lo) && a.hi.equals(b.hi); }

// A point where the value is outside the bounds, as text.
std::string find_outside(const UOp& u, const Bounds& b, const Names& names) {
  const Evaluator value(u, names);
  std::string problem;
  for_each_point(names, [&](std::span<const Scalar> point) {
    const auto v = value(point);
    if (!v || v->is_invalid() || !(v->less(b.lo) || b.hi.less(*v))) return true;
    problem = fmt::format("the value {} is outside {}", v->to_string(), bounds_text(b));
    return false;
  });
  return problem;
}

struct Row {
  std::string_view input, output;
  std::optional<Bounds> bounds;
};

// "input => output {lo..hi}"
Row read_row(std::string_view text) {
  const auto sides = split(text, " => ");
  if (sides.size() != 2) value_error("'{}' has no ' => '", text);
  Row row{sides[0], sides[1], {}};
  if (row.output.ends_with('}'))
    if (const size_t open = row.output.rfind(" {"); open != row.output.npos) {
      row.bounds = read_bounds(row.output.substr(open + 2, row.output.size() - open - 3), "..");
      row.output = trimmed(row.output.substr(0, open));
    }
  if (row.output == "=") row.output = row.input;
  return row;
}

std::string check_rewrite(std::string_view kind, std::string_view text, const Names& names, int& now_hold) {
  const Row row = read_row(text);
  const UOp input = parse_expression(row.input, names).or_throw(),
            output = parse_expression(row.output, names).or_throw();
  std::string problems;
  auto problem = [&](const std::string& s) {
    problems += fmt::format("  {} => {}: {}\n", row.input, row.output, s);
  };
  if (const std::string s = find_difference(input, output, names); !s.empty())
    problem("the row is wrong: " + s);
  const UOp simple = simplify(input);
  if (const std::string s = find_difference(input, simple, names); !s.empty())
    problem(fmt::format("simplify gives {}, which is wrong: {}", expression(simple), s));
  const bool holds = reorder(simple) == reorder(output);
  if (kind != "simplify") {
    now_hold += holds && (!row.bounds || same_bounds(simple.bounds(), *row.bounds));
    return problems;
  }
  if (!holds) problem(fmt::format("simplify gives {}", expression(simple)));
  if (holds && row.bounds && !same_bounds(simple.bounds(), *row.bounds))
    problem(
        fmt::format("the range is {}, expected {}", bounds_text(simple.bounds()), bounds_text(*row.bounds)));
  return problems;
}

// "expression (lo,hi)"
std::string check_bounds(std::string_view text, const Names& names) {
  const size_t open = text.rfind(" (");
  if (open == text.npos || !text.ends_with(')')) value_error("'{}' has no (lo,hi)", text);
  const Bounds expected = read_bounds(text.substr(open + 2, text.size() - open - 3), ",");
  const UOp u = parse_expression(trimmed(text.substr(0, open)), names).or_throw();
  std::string problems;
  if (!same_bounds(u.bounds(), expected))
    problems += fmt::format("  {}: the range is {}\n", text, bounds_text(u.bounds()));
  if (u.has_shape() && u.shape().empty())
    if (const std::string s = find_outside(u, u.bounds(), names); !s.empty())
      problems += fmt::format("  {}: {}\n", text, s);
  return problems;
}

// "load => ok", "address = value => bad text"
std::string check_access_row(std::string_view text, const Names& names) {
  const auto sides = split(text, " => ");
  if (sides.size() != 2) value_error("'{}' has no ' => '", text);
  const auto parts = split(sides[0], " = ");
  UOp effect = parse_expression(parts[0], names).or_throw();
  if (parts.size() == 2) effect = store(effect.src(0), parse_expression(parts[1], names).or_throw());
  std::string verdict = "ok";
  try {
    check_accesses(sink({&effect, 1}));
  } catch (const InternalError& e) {
    verdict = fmt::format("bad {}", e.what());
  }
  const bool is_bad = sides[1].starts_with("bad"), same = is_bad == verdict.starts_with("bad");
  const std::string_view part = is_bad ? trimmed(sides[1].substr(3)) : "";
  if (same && verdict.find(part) != verdict.npos) return "";
  return fmt::format("  {}: {}\n", text, verdict);
}

std::set<std::string_view>& refusing_rules() {
  static std::set<std::string_view> seen;
  return seen;
}

}  // namespace

std::string check_refused_line(std::string_view level, std::string_view line) {
  const auto sides = split(line, " => ");
  if (sides.size() != 2) value_error("'{}' has no ' => '", line);
  std::string text(sides[0]);
  for (size_t at = text.find(" ; "); at != text.npos; at = text.find(" ; ")) text.replace(at, 3, "\n");
  const Result<UOp> parsed = parse(text);
  if (!parsed) return fmt::format("  {}: {}\n", line, parsed.error().text);
  const UOp& u = parsed.value();
  SpecLevel at{};
  for (const SpecLevel l : {SpecLevel::Tensor, SpecLevel::Kernel, SpecLevel::Program})
    if (spec_level_name(l) == level) at = l;
  if (spec_level_name(at) != level) value_error("there is no level '{}'", level);
  const auto violation = find_violation(u, at);
  const std::string rule(violation ? violation->rule : "ok");
  if (rule != sides[1]) return fmt::format("  {}: {}\n", line, rule);
  if (!violation) return "";
  refusing_rules().insert(violation->rule);
  const std::string want = fmt::format("UOp verification failed at {} on {} after a_pass ({} level): {}\n",
                                       violation->position, op_name(violation->node.op()), level, rule);
  try {
    verify(u, at, "a_pass");
  } catch (const InternalError& e) {
    const std::string_view got = e.what();
    if (got.starts_with(want) && got.find("  node: " + print_node(violation->node)) != got.npos) return "";
    return fmt::format("  {}: {}\n", line, got);
  }
  return fmt::format("  {}: verify accepts it\n", line);
}

std::string rules_without_a_row() {
  // What the text form cannot say; test/unit/spec_test.cpp has these.
  std::set<std::string_view> seen{"the number of sources is the one of the op",
                                  "shapes are Stacks of integers"};
  seen.merge(refusing_rules());
  std::string out;
  for (const SpecRule& rule : spec_rules())
    if (!seen.contains(rule.text)) out += fmt::format("  {}\n", rule.text);
  return out;
}

UOp reorder(const UOp& root) {
  std::unordered_map<const Node*, UOp> done;
  for (const UOp& u : toposort(root)) {
    if (u.is_const()) {
      done.emplace(u.node(), u.is_invalid() ? u : constant(u.value()));
      continue;
    }
    std::vector<UOp> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(done.at(s.node()));
    if (u.op() == Op::Cast && u.src(0).is_const()) {
      done.emplace(u.node(), constant(cast_scalar(u.src(0).value(), u.dtype())));
      continue;
    }
    if (!has_flag(u.op(), kCommutative)) {
      done.emplace(u.node(), u.with_srcs(srcs));
      continue;
    }
    // A sum of sums becomes a chain from the left, its terms in the order of their hashes.
    if (has_flag(u.op(), kAssociative)) {
      std::vector<UOp> terms;
      while (!srcs.empty()) {
        const UOp s = srcs.back();
        srcs.pop_back();
        if (s.op() == u.op())
          srcs.insert(srcs.end(), s.srcs().begin(), s.srcs().end());
        else
          terms.push_back(s);
      }
      srcs = std::move(terms);
    }
    std::sort(srcs.begin(), srcs.end(), [](const UOp& a, const UOp& b) { return a.hash() < b.hash(); });
    UOp chain = srcs[0];
    for (size_t i = 1; i < srcs.size(); i++) chain = alu(u.op(), {chain, srcs[i]});
    done.emplace(u.node(), std::move(chain));
  }
  return done.at(root.node());
}

std::string check_row_line(std::string_view kind, std::string_view line, int& n_rows, int& now_hold) {
  std::string problems;
  for (const std::string_view group : split(line, " || ")) {
    const size_t bar = group.find(" | ");
    if (bar == group.npos) value_error("'{}' has no ' | ' after the variables", group);
    const Names names = parse_names(trimmed(group.substr(0, bar))).or_throw();
    for (const std::string_view row : split(group.substr(bar + 3), " ; ")) {
      n_rows++;
      try {
        problems += kind == "bounds"     ? check_bounds(row, names)
                    : kind == "gate"     ? check_gate(row, names)
                    : kind == "accesses" ? check_access_row(row, names)
                                         : check_rewrite(kind, row, names, now_hold);
      } catch (const Error& e) {
        problems += fmt::format("  {}: {}\n", row, e.what());
      }
    }
  }
  return problems;
}

}  // namespace lathe::test
