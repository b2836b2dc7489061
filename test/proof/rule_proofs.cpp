// Proves rewrite rules: of every declarative rule, for every choice of ops, orders and dtypes it applies to,
// z3 is asked for values that tell the two sides apart.
#include "base/mmap.h"
#include "codegen/passes.h"
#include "proof/instances.h"
#include "uop/print.h"
#include "uop/simplify.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

namespace lathe::proof {
namespace {

struct Options {
  unsigned timeout_ms = 5000;
  bool wide = false;     // 16 to 64 bits and float32 too
  bool verbose = false;  // instances
  std::string only;      // rules whose place has this text
  std::string report;    // file for the list of what is not proved
};

enum class Verdict { Proved, Unknown, Refuted };

struct Outcome {
  Verdict verdict = Verdict::Proved;
  std::string reason;  // of another verdict
  std::string assumption;
};

struct RuleReport {
  std::string place, text, reason;
  Verdict verdict = Verdict::Proved;
  int instances = 0;
  std::set<std::string> dtypes, assumptions;
};

std::string place_of(const RuleInfo& r) {
  std::string_view file = r.file;
  while (file.starts_with("../")) file.remove_prefix(3);
  return fmt::format("{}:{}", file, r.line);
}

// Unbounded integers where nothing in the graph has a width, bits or a fraction.
Model model_of(const Instance& instance, DType typed, bool wide) {
  Model m;
  for (const UOp& u : instance.steps) {
    const bool bits =
        u.op() == Op::And || u.op() == Op::Or || u.op() == Op::Xor || u.op() == Op::Shl || u.op() == Op::Shr;
    if (is_float(u.dtype()) || (is_int(u.dtype()) && (bits || u.dtype() != DType::WeakInt))) m.exact = false;
  }
  if (is_float(typed) || typed == DType::Void) {
    m.leaf_bits = 3;  // exact in the small format, products of two too
    m.weak_bits = 16;
    m.real_floats = wide && typed != DType::Void;
    if (m.real_floats) m.weak_float = float_format(typed);
    const bool any_float = std::any_of(instance.steps.begin(), instance.steps.end(),
                                       [](const UOp& u) { return is_float(u.dtype()); });
    if (!any_float) m = {m.exact, 32, 10};
  } else {
    const auto width = static_cast<unsigned>(bit_width(typed));
    m.leaf_bits = width + 2;
    m.weak_bits = 3 * width + 8;
  }
  return m;
}

std::string counter_example(const z3::model& model) {
  std::string text;
  for (unsigned i = 0; i < model.num_consts(); i++) {
    const z3::func_decl f = model.get_const_decl(i);
    text += fmt::format("{}{} = {}", i ? ", " : "", f.name().str(), model.get_const_interp(f).to_string());
  }
  return text;
}

class Prover {
 public:
  explicit Prover(const Options& options) : options_(options) {}

  // A few constants are put in one by one, which solvers like better than a choice.
  Outcome prove(const Instance& instance, DType typed) {
    constexpr size_t kFew = 150;
    if (instance.accepted.empty() || instance.accepted.size() > kFew) return prove(instance, typed, nullptr);
    Outcome out;
    for (const std::vector<Scalar>& constants : instance.accepted) {
      Outcome o = prove(instance, typed, &constants);
      if (!o.assumption.empty()) out.assumption = o.assumption;
      if (o.verdict == Verdict::Proved) continue;
      o.reason += " for";
      for (const Scalar& c : constants) o.reason += " " + c.to_string();
      return o;
    }
    return out;
  }

 private:
  Outcome prove(const Instance& instance, DType typed, const std::vector<Scalar>* constants) {
    z3::context z;
    Semantics semantics(z, model_of(instance, typed, options_.wide));
    const std::vector<Value> steps = left_side(instance, semantics, constants);
    // What literals were taken for granted holds of the left side; the right one is new.
    z3::expr_vector committed(z);
    for (const z3::expr& e : semantics.committed) committed.push_back(e);
    const Value right = right_side(instance, steps, semantics);
    const Value& left = steps[0];
    const z3::expr equal =
        right.defined && left.poison == right.poison && (left.poison || semantics.same(left, right));
    struct Try {
      const char* assumption;
      std::vector<const z3::expr_vector*> premises;
    };
    Outcome out;
    for (const Try& t :
         {Try{"", {}}, Try{"operands are not Invalid", {&semantics.valid}},
          Try{"no float leaves its range in between", {&semantics.valid, &semantics.in_range}}}) {
      if (!t.premises.empty() && t.premises.back()->empty()) continue;
      z3::solver solver(z);
      z3::params params(z);
      params.set("timeout", options_.timeout_ms);
      solver.set(params);
      for (const z3::expr& e : semantics.bounds) solver.add(e);
      for (const z3::expr& e : committed) solver.add(e);
      for (const z3::expr_vector* p : t.premises)
        for (const z3::expr& e : *p) solver.add(e);
      if (!constants && !instance.accepted.empty()) solver.add(accepted(instance, steps, semantics));
      solver.add(left.defined && !equal);
      out.assumption = t.assumption;
      switch (solver.check()) {
        case z3::unsat: out.verdict = Verdict::Proved; return out;
        case z3::unknown:
          out.verdict = Verdict::Unknown;
          out.reason = "z3: " + solver.reason_unknown();
          break;
        case z3::sat:
          out.verdict = Verdict::Refuted;
          out.reason = counter_example(solver.get_model());
          break;
      }
    }
    return out;
  }

  static std::vector<Value> left_side(const Instance& instance, Semantics& semantics,
                                      const std::vector<Scalar>* constants) {
    const PatternForm& form = instance.form;
    std::vector<std::optional<Value>> values(instance.steps.size());
    const auto node = [&](int i) -> const pat::PatNode& {
      return instance.nodes[instance.rule->left + form.steps[i].node];
    };
    for (int i = 0; i < form.n; i++) {
      const UOp& u = instance.steps[static_cast<size_t>(i)];
      const pat::PatNode& n = node(i);
      auto& v = values[static_cast<size_t>(i)];
      for (int k = 0; k < i && form.steps[i].again; k++)
        if (form.steps[k].var == form.steps[i].var) v = values[static_cast<size_t>(k)];
      if (v || (n.kind == pat::NodeKind::Node && !n.bare && !u.is_const())) continue;
      const auto number = std::find(instance.numbers.begin(), instance.numbers.end(), i);
      if (constants && number != instance.numbers.end())
        v = semantics.literal(
            constant(u.dtype(), (*constants)[static_cast<size_t>(number - instance.numbers.begin())]));
      else if (n.kind == pat::NodeKind::Number)
        v = semantics.number(u, fmt::format("c{}", i));
      else if (u.is_const())
        v = semantics.literal(u);
      else
        v = semantics.variable(u, u.param().name);
    }
    for (int i = form.n - 1; i >= 0; i--) {
      if (values[static_cast<size_t>(i)]) continue;
      std::vector<Value> srcs;
      for (uint32_t s = 0; s < instance.steps[static_cast<size_t>(i)].n_srcs(); s++)
        for (int k = i + 1; k < form.n; k++)
          if (form.steps[k].parent == i && form.steps[k].src == s)
            srcs.push_back(*values[static_cast<size_t>(k)]);
      values[static_cast<size_t>(i)] = semantics.apply(instance.steps[static_cast<size_t>(i)], srcs);
    }
    std::vector<Value> out;
    for (auto& v : values) out.push_back(*v);
    return out;
  }

  static z3::expr accepted(const Instance& instance, std::span<const Value> steps, Semantics& semantics) {
    z3::expr any = steps[0].poison.ctx().bool_val(false);
    for (const std::vector<Scalar>& tuple : instance.accepted) {
      z3::expr all = any.ctx().bool_val(true);
      for (size_t k = 0; k < tuple.size(); k++)
        all = all && semantics.equals(steps[static_cast<size_t>(instance.numbers[k])], tuple[k]);
      any = any || all;
    }
    return any;
  }

  const Options& options_;
};

// The dtypes of variables and constants.
std::string dtypes_of(const Instance& instance) {
  std::set<std::string> names;
  for (const UOp& u : instance.steps)
    if (u.n_srcs() == 0 || u.op() == Op::Param)
      if (!u.is_invalid()) names.insert(std::string(dtype_full_name(u.dtype())));
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : " ") + n;
  return text;
}

RuleReport check(const RuleList& list, size_t index, const Options& options) {
  RuleReport report;
  report.place = place_of(list.rules.rules[index].info);
  std::vector<DType> typed = {DType::Void, DType::Int8, DType::UInt8, DType::Float32};
  if (options.wide)
    typed.insert(typed.end(), {DType::Int16, DType::UInt16, DType::Int32, DType::UInt32, DType::Int64,
                               DType::UInt64, DType::Float16});
  Prover prover(options);
  try {
    std::string left_out;
    for (const DType d : typed) {
      const InstanceCount count = for_each_instance(list, index, d, [&](const Instance& instance) {
        if (report.verdict == Verdict::Refuted) return;
        if (report.text.empty()) report.text = expression(instance.steps[0]);
        Outcome o;
        try {
          o = prover.prove(instance, d);
        } catch (const Unsupported& e) {
          o = {Verdict::Unknown, e.what(), ""};
        } catch (const z3::exception& e) {
          o = {Verdict::Unknown, std::string("z3: ") + e.msg(), ""};
        }
        const std::string dtypes = dtypes_of(instance);
        if (options.verbose) std::fflush(stdout);
        if (options.verbose)
          std::printf("    %d %s [%s] %s %s\n", static_cast<int>(o.verdict),
                      expression(instance.steps[0]).c_str(), dtypes.c_str(), o.assumption.c_str(),
                      o.reason.c_str());
        if (o.verdict == Verdict::Proved) {
          report.dtypes.insert(dtypes);
          if (!o.assumption.empty()) report.assumptions.insert(o.assumption);
        } else if (o.verdict > report.verdict) {
          report.verdict = o.verdict;
          report.reason = fmt::format("{} [{}]: {}", expression(instance.steps[0]), dtypes, o.reason);
        }
      });
      report.instances += count.made;
      if (!count.left_out.empty()) left_out = count.left_out;
    }
    if (report.instances == 0) {
      report.verdict = Verdict::Unknown;
      report.reason = left_out.empty() ? "it applies to no graph of scalars of these dtypes" : left_out;
    } else if (!left_out.empty()) {
      report.assumptions.insert("what holds of a scalar holds of every lane");
    }
  } catch (const Unsupported& e) {
    report.verdict = Verdict::Unknown;
    report.reason = e.what();
  }
  return report;
}

const char* name_of(Verdict v) {
  return v == Verdict::Proved ? "proved " : v == Verdict::Unknown ? "unknown" : "REFUTED";
}

template <class List>
std::string joined(const List& list, const char* between) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : between) + s;
  return text;
}

// docs/proofs.md
void write_report(const std::string& file, const std::vector<RuleReport>& all, int functions) {
  size_t proved = 0;
  std::map<std::string, int> assumed;
  for (const RuleReport& r : all) {
    proved += r.verdict == Verdict::Proved;
    if (r.verdict == Verdict::Proved)
      for (const std::string& a : r.assumptions) assumed[a]++;
  }
  std::string text = fmt::format(
      "# Proofs of rewrite rules\n\n"
      "`test/proof` asks z3 for values that tell the two sides of a rule apart. It takes every declarative "
      "rule of the simplifier, of "
      "`decompose_int` and of `use_native_ops`: those whose right side is a pattern. The {} rules with "
      "functions are not "
      "covered; their tests evaluate both sides.\n\n"
      "    tools/setup --nightly\n"
      "    cmake --preset release -DLATHE_PROOFS=ON && cmake --build build/release --target rule_proofs\n"
      "    build/release/test/rule_proofs --report docs/proofs.md\n\n"
      "A rule is instantiated for every order of commutative operands, every op of its sets and every choice "
      "of dtypes that the spec "
      "allows and the matcher accepts, conditions included: the matcher itself is asked. Equal means: both "
      "sides are Invalid or "
      "neither is, and then they have the same value. Where the left side divides by zero anything goes. "
      "Zeros of either sign are "
      "the same, as are NaNs.\n\n"
      "| type | model |\n|---|---|\n"
      "| `weakint` | unbounded integers; with bit operations, or next to another type, bit vectors in which "
      "nothing wraps |\n"
      "| integers | 8 bits, signed and unsigned; `--wide` takes those of 16 to 64 bits too |\n"
      "| floats | IEEE with 5 bits of exponent and 6 of significand; `--wide` takes the formats of half and "
      "float32. `exp2`, "
      "`log2`, `sin`, `pow` are unknown functions |\n"
      "| constants | any, unless the rule has a condition: then each constant of 8 bits, or some powers of "
      "two and special values, for which the condition holds |\n\n"
      "Left out: variables of weak types next to floats that are not, which only a Cast brings together.\n\n"
      "Assumed throughout: a weak integer that is compared with, divided by or chosen beside one with a "
      "width is one of its values "
      "(literals are committed first).",
      functions);
  for (const auto& [a, n] : assumed) text += fmt::format(" In {} rules: {}.", n, a);
  text += fmt::format("\n\n{} of {} declarative rules are proved ({:.1f} %).\n", proved, all.size(),
                      100.0 * static_cast<double>(proved) / static_cast<double>(all.size()));
  if (proved < all.size()) text += "\n## Not proved\n\n| rule | left side | why |\n|---|---|---|\n";
  for (const RuleReport& r : all)
    if (r.verdict != Verdict::Proved)
      text += fmt::format("| `{}` | {} | {}{} |\n", r.place, r.text.empty() ? "–" : "`" + r.text + "`",
                          r.verdict == Verdict::Refuted ? "refuted: " : "", r.reason);
  write_file_atomically(file, text);
}

int run(const Options& options) {
  Target all, none;
  for (int o = 0; o < kNumOps; o++) all.native_ops.insert(static_cast<Op>(o));
  all.has_fma = true;
  LateContext with{all}, without{none};
  const RuleList lists[] = {
      {"symbolic", symbolic_rule_set(), SpecLevel::Kernel, {ContextRef()}},
      {"reduce", reduce_rule_set(), SpecLevel::Kernel, {ContextRef()}},
      {"decompose_int", int_rule_set(), SpecLevel::Kernel, {ContextRef()}},
      {"use_native_ops", native_op_rule_set(), SpecLevel::Program, {ContextRef(with), ContextRef(without)}}};
  int total = 0, functions = 0, proved = 0, refuted = 0;
  std::vector<RuleReport> all_reports;
  for (const RuleList& list : lists)
    for (size_t i = 0; i < list.rules.rules.size(); i++) {
      const RuleInfo& info = list.rules.rules[i].info;
      if (!info.n_right) functions++;
      if (!info.n_right || place_of(info).find(options.only) == std::string::npos) continue;
      const RuleReport r = check(list, i, options);
      total++;
      proved += r.verdict == Verdict::Proved;
      refuted += r.verdict == Verdict::Refuted;
      std::printf("%s %s  %s, %d graphs%s%s%s%s\n", name_of(r.verdict), r.place.c_str(), r.text.c_str(),
                  r.instances, r.assumptions.empty() ? "" : "; where ",
                  joined(r.assumptions, " and ").c_str(), r.reason.empty() ? "" : "\n        ",
                  r.reason.c_str());
      std::fflush(stdout);
      all_reports.push_back(r);
    }
  std::printf(
      "%d of %d declarative rules proved (%.1f %%), %d refuted; %d rules have functions as right sides\n",
      proved, total, total ? 100.0 * proved / total : 0, refuted, functions);
  if (!options.report.empty()) write_report(options.report, all_reports, functions);
  return refuted ? 1 : 0;
}

}  // namespace
}  // namespace lathe::proof

int main(int argc, char** argv) {
  lathe::proof::Options options;
  bool wrong = false;
  for (int i = 1; i < argc; i++) {
    const std::string_view arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--wide")
      options.wide = true;
    else if (arg == "--verbose")
      options.verbose = true;
    else if (arg == "--rule" && more)
      options.only = argv[++i];
    else if (arg == "--timeout" && more)
      options.timeout_ms = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--report" && more)
      options.report = argv[++i];
    else
      wrong = true;
  }
  if (wrong) {
    std::fputs(
        "rule_proofs [--rule FILE:LINE] [--wide] [--verbose] [--timeout MS] [--report FILE]\n"
        "Proves the declarative rewrite rules with z3. Exit codes: 0 none refuted, 1 some, 2 wrong usage.\n",
        stderr);
    return 2;
  }
  return lathe::proof::run(options);
}
