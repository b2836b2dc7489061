// The state of rendering one program in a language of the C family.
#pragma once
#include "renderer/c_helpers.h"
#include "renderer/program.h"

#include <fmt/core.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

class CWriter {
 public:
  CWriter(const Target& target, const CDialect& dialect, std::span<const UOp> linear)
      : target_(target), dialect_(dialect), linear_(linear), helpers_(dialect) {}
  Rendered run(std::string_view kernel_name);

  // Statements, for write_node.
  void leaf(const UOp&) {}
  void buffer(const UOp& u);
  void range(const UOp& u);
  void end(const UOp& u);
  void open_if(const UOp& u);
  void end_if(const UOp& u) { end(u); }
  void barrier() { line("{}", dialect_.barrier); }
  void load(const UOp& u);
  void store(const UOp& u);
  void stack(const UOp& u) {
    if (uses_[u.node()].count) define(u, stack_value(u), true);
  }
  void pick(const UOp& u) { define(u, pick_value(u), true); }
  void cast(const UOp& u) { define(u, cast_value(u), true); }
  void bitcast(const UOp& u) { define(u, bitcast_value(u), true); }
  void alu(const UOp& u);

 private:
  // An expression: a name, or text in parentheses.
  struct Value {
    std::string text;
    Op chain = Op::Noop;  // the operator outside, where the left operand of another one needs no parentheses
    int mask_bits = 0;    // vectors of booleans: width of a lane
  };
  // How a node's value is used.
  struct Use {
    int count = 0;
    int block = -1;  // where, if everywhere in one block; else -2
  };
  // Output.
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    body_.append(static_cast<size_t>(2 * depth_), ' ');
    body_ += fmt::format(format, std::forward<T>(args)...);
    body_ += '\n';
  }

  // Structure (cstyle.cpp).
  void count_uses();
  void find_scratch();
  int64_t vector_elements(const UOp& buffer) const;  // lanes of an array of vectors; 0 for one of elements
  void open();
  void define(const UOp& u, Value v, bool inlined);
  std::string host_program(const std::string& name, const Signature& s);
  std::string device_program(const std::string& name, const Signature& s);
  std::string place(const Address& at);
  std::string element(const Address& at);
  bool is_element(const Address& at) const;
  CAccess lane_access(const Access& a);

  // Operands. With lanes, scalars become vectors and booleans masks of `mask_bits`.
  const Value& value(const UOp& u);
  std::string scalar(const UOp& u) { return value(u).text; }
  std::string lanes(const UOp& u, int64_t n, int mask_bits = 0);
  std::string literal(DType d, const Scalar& v) const;
  std::string float_literal(DType d, double v) const;
  std::string convert(const std::string& x, CElement from, CElement to, int64_t n);
  std::string reinterpret(const std::string& x, CElement to, int64_t n);
  std::string type_of(const UOp& u, const Value& v);
  std::string scalar_type(DType d) const;

  // Arithmetic (c_alu.cpp).
  Value scalar_alu(const UOp& u);
  Value vector_alu(const UOp& u, int64_t n);
  Value vector_where(const UOp& u, int64_t n);
  Value vector_bool(const UOp& u, int64_t n);
  Value vector_int(const UOp& u, int64_t n);
  std::string function_alu(const UOp& u, int64_t n);
  std::string spelled(const UOp& u, const std::string& a, const std::string& b, const std::string& c);
  Value cast_value(const UOp& u);
  std::string scalar_cast(const std::string& x, DType from, DType to);
  Value vector_cast(const UOp& u, int64_t n);
  Value bitcast_value(const UOp& u);
  Value stack_value(const UOp& u);
  Value pick_value(const UOp& u);

  const Target& target_;
  const CDialect& dialect_;
  std::span<const UOp> linear_;
  CHelpers helpers_;
  std::string body_;
  int depth_ = 1;
  int block_ = 0;  // number of the open loop or If; blocks are numbered in the order they open
  int next_block_ = 1;
  std::vector<int> outer_blocks_;
  int next_value_ = 0;
  NamePool pool_;
  std::unordered_map<const Node*, Value> values_;
  std::unordered_map<const Node*, Use> uses_;
  // Lanes of the vectors that a Reg Buffer is an array of: where all its accesses are whole ones.
  std::unordered_map<const Node*, int64_t> vectors_;
};

// Drops the parentheses around the whole of `x`.
std::string without_parentheses(const std::string& x);

}  // namespace lathe
