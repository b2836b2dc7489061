// Facts about linear programs that every text renderer needs.
#pragma once
#include "renderer/renderer.h"
#include "uop/spec_rules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lathe {

// 0 for a scalar, n for a vector of shape (n,).
int64_t lanes_of(const UOp& u);

struct Address {
  UOp buffer;         // Param or Buffer
  UOp index;          // a scalar; one index a lane where `scattered`
  int64_t lanes = 0;  // 0: one element
  bool scattered = false;
};
Address address_of(const UOp& u);

// The memory side of a Load or Store: value is the alternative or what is stored; gate may be null.
struct Access {
  Address at;
  UOp value;
  UOp gate;
};
Access access_of(const UOp& u);

// Lanes that Index(vec, Const) or Index(vec, Stack(Const…)) picks; nullopt where a lane number is not
// constant.
std::optional<std::vector<int64_t>> picked_lanes(const UOp& u);

// Number of elements of a Buffer.
int64_t element_count(const UOp& buffer);

// The integer result of Add, Sub, Mul, Neg or Shl is below 2^(width-1) in magnitude for all values of the
// sources, so signed overflow cannot happen.
bool cannot_overflow(const UOp& u);

// Operand dtypes of an ALU op are those the op computes in: no conversion is implied, except that shift
// counts may be any integer. A violation is an internal error.
void check_operands(const UOp& u);

// A name that C and LLVM accept: other characters become '_'.
std::string to_identifier(std::string_view text);

// Hands out each name once; repeats get a number.
class NamePool {
 public:
  std::string unique(const std::string& base);

 private:
  std::unordered_map<std::string, int> used_;
};

// Sources of `u` whose value is computed at run time: not shapes, sizes or lane numbers.
std::vector<UOp> value_sources(const UOp& u);

[[noreturn]] void cannot_render(const UOp& u, std::string_view renderer);

// Hands a node of a linear program to the member of `writer` that writes its kind of statement: leaf (Param,
// Special, Const), buffer, range, end, open_if, end_if, barrier, pick (lanes of a vector), load, store,
// stack, cast, bitcast or alu (or nothing of these). Nodes that are part of others' text go nowhere.
template <class Writer>
void write_node(Writer& writer, const UOp& u) {
  switch (u.op()) {
    case Op::Param:
    case Op::Special:
    case Op::Const: return writer.leaf(u);
    case Op::After:
    case Op::Group:
    case Op::Noop:
    case Op::Sink: return;
    case Op::Buffer: return writer.buffer(u);
    case Op::Range: return writer.range(u);
    case Op::End:
      CHECK(u.n_srcs() == 2, "an End of {} loops in a linear program", u.n_srcs() - 1);
      return writer.end(u);
    case Op::If: return writer.open_if(u);
    case Op::EndIf: return writer.end_if(u);
    case Op::Barrier: return writer.barrier();
    case Op::Index:
      if (!is_memory(u.src(0))) writer.pick(u);
      return;
    case Op::Shrink:
      if (is_memory(u.src(0))) return;
      return writer.alu(u);
    case Op::Load: return writer.load(u);
    case Op::Store: return writer.store(u);
    case Op::Stack: return writer.stack(u);
    case Op::Cast: return writer.cast(u);
    case Op::Bitcast: return writer.bitcast(u);
    default: return writer.alu(u);
  }
}

// Buffers that some Store writes.
std::unordered_set<const Node*> written_buffers(std::span<const UOp> linear);

// For renderers of functions of the host.
void refuse_work_groups(const Signature& s, std::string_view renderer);

}  // namespace lathe
