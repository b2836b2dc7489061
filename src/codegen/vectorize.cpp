#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "codegen/tensor_core.h"
#include "renderer/program.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"

namespace lathe {
namespace {

class Vectorizer {
 public:
  UOp run(const UOp& body) {
    return done_.walk(toposort(body), [&](const UOp& u) { return visit(u); });
  }

 private:
  const UOp& of(const UOp& u) const { return done_.of(u); }

  UOp visit(const UOp& u) {
    if (u.op() == Op::Range && u.range().type == AxisType::Vector) {
      std::vector<UOp> lanes;
      for (int64_t i = 0; i < u.src(0).value().as_i64(); i++) lanes.push_back(constant(Scalar(i)));
      return stack(lanes);
    }
    if (u.op() == Op::Index && is_memory(u.src(0))) return visit_access(u);
    if (u.op() == Op::Load && u.n_srcs() == 1 && u.src(0).op() == Op::Index)
      if (const auto runs = interleaved_in(u.src(0).src(1), item_size(u.dtype())))
        return visit_interleaved(u, *runs);
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs())
      if (!((u.op() == Op::End || u.op() == Op::Dot) && s.op() == Op::Range &&
            s.range().type == AxisType::Vector))
        srcs.push_back(of(s));
    if (u.op() == Op::End && srcs.size() == 1) return srcs[0];
    if ((u.op() == Op::Load || u.op() == Op::Store) && srcs.size() == 3)
      srcs[0] = with_lanes_of(srcs[0], srcs[2]);
    return u.with_srcs(srcs);
  }

  // A gate that differs by lane needs an address for each lane, even where it is the same one.
  static UOp with_lanes_of(const UOp& address, const UOp& gate) {
    if (gate.shape().empty() || !address.shape().empty()) return address;
    const std::vector<UOp> same(static_cast<size_t>(gate.shape()[0].value()), address.src(1));
    return index(address.src(0), stack(same));
  }

  UOp visit_access(const UOp& u) {
    const UOp r = open_axis(u.src(1), AxisType::Vector);
    if (!r) return index(of(u.src(0)), of(u.src(1)));
    if (stride_in(u.src(1), r) != 1) return index(of(u.src(0)), of(u.src(1)));
    LinearSum first = *LinearSum::of(u.src(1));
    first.add(r, -1);
    const UOp base = of(first.normalize().to_uop());
    const UOp lanes = constant(r.src(0).value());
    return UOp::make(Op::Shrink, {of(u.src(0)), stack({&base, 1}), stack({&lanes, 1})});
  }

  // The runs one by one; a lane of 32 bits gets an element of each.
  UOp visit_interleaved(const UOp& u, const Interleaved& runs) {
    const DType code = item_size(u.dtype()) == 1 ? DType::UInt8 : DType::UInt16;
    const UOp base = of(runs.base), buffer = of(u.src(0).src(0));
    UOp words;
    for (int64_t i = 0; i < runs.n_runs; i++) {
      const UOp run = lathe::load(elements_from(buffer, runs.lanes, base + i * runs.stride));
      const UOp word = cast(bitcast(run, code), DType::UInt32);
      const UOp count = constant(DType::UInt32, Scalar(i * bit_width(code)));
      words = words ? words | (word << count) : word;
    }
    return bitcast(words, u.dtype());
  }

  Rebuilt done_;
};

}  // namespace

UOp vectorize(const UOp& body) { return Vectorizer().run(body); }

}  // namespace lathe
