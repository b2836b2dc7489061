#include "property/generator.h"

#include <unordered_map>
#include <utility>

namespace lathe::test {

UOp reorder_randomly(const UOp& root, Random& random) {
  constexpr OpSet kAssociated = {Op::Add, Op::Mul, Op::And, Op::Or, Op::Max};
  std::unordered_map<const Node*, UOp> done;
  for (const UOp& u : toposort(root)) {
    std::vector<UOp> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(done.at(s.node()));
    if (!has_flag(u.op(), kCommutative)) {
      done.emplace(u.node(), srcs.empty() ? u : u.with_srcs(srcs));
      continue;
    }
    if (kAssociated.contains(u.op()) && !is_float(u.dtype())) {
      std::vector<UOp> terms;
      while (!srcs.empty()) {
        const UOp s = srcs.back();
        srcs.pop_back();
        // Operands of other dtypes would meet in another one.
        if (s.op() == u.op() && s.dtype() == u.dtype() && s.src(0).dtype() == u.dtype() &&
            s.src(1).dtype() == u.dtype())
          srcs.insert(srcs.end(), s.srcs().begin(), s.srcs().end());
        else
          terms.push_back(s);
      }
      srcs = std::move(terms);
    }
    while (srcs.size() > 1) {
      for (size_t i = 0; i < 2; i++) std::swap(srcs[i], srcs[i + random.below(srcs.size() - i)]);
      const UOp joined = alu(u.op(), {srcs[0], srcs[1]});
      srcs.erase(srcs.begin());
      srcs[0] = joined;
    }
    done.emplace(u.node(), srcs[0]);
  }
  return done.at(root.node());
}

}  // namespace lathe::test
