// The state of rendering one program as C.
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
  CWriter(const CDialect& dialect, const Target& target, std::span<const UOp> linear)
      : dialect_(dialect), target_(target), linear_(linear), helpers_(dialect) {}
  Rendered run(std::string_view kernel_name);

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
  // A Reg Buffer: an array of elements, or of vectors where all accesses are whole ones.
  struct Scratch {
    std::string name;
    int64_t lanes = 0;
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
  void node(const UOp& u);
  void range(const UOp& u);
  void close();
  void define(const UOp& u, Value v, bool inlined);
  std::string whole_program(const std::string& name, const Signature& s);
  std::string address(const Address& at);
  std::string element(const Address& at);
  void load(const UOp& u);
  std::string read_vector(const Access& a, DType d);
  void store(const UOp& u);
  std::string write_vector(const Access& a, DType d);
  std::string from_element(DType d, const std::string& x);
  std::string to_element(DType d, const std::string& x);

  // Operands. With lanes, scalars become vectors and booleans masks of `mask_bits`.
  const Value& value(const UOp& u);
  std::string scalar(const UOp& u) { return value(u).text; }
  std::string lanes(const UOp& u, int64_t n, int mask_bits = 0);
  std::string literal(DType d, const Scalar& v) const;
  std::string float_literal(DType d, double v) const;
  std::string convert(const std::string& x, CElement from, CElement to, int64_t n);
  std::string type_of(const UOp& u, const Value& v);
  std::string scalar_type(DType d) const;

  // Arithmetic (c_alu.cpp).
  Value alu(const UOp& u);
  Value scalar_alu(const UOp& u);
  Value vector_alu(const UOp& u, int64_t n);
  Value vector_compare(const UOp& u, int64_t n);
  Value vector_bool(const UOp& u, int64_t n);
  Value vector_int(const UOp& u, int64_t n);
  std::string function_alu(const UOp& u, int64_t n);
  std::string spelled(const UOp& u, const std::string& a, const std::string& b, const std::string& c);
  Value cast(const UOp& u);
  std::string scalar_cast(const std::string& x, DType from, DType to);
  Value vector_cast(const UOp& u, int64_t n);
  std::string vector_cast(const std::string& x, DType from, DType to, int64_t n);
  Value bitcast(const UOp& u);
  Value stack(const UOp& u);
  Value pick(const UOp& u);

  const CDialect& dialect_;
  const Target& target_;
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
  std::unordered_map<const Node*, Scratch> scratch_;
};

// Drops the parentheses around the whole of `x`.
std::string without_parentheses(const std::string& x);

}  // namespace lathe
