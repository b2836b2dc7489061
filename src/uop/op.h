// Op names, sets and table access; everything here is generated from ops.def.
#pragma once
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace lathe {

enum class Op : uint8_t {
#define OP(name, ...) name,
#include "uop/ops.def"
};

inline constexpr int kNumOps = 0
#define OP(...) +1
#include "uop/ops.def"
    ;
static_assert(kNumOps <= 128, "OpSet holds 128 ops");

// Flags of the table rows.
enum OpFlags : uint32_t {
  kUnary = 1 << 0,
  kBinary = 1 << 1,
  kTernary = 1 << 2,
  kCommutative = 1 << 3,
  kAssociative = 1 << 4,
  kIdempotent = 1 << 5,
  kReduceOp = 1 << 6,
  kComparison = 1 << 7,
  kMovement = 1 << 8,
  kDefine = 1 << 9,
  kIntOnly = 1 << 10,
  kNoFloat = 1 << 11,
  kTranscendental = 1 << 12,
  kOptionalArg = 1 << 13,  // the payload may be missing
  kAlu = kUnary | kBinary | kTernary,
};

// The alternatives of Arg, in its order.
enum class ArgKind : uint8_t { None, Scalar, Range, Reduce, Axes, Param, Kernel, Text, Device, Stage, Call };

enum class DTypeRule : uint8_t {
  Void,        // no value
  Arg,         // stated at construction
  Src0,        // that of source 0
  Join,        // join of all sources
  Bool,        // bool
  UpperFloat,  // least upper float of source 0
  Branches,    // join of sources 1 and 2
};

struct OpInfo {
  std::string_view name;
  int8_t arity;  // exact, or at_least(n)
  ArgKind arg;
  uint32_t flags;
  DTypeRule dtype_rule;
  std::string_view fold;      // name in eval.cpp, "none" where constants do not fold
  std::string_view spelling;  // C text, "" where renderers need their own rule
  std::string_view doc;
};

constexpr int8_t at_least(int n) { return static_cast<int8_t>(-1 - n); }
inline constexpr OpInfo kOpTable[kNumOps] = {
#define OP(name, arity, arg, flags, rule, fold, spelling, doc) \
  {#name, arity, ArgKind::arg, (flags), DTypeRule::rule, #fold, spelling, doc},
#include "uop/ops.def"
};

constexpr const OpInfo& info(Op op) { return kOpTable[static_cast<int>(op)]; }
// Fewest sources of an op; the exact number where the op table states one.
constexpr int min_sources(Op op) { return info(op).arity >= 0 ? info(op).arity : -1 - info(op).arity; }
constexpr bool has_flag(Op op, uint32_t flags) { return (info(op).flags & flags) != 0; }
constexpr bool is_alu(Op op) { return has_flag(op, kAlu); }
constexpr bool is_movement(Op op) { return has_flag(op, kMovement); }
constexpr std::string_view op_name(Op op) { return info(op).name; }
std::optional<Op> parse_op(std::string_view name);

// A set of ops as two words, usable in constant expressions.
struct OpSet {
  uint64_t words[2] = {0, 0};
  constexpr OpSet() = default;
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) insert(op);
  }
  constexpr void insert(Op op) {
    words[static_cast<int>(op) >> 6] |= uint64_t{1} << (static_cast<int>(op) & 63);
  }
  constexpr bool contains(Op op) const {
    return (words[static_cast<int>(op) >> 6] >> (static_cast<int>(op) & 63)) & 1;
  }
  constexpr bool empty() const { return !words[0] && !words[1]; }
  constexpr OpSet operator|(const OpSet& o) const {
    OpSet r = *this;
    r.words[0] |= o.words[0];
    r.words[1] |= o.words[1];
    return r;
  }
  constexpr bool operator==(const OpSet&) const = default;
};
constexpr OpSet ops_with(uint32_t flags) {
  OpSet s;
  for (int i = 0; i < kNumOps; i++)
    if (kOpTable[i].flags & flags) s.insert(static_cast<Op>(i));
  return s;
}
inline constexpr OpSet kAluOps = ops_with(kAlu);
inline constexpr OpSet kMovementOps = ops_with(kMovement);

}  // namespace lathe
