#include "uop/gates.h"

#include "uop/linear_terms.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;

namespace {

UOp read(std::string_view text, const Names& n) { return simplify(parse_expression(text, n).or_throw()); }

}  // namespace

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

TEST_CASE("a gated load of a bool says what its gate says") {
  const Names n = parse_names("b=param(16):bool a[0,15] c[0,15]").or_throw();
  CHECK(simplify_under(read("b[a<2?a:Inv]&c<3", n), read("a//2+c//3", n)) == constant(0));
  CHECK(simplify_under(read("b[a]&c<3", n), read("a//2+c//3", n)) == read("a//2", n));
}

TEST_CASE("a clause may divide by what another bounds") {
  const Names n = parse_names("x[-100,100]").or_throw();
  const UOp gate = read("x<0", n), divides = parse_expression("100%x!=0", n).or_throw();
  for (const UOp& both : {gate & divides, divides & gate}) {
    const UOp got = simplify(simplify_gate(both));
    CHECK(got == simplify(gate & divides));
    CHECK(split_operands(got, Op::And).size() == 2);
  }
}

TEST_CASE("bounds under a gate") {
  const Names n = parse_names("a[0,9] b[0,9] c[0,3]").or_throw();
  const auto bounds = [&](const char* gate, const char* u) {
    const auto b = bounds_under(read(gate, n), read(u, n));
    return b ? b->lo.to_string() + ".." + b->hi.to_string() : "never";
  };
  CHECK(bounds("a<3", "a*2+1") == "1..5");
  CHECK(bounds("a+b<3", "a+b") == "0..2");
  CHECK(bounds("a+b<3", "a*10+b") == "0..20");  // bounds of the terms
  CHECK(bounds("!(a+b<17)", "a") == "8..9");
  CHECK(bounds("!(a-b<9)", "a+b*3") == "9..9");
  CHECK(bounds("a+b<1", "a*8+c") == "0..3");  // both are 0
  CHECK(bounds("!(a+b*8<10)", "b") == "1..9");
  CHECK(bounds("a<3&!(a<5)", "a") == "never");
  CHECK(bounds("a+b<2&!(a<2)", "c") == "never");  // only together
  CHECK(bounds("!(a+c<8)", "a*-1+5") == "-4..0");
}

TEST_CASE("what selects a gated load is in its gate") {
  const Names n = parse_names("d=param(64):i32 b=param(64):bool a=range(8) r1=range(8)").or_throw();
  const auto check = [&](const char* text, const char* want) {
    const UOp got = read(text, n);
    CHECK_MESSAGE(got == read(want, n), text, " -> ", expression(got));
    verify(got, SpecLevel::Kernel, "gates test");
    return got;
  };
  // What the gate says already; what it may say; what is about another loop or about loaded values.
  check("where(a<2, d[a<2?a:Inv], 0)", "d[a<2?a:Inv]");
  check("where(a<4&r1<2, d[a<2?a:Inv], 0)", "where(r1<2, d[a<2?a:Inv], 0)");
  check("where(a<2&r1<2, d[a<4?a:Inv], 0)", "where(r1<2, d[a<2?a:Inv], 0)");
  check("where(!(a<4)|!(r1<2), 0, d[a<2?a:Inv])", "where(r1<2, d[a<2?a:Inv], 0)");
  check("where(d[a]<3, d[a<2?a:Inv], 0)", "where(d[a]<3, d[a<2?a:Inv], 0)");
  check("where(a<4, d[a<2?a:Inv], 1)", "where(a<4, d[a<2?a:Inv], 1)");
  check("where(a<4, d[a], 0)", "where(a<4, d[a], 0)");
  // Bools are conjoined.
  const UOp got = check("where(a<4&r1<2, b[a<2?a:Inv], F)", "b[a<2?a:Inv]&r1<2");
  CHECK(got.op() == Op::And);
  check("b[a<2?a:Inv]&a<2", "b[a<2?a:Inv]");
  check("b[a<2?a:Inv]&!(r1<2)&b[r1]", "b[a<2?a:Inv]&!(r1<2)&b[r1]");
}

TEST_CASE("loads keep their gates, and nothing is left of accesses to nowhere") {
  const Names n = parse_names("d=param(64):f32 r=range(8) c:bool").or_throw();
  const UOp gated = read("where(c, where(d[c?r:Inv]<3.0, 2, 0), Inv)", n);
  bool found = false;
  for (const UOp& u : toposort(gated))
    found = found || (u.op() == Op::Load && u.src(0).src(1) == read("c?r:Inv", n));
  CHECK(found);
  const UOp out = param(1, {64}, DType::Float32);
  const auto loads = [](const UOp& u) {
    const std::vector<UOp> nodes = toposort(u);
    return std::count_if(nodes.begin(), nodes.end(), [](const UOp& x) { return x.op() == Op::Load; });
  };
  const UOp r = n[1].second, value = parse_expression("d[r]+d[Inv]", n).or_throw();
  CHECK(loads(simplify(store(index(out, r), value))) == 1);
  CHECK(simplify(store(index(out, invalid()), value)).op() == Op::Noop);
  CHECK(simplify(store(index(out, r), invalid())).op() == Op::Noop);
  // A store of a selection is a gated store, also of a selection between a value and what is there.
  const UOp want = store(index(out, read("r<3?r:Inv", n)), constant(DType::Float32, 5.0));
  const UOp five = constant(DType::Float32, 5.0), at = index(out, r), three = lt(r, 3);
  CHECK(simplify(store(at, where(three, five, invalid()))) == want);
  CHECK(simplify(store(at, where(logical_not(three), invalid(), five))) == want);
  CHECK(simplify(store(at, where(three, five, load(at)))) == want);
  CHECK(simplify(store(at, where(logical_not(three), load(at), five))) == want);
}

TEST_CASE("a gate changes no loop") {
  const UOp a = variable("a", 0, 9), r = range(a, 0, AxisType::Loop);
  const UOp gate = ge(a, 3) & lt(a, 4) & lt(r, 1);
  const UOp out = simplify_gates(where(gate, r, invalid()));
  CHECK(reaches(out, r));
}
