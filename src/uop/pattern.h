// Rewrite rules as constexpr data, checked at compile time.
//
//     inline constexpr auto kSimple = rules(
//       rule(x + 0,          x),
//       rule(x * c0 * c1,    x * (c0 * c1)),
//       rule(where(b, x, x), x),
//       rule(x / x,          fn(div_self)).when(nonzero));
//
// Canonical IR has constants on the right of commutative ops; a left side that has one on the left is a
// compile error. A right side is a pattern over the same variables, whose literals become weak constants and
// whose constant parts are folded, or a function. A right-hand pattern keeps the dtype and the shape of the
// node it replaces (a cast or a broadcast is added where they differ); functions do so with Match::fit.
#pragma once
#include "base/error.h"
#include "uop/pattern_expr.h"
#include "uop/uop.h"

#include <array>
#include <bit>
#include <source_location>
#include <span>

namespace lathe {

// An object passed through a driver to the functions of rules, with a mark of its type.
class ContextRef {
 public:
  ContextRef() = default;
  template <class T>
    requires(!std::same_as<std::remove_cv_t<T>, ContextRef> && !std::is_const_v<T>)
  ContextRef(T& object) : object_(&object), type_(&kType<T>) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  T& as() const {
    CHECK(type_ == &kType<T>, "the rules were given a context of another type, or none");
    return *static_cast<T*>(object_);
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  template <class T>
  static constexpr char kType = 0;  // its address stands for the type
  void* object_ = nullptr;
  const void* type_ = nullptr;
};

struct RuleInfo;

// What the functions of a rule see. Bound nodes are sources of nodes that the caller keeps alive: references
// that `m[x]` gives are good until the function returns.
class Match {
 public:
  explicit Match(ContextRef context = {}) : context_(context) {}
  Match(const Match&) = delete;
  Match& operator=(const Match&) = delete;

  const UOp& root() const { return *root_; }
  const UOp& operator[](const pat::Pat<1>& variable) const {
    const int i = variable.n[0].var;
    CHECK(i >= 0 && (bound_ >> i & 1), "the left side of the rule does not bind this variable");
    return *vars_[i];
  }
  template <class T>
  T& ctx() const {
    return context_.as<T>();
  }
  // `u` with the dtype and the shape of the root: what a replacement must have unless a rule means to change
  // them.
  UOp fit(const UOp& u) const;
  // In a bottom-up rule, `return m.stop();`: the node is final as it stands, and its sources are not visited.
  UOp stop() const {
    stopped_ = true;
    return {};
  }
  const RuleInfo& rule() const { return *rule_; }

 private:
  friend class RuleIndex;
  friend class ReplacementBuilder;
  template <class R>
  friend class Matcher;
  friend class Rewriter;
  const UOp* root_ = nullptr;
  const UOp* vars_[pat::kMaxVars];
  uint32_t bound_ = 0;  // bit i: vars_[i] is set
  mutable bool stopped_ = false;
  const RuleInfo* rule_ = nullptr;
  ContextRef context_;
};

template <class R>
using RuleFunction = R (*)(const Match&);
using RuleCondition = bool (*)(const Match&);

// Where a rule stands and where its sides lie in the node array of its set.
struct RuleInfo {
  const char* file = "";
  const char* name = "";
  uint32_t line = 0, column = 0;
  uint16_t left = 0, n_left = 0;
  uint16_t right = 0, n_right = 0;  // n_right is 0 where the right side is a function
  RuleCondition when = nullptr;
};

template <class R>
struct RuleEntry {
  RuleInfo info;
  RuleFunction<R> function = nullptr;
};

template <class R, size_t NRules, size_t NNodes>
struct RuleSet {
  static_assert(NNodes < 65536, "RuleInfo holds 16-bit positions");
  std::array<RuleEntry<R>, NRules> rules{};
  std::array<pat::PatNode, NNodes> nodes{};
};

// Rule sets of any size, for composing them at run time.
template <class R>
struct RuleView {
  std::span<const RuleEntry<R>> rules;
  const pat::PatNode* nodes = nullptr;
  template <size_t N, size_t M>
  constexpr RuleView(const RuleSet<R, N, M>& set) : rules(set.rules), nodes(set.nodes.data()) {}  // NOLINT
};

// One form of a left side: orders decided. Steps are in preorder.
struct PatternForm {
  struct Step {
    uint8_t node = 0;    // position in the pattern
    uint8_t parent = 0;  // step whose source this is; 0 for the root too
    uint8_t src = 0;     // which source of it
    int8_t var = -1;
    bool again = false;  // an earlier step binds `var`
    uint32_t dtypes = 0;
  };
  Step steps[pat::kMaxPattern] = {};
  int n = 0;
  uint32_t bound = 0;  // bit i: variable i is bound
  uint32_t code = 0;   // what is left of the number that picks the form; 0 when the form exists

  constexpr uint32_t take(uint32_t radix) {
    const uint32_t digit = code % radix;
    code /= radix;
    return digit;
  }
};

constexpr void expand_pattern(const pat::PatNode* nodes, int at, int parent, uint32_t src,
                              PatternForm& form) {
  const pat::PatNode& node = nodes[at];
  const int self = form.n++;
  form.steps[self] = {static_cast<uint8_t>(at),
                      static_cast<uint8_t>(parent),
                      static_cast<uint8_t>(src),
                      node.var,
                      node.var >= 0 && (form.bound >> node.var & 1),
                      node.dtypes};
  if (node.var >= 0) form.bound |= uint32_t{1} << node.var;
  const uint32_t swap = node.either ? form.take(2) : 0;
  int child = at + 1;
  for (uint32_t i = 0; i < node.n_srcs; i++) {
    expand_pattern(nodes, child, self, i ^ swap, form);
    child += nodes[child].size;
  }
}

// Form number `code` of a left side; `form.code` stays non-zero where there is no form of that number.
constexpr PatternForm pattern_form(const pat::PatNode* nodes, uint32_t code) {
  PatternForm form;
  form.code = code;
  expand_pattern(nodes, 0, 0, 0, form);
  return form;
}

// Upper bound of the numbers of forms.
constexpr uint32_t pattern_form_limit(const pat::PatNode* nodes, int n) {
  uint32_t limit = 1;
  for (int i = 0; i < n; i++) {
    if (nodes[i].either) limit *= 2;
    if (limit > 4096) pattern_error::pattern_has_too_many_alternatives();
  }
  return limit;
}

// False when no canonical graph has this form: a commutative op with a constant on the left and something
// else on the right.
constexpr bool form_is_canonical(const pat::PatNode* nodes, const PatternForm& form) {
  for (int i = 0; i < form.n; i++) {
    if (!pat::all_commutative(nodes[form.steps[i].node])) continue;
    bool constant[2] = {false, false};
    for (int j = i + 1; j < form.n; j++)
      if (form.steps[j].parent == i && form.steps[j].src < 2)
        constant[form.steps[j].src] = pat::is_constant(nodes[form.steps[j].node]);
    if (constant[0] && !constant[1]) return false;
  }
  return true;
}

// Ops that only late lowering makes.
inline constexpr OpSet kLateOps = {Op::Sub, Op::Neg, Op::FDiv, Op::CDiv, Op::CMod, Op::CmpEq, Op::MulAcc};

namespace detail {

// Variables that a left side binds.
constexpr uint32_t check_left(const pat::PatNode* nodes, int n) {
  if (n > pat::kMaxPattern) pattern_error::pattern_is_too_long();
  const uint32_t limit = pattern_form_limit(nodes, n);
  uint32_t bound = 0;
  int forms = 0;
  for (uint32_t code = 0; code < limit; code++) {
    const PatternForm form = pattern_form(nodes, code);
    if (form.code || !form_is_canonical(nodes, form)) continue;
    if (nodes[form.steps[0].node].bare) pattern_error::left_side_is_just_a_variable();
    bound = form.bound;
    if (++forms > pat::kMaxAlternatives) pattern_error::pattern_has_too_many_alternatives();
  }
  if (!forms) pattern_error::commutative_op_needs_its_constant_on_the_right();
  return bound;
}

constexpr void check_right(const pat::PatNode* nodes, int n, uint32_t bound) {
  if (n > pat::kMaxPattern) pattern_error::pattern_is_too_long();
  for (int i = 0; i < n; i++) {
    const pat::PatNode& node = nodes[i];
    if (node.test || node.either) pattern_error::right_side_cannot_test_a_node();
    if (node.var >= 0) {
      if (!(bound >> node.var & 1)) pattern_error::right_side_uses_an_unbound_variable();
      if (node.size != 1 || node.dtypes != pat::kEveryDType ||
          (node.kind == pat::NodeKind::Node && !node.bare))
        pattern_error::right_side_cannot_test_a_node();
      continue;
    }
    if (node.kind != pat::NodeKind::Node) continue;
    if (!(node.ops == pat::just(pat::first_op(node.ops)))) pattern_error::right_side_needs_a_single_op();
    if (node.mode != pat::SrcMode::Exact) pattern_error::right_side_needs_exact_sources();
    const bool stated_by_op = info(pat::first_op(node.ops)).dtype_rule == DTypeRule::Arg;
    if (std::popcount(node.dtypes) != 1 && (stated_by_op || node.dtypes != pat::kEveryDType))
      pattern_error::right_side_needs_a_dtype();
  }
}

template <int N, size_t... I>
constexpr std::array<pat::PatNode, N> to_array(const pat::Pat<N>& p, std::index_sequence<I...>) {
  return {p.n[I]...};
}

// RuleNumber is the position in the set, for the compiler's message.
template <size_t RuleNumber>
constexpr void check_not_late(const pat::PatNode* nodes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const OpSet& ops = nodes[i].ops;
    if (nodes[i].kind == pat::NodeKind::Node && (ops | kLateOps) == kLateOps)
      pattern_error::late_op_needs_late_rules();
  }
}

}  // namespace detail

template <class R, int L, int N>
struct Rule {
  using Result = R;
  static constexpr int kLeft = L, kRight = N;
  pat::Pat<L> left;
  std::array<pat::PatNode, N> right;
  RuleFunction<R> function = nullptr;
  RuleInfo info;

  // A condition on the match as a whole.
  constexpr Rule when(RuleCondition condition) const {
    if (info.when) pattern_error::rule_has_two_conditions();
    Rule r = *this;
    r.info.when = condition;
    return r;
  }
  // A name for traces and statistics; file and line are there anyway.
  constexpr Rule named(const char* name) const {
    Rule r = *this;
    r.info.name = name;
    return r;
  }
};

template <class R>
struct RuleFn {
  RuleFunction<R> function;
};
// A function, or a lambda without captures, as a right side: `UOp f(const Match&)`. An empty result, or the
// root itself, means no rewrite: the next rule is tried.
template <class F>
constexpr auto fn(F f) {
  using R = std::remove_cvref_t<decltype(f(std::declval<const Match&>()))>;
  return RuleFn<R>{static_cast<RuleFunction<R>>(f)};
}

template <int L, pat::Operand Right>
consteval auto rule(const pat::Pat<L>& left, const Right& right,
                    std::source_location at = std::source_location::current()) {
  using Side = pat::SourceOf<Right>;
  const Side side = pat::to_source(right);
  detail::check_right(side.n, Side::kSize, detail::check_left(left.n, L));
  if (L == Side::kSize && pat::same_pattern(left.n, side.n)) pattern_error::right_side_equals_left_side();
  return Rule<UOp, L, Side::kSize>{left,
                                   detail::to_array(side, std::make_index_sequence<Side::kSize>{}),
                                   nullptr,
                                   {at.file_name(), "", at.line(), at.column()}};
}
template <int L, class R>
consteval auto rule(const pat::Pat<L>& left, RuleFn<R> right,
                    std::source_location at = std::source_location::current()) {
  detail::check_left(left.n, L);
  return Rule<R, L, 0>{left, {}, right.function, {at.file_name(), "", at.line(), at.column()}};
}

namespace detail {

template <class R, bool Late, size_t... I, class... Rules>
constexpr auto collect(std::index_sequence<I...>, const Rules&... list) {
  static_assert((std::same_as<typename Rules::Result, R> && ...),
                "a rule of another result type than its set");
  RuleSet<R, sizeof...(Rules), (size_t{0} + ... + size_t{Rules::kLeft + Rules::kRight})> set;
  size_t at = 0;
  auto add = [&]<size_t Number>(std::integral_constant<size_t, Number>, const auto& rule) {
    if (!Late) {
      check_not_late<Number>(rule.left.n, rule.left.kSize);
      check_not_late<Number>(rule.right.data(), rule.right.size());
    }
    RuleEntry<R>& entry = set.rules[Number];
    entry.info = rule.info;
    entry.function = rule.function;
    entry.info.left = static_cast<uint16_t>(at);
    entry.info.n_left = rule.left.kSize;
    for (size_t i = 0; i < entry.info.n_left; i++) set.nodes[at++] = rule.left.n[i];
    entry.info.right = static_cast<uint16_t>(at);
    entry.info.n_right = static_cast<uint16_t>(rule.right.size());
    for (size_t i = 0; i < entry.info.n_right; i++) set.nodes[at++] = rule.right[i];
  };
  (add(std::integral_constant<size_t, I>{}, list), ...);
  return set;
}

}  // namespace detail

// Rules that give another result than a UOp: text, a list of UOps, a bool.
template <class R, class... Rules>
consteval auto rules_for(const Rules&... list) {
  return detail::collect<R, true>(std::index_sequence_for<Rules...>{}, list...);
}
// Rules over graphs of any stage but late lowering: ops of kLateOps are compile errors.
template <class... Rules>
consteval auto rules(const Rules&... list) {
  return detail::collect<UOp, false>(std::index_sequence_for<Rules...>{}, list...);
}
// Rules for late lowering, where any op may occur.
template <class... Rules>
consteval auto late_rules(const Rules&... list) {
  return detail::collect<UOp, true>(std::index_sequence_for<Rules...>{}, list...);
}

// The rules of `l`, then those of `r`.
template <class R, size_t N, size_t K, size_t M, size_t J>
constexpr RuleSet<R, N + M, K + J> operator+(const RuleSet<R, N, K>& l, const RuleSet<R, M, J>& r) {
  RuleSet<R, N + M, K + J> set;
  for (size_t i = 0; i < N; i++) set.rules[i] = l.rules[i];
  for (size_t i = 0; i < M; i++) {
    set.rules[N + i] = r.rules[i];
    set.rules[N + i].info.left = static_cast<uint16_t>(set.rules[N + i].info.left + K);
    set.rules[N + i].info.right = static_cast<uint16_t>(set.rules[N + i].info.right + K);
  }
  for (size_t i = 0; i < K; i++) set.nodes[i] = l.nodes[i];
  for (size_t i = 0; i < J; i++) set.nodes[K + i] = r.nodes[i];
  return set;
}

}  // namespace lathe
