#include "uop/gates.h"

#include "uop/expression.h"
#include "uop/simplify.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

struct Row {
  const char *variables, *gate, *index, *want_gate, *want_index;
};

UOp read(std::string_view text, const Names& n) { return simplify(parse_expression(text, n).or_throw()); }

}  // namespace

// core.md §14, first table.
TEST_CASE("gates and indices simplify each other") {
  const Row rows[] = {
      {"g0[0,4] l0[0,3]", "!(g0*4+l0<19)", "g0*4+l0-19", "!(g0*4+l0<19)", "0"},
      {"r0[0,3] r1[0,3] r2[0,3] r3[0,3]", "r0*3+r1<8&((r0*3+r1)//8+r2*3+r3)%4<2", "r0+r1+r2+r3",
       "r0*3+r1<8&(r2*3+r3)%4<2", "r0+r1+r2+r3"},
      {"g0[0,55] r0[0,2]", "g0+r0<57&!(g0+r0<1)", "g0", "g0+r0<57&!(g0+r0<1)", "g0"},
      {"r0[0,1]", "r0<1&(r0*5+1)%6<5", "r0", "r0<1", "0"},
      {"r0[0,1]", "(r0*5+1)%6<5&r0<1", "r0", "r0<1", "0"},
      {"l0[0,3] g0[0,3]", "l0+g0*3<5", "l0", "l0+g0*3<5", "l0"},
      {"r0[0,29] r1[0,6] r2[0,1]", "r2<1&r1<6", "(r1+r2+1)//7*-31+((r1+r2+218)//224+r0)%30*1568", "r2<1&r1<6",
       "r0*1568"},
      {"r0[0,29] r1[0,6] r2[0,1]", "r2<1", "(r1+r2+1)//7*-31+((r1+r2+218)//224+r0)%30*1568", "r2<1",
       "(r1+1)//7*-31+((r1+218)//224+r0)%30*1568"},
      {"r0[0,3] r1[0,3] r2[0,3] r3[0,3]", "!(r0+r1<1)&!(r2+r3<1)", "(r0+r1+(r2+r3)+28)//30",
       "!(r0+r1<1)&!(r2+r3<1)", "1"},
      {"r0[0,1023] r1[0,3] r2[0,3]", "r0<r1*4+r2&!(r0<-1)", "r0", "r0<r1*4+r2", "r0"},
      {"l[0,3]", "l<3&!(l<1)", "(l+1)%2+(l+1)//2*2", "l<3&!(l<1)", "l+1"},
      {"i[0,264]", "!(i<201)", "(i+55)//64-4", "!(i<201)", "0"},
      {"r0[0,3] r1[0,3]", "!(r0+r1<1)", "(r0*8+r1*8+7)//15*0+(r0+r1+6)//7", "!(r0+r1<1)", "1"},
  };
  for (const Row& row : rows) {
    const Names n = parse_names(row.variables).or_throw();
    const UOp gate = read(row.gate, n), index = read(row.index, n);
    const UOp got = simplify_gates(where(gate, index, invalid()));
    const UOp want = simplify(where(read(row.want_gate, n), read(row.want_index, n), invalid()));
    CHECK_MESSAGE(expression(got) == expression(want), row.gate, " ; ", row.index);
  }
}

TEST_CASE("contradicting clauses are false in any order") {
  const Names n = parse_names("g0[0,12] g1[0,12] r0[0,3]").or_throw();
  std::vector<std::string> clauses = {"(g0+11)%14<11", "(g1+r0*13+(g0+39)//42)%14<11", "g0<3", "g1+r0*13<42"};
  std::sort(clauses.begin(), clauses.end());
  std::vector<UOp> results;
  do {
    const UOp gate = read(clauses[0] + "&" + clauses[1] + "&" + clauses[2] + "&" + clauses[3], n);
    results.push_back(simplify_gate(gate));
  } while (std::next_permutation(clauses.begin(), clauses.end()));
  for (const UOp& r : results) CHECK_MESSAGE(r.is_const(Scalar(false)), expression(r));
}

TEST_CASE("gates on loaded values stay, and loads keep their own gates") {
  const Names n = parse_names("d=param(16):i32 b=param(16):i32 l0[0,3] g0[0,3]").or_throw();
  const UOp inner = read("(l0+g0*3)%16", n), gate = read("l0+g0*3<5", n);
  const UOp loaded = load(index(parse_expression("d", n).or_throw(), where(gate, inner, invalid())));
  const UOp both = simplify(gate & ne(loaded, constant(0)));
  CHECK(simplify_gate(both) == both);
  const UOp address = cast(loaded, DType::WeakInt);
  CHECK(simplify_under(gate, address) == simplify(address));
}

TEST_CASE("a simplified index is equal wherever its gate holds") {
  std::mt19937_64 random(11);
  auto number = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const Names n = parse_names("a[0,5] b[-3,4] c[0,3]").or_throw();
  int changed = 0;
  for (int k = 0; k < 400; k++) {
    auto sum = [&] {
      UOp s = constant(number(-8, 12));
      for (const auto& [name, v] : n) s = s + v * number(-2, 4);
      return s;
    };
    auto clause = [&] {
      const UOp x = number(0, 1) ? sum() : n[static_cast<size_t>(number(0, 2))].second;
      const UOp c = constant(number(-2, 8));
      const UOp one = number(0, 2) ? lt(x, c) : lt(c, x);
      return number(0, 1) ? one : logical_not(one);
    };
    UOp gate = clause();
    for (int i = number(0, 2); i > 0; i--) gate = gate & clause();
    const UOp index =
        sum() % number(2, 9) * number(1, 5) + sum() / number(2, 9) * number(1, 5) + sum() / number(2, 30);
    const UOp gated = where(gate, index, invalid()), s = simplify_gates(gated);
    changed += !(s == simplify(gated));
    for (int i = 0; i < 25; i++) {
      std::vector<std::pair<UOp, UOp>> point;
      for (const auto& [name, v] : n) {
        const auto [lo, hi] = *v.param().bounds;
        point.emplace_back(v, constant(number(static_cast<int>(lo), static_cast<int>(hi))));
      }
      const UOp want = simplify(substitute(gated, point)), got = simplify(substitute(s, point));
      CHECK_MESSAGE(got == want, expression(gated), " -> ", expression(s), ": ", expression(want), " became ",
                    expression(got));
    }
  }
  CHECK(changed > 20);
}
