// The one IR: immutable, hash-consed nodes behind 8-byte handles.
#pragma once
#include "base/error.h"
#include "base/hash.h"
#include "base/small_vec.h"
#include "uop/arg.h"
#include "uop/dtype.h"
#include "uop/op.h"
#include "uop/scalar.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

class UOp;
class SInt;
using Shape = SmallVec<SInt, 6>;
struct Bounds;
struct Node;
using RangeSet = std::vector<const Node*>;

struct Node {
  mutable std::atomic<uint32_t> refs;
  Op op;
  DType dtype;
  uint16_t n_srcs;
  // Bit i: the rules of the matcher with bit i of `fixed_point_bit` change nothing here or below.
  mutable std::atomic<uint32_t> fixed_points;
  Hash128 hash;
  Arg arg;
  const Shape* shape;         // interned; null = no shape
  const std::string* device;  // interned; never null
  mutable std::atomic<const Bounds*> bounds;
  mutable std::atomic<const RangeSet*> ranges;  // interned
  const UOp* src_begin() const { return reinterpret_cast<const UOp*>(this + 1); }
};
static_assert(sizeof(Node) <= 96, "every node of every graph pays for each byte here");

// Owning handle (intrusive count). Equality is identity: equal (op, dtype, srcs, arg) is one node.
class UOp {
 public:
  UOp() = default;
  UOp(const UOp& o) noexcept : node_(o.node_) { retain(); }
  UOp(UOp&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  explicit UOp(const Node* n) noexcept : node_(n) { retain(); }
  UOp& operator=(const UOp& o) noexcept {
    UOp copy(o);
    std::swap(node_, copy.node_);
    return *this;
  }
  UOp& operator=(UOp&& o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~UOp() {
    if (node_) release();
  }

  // The only way to make a node. Derives the dtype where the op's rule does (then `dtype` must be Void or
  // agree) and the shape. Shapes that do not broadcast and bad arities are UserErrors: the tensor layer
  // checks earlier with better text.
  static UOp make(Op op, DType dtype, std::span<const UOp> srcs, Arg arg = {});
  static UOp make(Op op, DType dtype, std::initializer_list<UOp> srcs, Arg arg = {}) {
    return make(op, dtype, std::span<const UOp>(srcs.begin(), srcs.size()), std::move(arg));
  }
  // dtype derived from the sources.
  static UOp make(Op op, std::initializer_list<UOp> srcs, Arg arg = {}) {
    return make(op, DType::Void, std::span<const UOp>(srcs.begin(), srcs.size()), std::move(arg));
  }

  explicit operator bool() const { return node_ != nullptr; }
  const Node* node() const { return node_; }
  bool operator==(const UOp& o) const { return node_ == o.node_; }

  Op op() const { return node_->op; }
  DType dtype() const { return node_->dtype; }
  std::span<const UOp> srcs() const { return {node_->src_begin(), node_->n_srcs}; }
  const UOp& src(size_t i) const { return node_->src_begin()[i]; }
  size_t n_srcs() const { return node_->n_srcs; }
  const Arg& arg() const { return node_->arg; }
  const Hash128& hash() const { return node_->hash; }  // structural: equal across runs and processes
  template <class T>
  const T& arg_as() const {  // internal error when the arg is another struct
    const T* p = std::get_if<T>(&node_->arg);
    CHECK(p, "{} carries another kind of arg", op_name(op()));
    return *p;
  }
  const ParamArg& param() const { return *arg_as<ParamPtr>(); }
  const RangeArg& range() const { return arg_as<RangeArg>(); }

  // Same op with other sources / dtype / arg. `with_srcs` derives the dtype again only if some source's dtype
  // changed (Invalid has any).
  UOp with_srcs(std::span<const UOp> srcs) const;
  UOp with_arg(Arg arg) const;
  UOp with_dtype(DType d) const;

  // Shape is known at construction for every node that has one.
  bool has_shape() const { return node_->shape != nullptr; }
  const Shape& shape() const {  // internal error when the node has none
    CHECK(node_->shape, "{} has no shape", op_name(op()));
    return *node_->shape;
  }
  int ndim() const;
  // "" for values without a device (constants, ranges), "CPU,CPU:1" for one over several.
  const std::string& device() const { return *node_->device; }
  // Inclusive bounds of the value (integers and bools exact; floats as wide as needed). Cached on the node.
  const Bounds& bounds() const;
  // Open Ranges below this node, sorted by (id, type). Cached on the node; borrowed: they live as long as
  // this node.
  const RangeSet& ranges() const;

  // Constants.
  bool is_const() const { return op() == Op::Const; }
  bool is_const(const Scalar& numeric) const;  // numeric equality, so 0 matches 0.0 and false
  bool is_invalid() const;
  const Scalar& value() const { return arg_as<Scalar>(); }

 private:
  void retain() const noexcept {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  void release() noexcept;
  const Node* node_ = nullptr;
};
static_assert(sizeof(UOp) == 8);

// A size: a number, or a weakint node whose value is known when a kernel is launched.
class SInt {
 public:
  SInt(int64_t v = 0) : value_(v) {}  // NOLINT(google-explicit-constructor)
  SInt(int v) : value_(v) {}          // NOLINT(google-explicit-constructor)
  SInt(UOp u);  // NOLINT(google-explicit-constructor) simplified; a Const becomes a number
  bool is_const() const { return !node_; }
  int64_t value() const {
    CHECK(!node_, "symbolic size where a number is needed");
    return value_;
  }
  UOp uop() const;       // a Const or the symbolic node
  int64_t vmax() const;  // the number, or the largest value of the symbolic node
  bool operator==(const SInt& o) const { return value_ == o.value_ && node_ == o.node_; }

 private:
  int64_t value_ = 0;
  UOp node_;
};
SInt operator+(const SInt& a, const SInt& b);
SInt operator-(const SInt& a, const SInt& b);
SInt operator*(const SInt& a, const SInt& b);
SInt floordiv(const SInt& a, const SInt& b);
SInt prod(const Shape& s);
std::string to_string(const Shape& s);  // "(2, 3)", "(4,)", "()"

struct Bounds {
  Scalar lo, hi;
  bool is_single() const { return lo == hi; }
};

// ---- builders
UOp constant(const Scalar& v);           // weak dtype by kind
UOp constant(DType d, const Scalar& v);  // v on the grid of d
UOp invalid();
UOp alu(Op op, std::initializer_list<UOp> srcs);  // dtype and shape derived
UOp cast(const UOp& x, DType d);                  // no node when already of that dtype
UOp bitcast(const UOp& x, DType d);
UOp range(const UOp& end, int id, AxisType type);
inline UOp range(int64_t end, int id, AxisType type) { return range(constant(Scalar(end)), id, type); }
UOp stack(std::span<const UOp> lanes);
UOp index(const UOp& x, std::span<const UOp> coords);
inline UOp index(const UOp& x, const UOp& i) { return index(x, std::span<const UOp>(&i, 1)); }
UOp load(const UOp& address);
UOp store(const UOp& address, const UOp& value);
UOp sink(std::span<const UOp> srcs, Arg arg = {});
UOp call(const UOp& body, std::span<const UOp> arguments, CallArg arg = {});
UOp call_result(const UOp& call, size_t i);  // the value of source `i` of a function's body
UOp shape_node(const Shape& s);              // a Stack of sizes (empty Stack for rank 0)
Shape shape_from_node(const UOp& stack);
// Process-wide unique Buffer of `shape` on `device`.
UOp new_buffer(const Shape& shape, DType dtype, const std::string& device,
               AddrSpace space = AddrSpace::Global);
// A symbolic variable: a rank-0 Param in ALU space, slot -1, with inclusive bounds.
UOp variable(const std::string& name, int64_t lo, int64_t hi, DType dtype = DType::WeakInt,
             int64_t multiple_of = 1);
UOp param(int slot, const Shape& shape, DType dtype, const std::string& device = "");

// A value over several devices (Op::Multi) from its part on each: equal pieces along `axis`, or all of it.
UOp multi(std::span<const UOp> parts, std::optional<int> axis);
std::optional<int> multi_axis(const UOp& multi);
// Whether a device is several: names with commas between.
inline bool names_several(const std::string& device) { return device.find(',') != std::string::npos; }
std::vector<std::string> split_devices(const std::string& device);
std::string join_devices(std::span<const std::string> names);

// Movement. Sizes must fit; UserErrors name the shapes.
UOp reshape(const UOp& x, const Shape& s);  // no node when the shape is the same
UOp permute(const UOp& x, std::span<const int> order);
UOp prepend(const UOp& x, const Shape& axes);  // Expand: new leading axes
UOp broadcast_to(const UOp& x,
                 const Shape& s);  // size-1 axes and missing leading axes grow (reshape, Expand, permute)
UOp pad(const UOp& x, const Shape& before, const Shape& total);
UOp shrink(const UOp& x, const Shape& offset, const Shape& size);
UOp flip(const UOp& x, std::span<const int> flags);  // one 0/1 flag an axis
UOp reduce(const UOp& x, Op op,
           std::span<const int> axes);  // folds `axes`, which disappear; size-1 axes are reshaped away

Shape broadcast_shapes(std::span<const Shape> shapes);

// Integer and float operators for building graphs. `/` and `%` are floor operations on integers; on floats
// `/` multiplies by the reciprocal. Comparisons are functions because `==` is identity.
UOp operator+(const UOp& a, const UOp& b);
UOp operator-(const UOp& a, const UOp& b);  // a + b * -1
UOp operator-(const UOp& a);                // a * -1
UOp operator*(const UOp& a, const UOp& b);
UOp operator/(const UOp& a, const UOp& b);
UOp operator%(const UOp& a, const UOp& b);
UOp operator&(const UOp& a, const UOp& b);
UOp operator|(const UOp& a, const UOp& b);
UOp operator^(const UOp& a, const UOp& b);
UOp operator<<(const UOp& a, const UOp& b);
UOp operator>>(const UOp& a, const UOp& b);
UOp lt(const UOp& a, const UOp& b);
UOp ge(const UOp& a, const UOp& b);  // !(a < b): for integers only
UOp ne(const UOp& a, const UOp& b);
UOp eq(const UOp& a, const UOp& b);  // !(a != b)
UOp logical_not(const UOp& a);       // a != true
UOp maximum(const UOp& a, const UOp& b);
UOp minimum(const UOp& a, const UOp& b);
UOp where(const UOp& c, const UOp& a, const UOp& b);
inline UOp operator+(const UOp& a, int64_t b) { return a + constant(Scalar(b)); }
inline UOp operator-(const UOp& a, int64_t b) { return a + constant(Scalar(-b)); }
inline UOp operator*(const UOp& a, int64_t b) { return a * constant(Scalar(b)); }
inline UOp operator/(const UOp& a, int64_t b) { return a / constant(Scalar(b)); }
inline UOp operator%(const UOp& a, int64_t b) { return a % constant(Scalar(b)); }
inline UOp lt(const UOp& a, int64_t b) { return lt(a, constant(Scalar(b))); }
inline UOp ge(const UOp& a, int64_t b) { return ge(a, constant(Scalar(b))); }

// ---- traversal
// Nodes of the graph of `root`, which keeps them: a list of owners would touch every node's count twice.
class NodeList {
 public:
  NodeList(const UOp& root, std::vector<const Node*> nodes) : root_(root), nodes_(std::move(nodes)) {}
  const UOp* begin() const { return reinterpret_cast<const UOp*>(nodes_.data()); }  // a UOp is an address
  const UOp* end() const { return begin() + nodes_.size(); }
  size_t size() const { return nodes_.size(); }
  const UOp& operator[](size_t i) const { return begin()[i]; }
  const UOp& back() const { return end()[-1]; }
  operator std::vector<UOp>() const { return {begin(), end()}; }  // NOLINT(google-explicit-constructor)

 private:
  UOp root_;
  std::vector<const Node*> nodes_;
};
// Post-order, sources left to right, each node once. `enter(node)` false leaves a node out together with what
// only it reaches. Bodies of Calls (source 0) are entered only when `enter_calls`.
NodeList toposort(const UOp& root);
NodeList toposort(const UOp& root, const std::function<bool(const UOp&)>& enter, bool enter_calls = false);
bool reaches(const UOp& root, const UOp& node);  // `node` is in the graph of `root`
// Replace nodes; a replaced node is not descended into, nor is the body of a Call.
UOp substitute(const UOp& root, const std::vector<std::pair<UOp, UOp>>& map);
// Total order by (op, arg, dtype, sources): what sorts commutative operands. <0, 0, >0.
int compare_structure(const UOp& a, const UOp& b);
// Nodes alive in the process, for leak tests.
size_t live_node_count();

// Human text of a small expression, infix: "(r0*4+r1)" — for DEBUG and error messages (the round-trip form is
// print.h).
std::string expression(const UOp& u);

}  // namespace lathe

template <>
struct std::hash<lathe::UOp> {
  size_t operator()(const lathe::UOp& u) const noexcept { return u.node() ? u.hash().lo : 0; }
};

// Messages print dtypes and ops by name, and shapes like "(2, 3)".
namespace lathe::detail {
template <auto text>
struct TextFormatter : fmt::formatter<std::string_view> {
  auto format(const auto& value, auto& context) const {
    return fmt::formatter<std::string_view>::format(text(value), context);
  }
};
}  // namespace lathe::detail
template <>
struct fmt::formatter<lathe::DType> : lathe::detail::TextFormatter<lathe::dtype_name> {};
template <>
struct fmt::formatter<lathe::Op> : lathe::detail::TextFormatter<lathe::op_name> {};
template <>
struct fmt::formatter<lathe::Shape>
    : lathe::detail::TextFormatter<static_cast<std::string (*)(const lathe::Shape&)>(lathe::to_string)> {};
