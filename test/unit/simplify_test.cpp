#include "uop/simplify.h"

#include "uop/eval.h"
#include "uop/linear_terms.h"

#include <fmt/core.h>

#include <optional>
#include <random>
#include <unordered_map>

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;

namespace {

Names names(std::string_view text) { return parse_names(text).or_throw(); }
UOp read(std::string_view text, const Names& n) { return parse_expression(text, n).or_throw(); }

using Point = std::vector<std::pair<const Node*, Scalar>>;

// The value of a scalar expression, computed op by op; nullopt where it divides by zero or overflows weakint
// on the way to the result.
std::optional<Scalar> evaluate(const UOp& root, const Point& point) {
  std::unordered_map<const Node*, std::optional<Scalar>> done;
  for (const auto& [node, value] : point) done.emplace(node, value);
  for (const UOp& u : toposort(root)) {
    if (done.contains(u.node()) || u.op() == Op::Stack) continue;
    std::optional<Scalar>& out = done[u.node()];
    if (u.is_const()) {
      out = u.value();
    } else if (u.op() == Op::Cast) {
      if (const auto& v = done.at(u.src(0).node())) out = cast_scalar(*v, u.dtype());
    } else if (u.op() == Op::Where) {
      if (const auto& c = done.at(u.src(0).node()); c && !c->is_invalid()) {
        const UOp& branch = u.src(c->as_bool() ? 1 : 2);
        if (const auto& v = done.at(branch.node())) out = v->is_invalid() ? *v : cast_scalar(*v, u.dtype());
      } else {
        out = c;
      }
    } else {
      std::vector<Scalar> values;
      DType common = DType::Bool;
      for (const UOp& s : u.srcs()) {
        if (const auto& v = done.at(s.node())) values.push_back(*v);
        common = join(common, s.dtype());
      }
      if (values.size() != u.n_srcs()) continue;
      if (has_flag(u.op(), kComparison))
        for (Scalar& v : values) v = cast_scalar(v, common);
      out = eval(u.op(), u.dtype(), values);
    }
  }
  return done.at(root.node());
}

class Generator {
 public:
  Generator(uint64_t seed, DType dtype) : random_(seed), dtype_(dtype) {
    const int n = number(1, 3);
    for (int i = 0; i < n; i++) {
      const int lo = is_unsigned(dtype) ? number(0, 20) : number(0, 2) ? number(-1, 0) : number(-40, 10);
      const int hi = lo + (number(0, 3) ? number(0, 12) : number(0, 60));
      // A typed integer may also come from an index, and then not fit.
      const bool index = dtype != DType::WeakInt && number(0, 2) == 0;
      const int far = index && number(0, 2) == 0 ? 300 : 0;
      variables_.push_back(
          variable(fmt::format("v{}", i), lo - far, hi + far, index ? DType::WeakInt : dtype));
      leaves_.push_back(cast(variables_.back(), dtype));
    }
  }

  int number(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random_); }

  UOp integer(int depth) {
    if (depth == 0) return number(0, 3) ? leaves_[static_cast<size_t>(number(0, last()))] : literal();
    switch (number(0, 15)) {
      case 0:
      case 1:
      case 2: return integer(depth - 1) + integer(depth - 1);
      case 3:
      case 4: return integer(depth - 1) * literal();
      case 5: return integer(depth - 1) - integer(depth - 1);
      case 6:
      case 7: return alu(Op::FloorDiv, {integer(depth - 1), divisor()});
      case 8:
      case 9: return alu(Op::FloorMod, {integer(depth - 1), divisor()});
      case 10: return maximum(integer(depth - 1), integer(depth - 1));
      case 11: return where(boolean(depth - 1), integer(depth - 1), integer(depth - 1));
      case 12: return integer(depth - 1) + literal();
      case 13: return mixed(depth);
      case 14: return integer(depth - 1) * integer(depth - 1);
      default: return split(depth);
    }
  }

  UOp boolean(int depth) {
    if (depth == 0) return lt(integer(0), literal());
    switch (number(0, 7)) {
      case 0:
      case 1: return lt(integer(depth - 1), literal());
      case 2: return lt(literal(), integer(depth - 1));
      case 3: return lt(integer(depth - 1), integer(depth - 1));
      case 4: return ne(integer(depth - 1), number(0, 1) ? literal() : integer(depth - 1));
      case 5: return boolean(depth - 1) & boolean(depth - 1);
      case 6: return boolean(depth - 1) | boolean(depth - 1);
      default: return logical_not(boolean(depth - 1));
    }
  }

  Point point() {
    Point p;
    for (const UOp& v : variables_) {
      const auto [lo, hi] = *v.param().bounds;
      p.emplace_back(v.node(), Scalar(number(static_cast<int>(lo), static_cast<int>(hi))));
    }
    return p;
  }

 private:
  int last() const { return static_cast<int>(leaves_.size()) - 1; }
  UOp literal() {
    static constexpr int kLiterals[] = {0, 1, -1, 2, 3, 4, 5, 8, 10, 12, -2, -3, -4, 16, 30, -7};
    return constant(kLiterals[number(0, 15)]);
  }
  UOp divisor() {
    static constexpr int kDivisors[] = {1, 2, 3, 4, 6, 8, 12, -2, -3, 5, 16, -4, 10, -1, 7};
    if (dtype_ == DType::WeakInt && number(0, 6) == 0) return integer(1);
    return constant(kDivisors[number(0, 14)]);
  }
  // The forms that index arithmetic is made of: (b//d)*d + b%d and parts of it.
  UOp split(int depth) {
    const UOp b = integer(depth - 1), d = divisor(), e = divisor(), q = alu(Op::FloorDiv, {b, d});
    switch (number(0, 2)) {
      case 0: return q * d + alu(Op::FloorMod, {b, d});
      case 1: return alu(Op::FloorMod, {q, e}) * d + alu(Op::FloorMod, {b, d});
      default: return alu(Op::FloorDiv, {b, d * e}) * e + alu(Op::FloorMod, {q, e});
    }
  }
  UOp mixed(int depth) {
    const UOp x = integer(depth - 1);
    if (dtype_ == DType::WeakInt) return cast(boolean(depth - 1), DType::WeakInt) * literal() + x;
    switch (number(0, 5)) {
      case 0: return x & integer(depth - 1);
      case 1: return x | literal();
      case 2: return x ^ integer(depth - 1);
      case 3: return x >> number_node(0, 3);
      case 4: return cast(cast(x, number(0, 1) ? DType::Int8 : DType::Int64), dtype_);
      default: return (x & literal()) >> number_node(1, 3);
    }
  }
  UOp number_node(int lo, int hi) { return constant(number(lo, hi)); }

  std::mt19937_64 random_;
  DType dtype_;
  std::vector<UOp> variables_, leaves_;
};

// Both sides agree wherever the original has a value.
void check_expressions(DType dtype, int count, uint64_t seed) {
  for (int i = 0; i < count; i++) {
    Generator g(seed + static_cast<uint64_t>(i), dtype);
    const UOp u = g.number(0, 3) ? g.integer(g.number(1, 4)) : g.boolean(g.number(1, 4));
    UOp s;
    try {
      s = simplify(u);
    } catch (const UserError& e) {
      REQUIRE_MESSAGE(e.kind() == UserError::Kind::Zero, e.what());
      continue;
    }
    REQUIRE(s.dtype() == u.dtype());
    CHECK_MESSAGE(simplify(s) == s, "simplifies further: ", expression(u), " -> ", expression(s), " -> ",
                  expression(simplify(s)));
    for (int k = 0; k < 12; k++) {
      const Point p = g.point();
      const std::optional<Scalar> want = evaluate(u, p);
      if (!want) continue;
      const std::optional<Scalar> have = evaluate(s, p);
      std::string at;
      for (const auto& [node, value] : p)
        at += fmt::format(" {}={}", UOp(node).param().name, value.to_string());
      REQUIRE_MESSAGE((have && have->equals(*want)), dtype_name(dtype), " seed ",
                      seed + static_cast<uint64_t>(i), ": ", expression(u), " -> ", expression(s), " at", at,
                      ": ", want->to_string(), " became ", have ? have->to_string() : "nothing");
      REQUIRE_MESSAGE((!want->less(s.bounds().lo) && !s.bounds().hi.less(*want)), expression(s),
                      " leaves its bounds");
    }
  }
}

}  // namespace

void check_rows(std::string_view variables, std::vector<std::pair<const char*, const char*>> rows) {
  const Names n = names(variables);
  for (const auto& [from, to] : rows) {
    const UOp got = simplify(read(from, n)), want = read(to, n);
    CHECK_MESSAGE(got == want, from, " gives ", expression(got), " instead of ", to);
    CHECK(got.dtype() == read(from, n).dtype());
  }
}

TEST_CASE("simplified index expressions have the values of the originals") {
  check_expressions(DType::WeakInt, 2000, 1);
}
TEST_CASE("simplified integer expressions have the values of the originals") {
  check_expressions(DType::Int8, 400, 10000);
  check_expressions(DType::UInt8, 400, 20000);
  check_expressions(DType::Int32, 400, 30000);
}

TEST_CASE("constants stand on the right in every dtype") {
  check_rows(
      "x:float y:int b:bool w[0,9]",
      {{"3.0+x", "x+3.0"}, {"5*y", "y*5"}, {"7|y", "y|7"}, {"max(2.0,x)", "max(x,2.0)"}, {"4!=w", "w!=4"}});
}

TEST_CASE("floats keep their value") {
  check_rows("x:float y:float", {{"x*0.0", "x*0.0"},
                                 {"x+x", "x*2.0"},
                                 {"x+1.0+2.0", "x+1.0+2.0"},
                                 {"x*3.0*5.0", "x*3.0*5.0"},
                                 {"x*2.0*0.25", "x*0.5"},
                                 {"(x*-1.0)*y", "x*y*-1.0"},
                                 {"rcp(x*4.0)", "rcp(x)*0.25"},
                                 {"rcp(x*3.0)", "rcp(x*3.0)"},
                                 {"x*rcp(x)", "x*rcp(x)"},
                                 {"x<x", "x<x"},
                                 {"x!=x", "x!=x"},
                                 {"x+0", "x"},
                                 {"x*1", "x"},
                                 {"x<2.0?2.0:x", "max(x,2.0)"},
                                 {"2.0<x?x:2.0", "2.0<x?x:2.0"}});
}

TEST_CASE("powers") {
  check_rows("x:float n:int", {{"pow(x,2.0)", "x*x"},
                               {"pow(x,3.0)", "x*(x*x)"},
                               {"pow(x,0.5)", "sqrt(x)"},
                               {"pow(x,-0.5)", "sqrt(rcp(x))"},
                               {"pow(x,2.3)", "pow(x,2.3)"},
                               {"pow(2.0,x)", "exp2(x)"},
                               {"pow(8.0,x)", "exp2(x*3.0)"},
                               {"pow(3.0,x)", "pow(3.0,x)"},
                               {"pow(n,3)", "n*(n*n)"}});
  const UOp x = read("x", names("x:float"));
  CHECK(simplify(alu(Op::Pow, {x, constant(0)})) == constant(DType::Float32, Scalar(1)));
  int products = 0;
  for (const UOp& u : toposort(simplify(alu(Op::Pow, {x, constant(Scalar(8.0))}))))
    products += u.op() == Op::Mul;
  CHECK(products == 3);
}

TEST_CASE("64-bit sums of small values are computed in 32 bits") {
  check_rows(
      "a[0,100]:int b[0,100]:int c:int",
      {{"i64(a)+i64(b)", "i64(a+b)"}, {"i64(a)*i64(b)", "i64(a*b)"}, {"i64(c)+i64(a)", "i64(c)+i64(a)"}});
}

TEST_CASE("integers computed from indices are indices") {
  check_rows("w[0,9] v[0,9] a[0,9]:int", {{"int(w+1)-1", "int(w)"},
                                          {"int(w)*2+int(v)", "int(v+w*2)"},
                                          {"int(w)!=int(v)", "v!=w"},
                                          {"int(w)<5", "w<5"},
                                          {"i8(w*100)<5", "i8(w*100)<5"},
                                          {"int(w)+a", "int(w)+a"}});
}

TEST_CASE("results keep the shape of what they replace") {
  for (const Shape& s : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 1, 4}}) {
    const UOp x = new_buffer(s, DType::Int32, "NULL");
    for (const UOp& u : {lt(x, x), ne(x, x), x * 0, x % x, x ^ x, (x & constant(0)) + 3}) {
      const UOp r = simplify(u);
      CHECK(r.shape() == s);
      CHECK(r.dtype() == u.dtype());
      CHECK(!reaches(r, x));
    }
  }
}

TEST_CASE("lanes stay lanes") {
  const Names n = names("a[0,9] b[0,9]");
  const UOp lanes = read("lanes(a,b,a+b,7)", n);
  const UOp zero = simplify_lanes(lanes * 0);
  CHECK(zero == read("lanes(0,0,0,0)", n));
  CHECK(simplify_lanes(index(lanes % lanes, constant(2))) == constant(0));
  CHECK(simplify_lanes(index(lanes, constant(3))) == constant(7));
  CHECK(simplify(read("lanes(1,1,Inv,Inv)+lanes(1,Inv,1,1)", n)) == read("lanes(2,Inv,Inv,Inv)", n));
}

TEST_CASE("loads and stores at Invalid") {
  const Names n = names("d=param(16):f32 g:bool i[0,15] v:float");
  const UOp d = read("d", n), i = read("i", n), g = read("g", n), v = read("v", n);
  CHECK(simplify(load(index(d, invalid()))) == constant(DType::Float32, Scalar(0)));
  CHECK(simplify(store(index(d, invalid()), v)).op() == Op::Noop);
  CHECK(simplify(store(index(d, i), invalid())).op() == Op::Noop);
  const UOp gated = store(index(d, where(g, i, invalid())), v);
  CHECK(simplify(store(index(d, i), where(g, v, invalid()))) == gated);
  CHECK(simplify(store(index(d, i), where(g, v, load(index(d, i))))) == gated);
  CHECK(simplify(store(index(d, i), load(index(d, i)) * 1 + 0)).op() == Op::Noop);
  CHECK(simplify(store(index(d, i), load(index(d, i)) + 1)).op() == Op::Store);
  const UOp gated_load = load(index(d, where(g, i, invalid())));
  CHECK(simplify(where(g, gated_load, constant(Scalar(0.0)))) == gated_load);
  CHECK(simplify(where(lt(i, 3), gated_load, constant(Scalar(0.0)))) ==
        load(index(d, where(simplify(lt(i, 3) & g), i, invalid()))));
  CHECK(simplify(where(lt(i, 3), gated_load, constant(Scalar(1.0)))).op() == Op::Where);
  // a load keeps the gate that its address needs
  const UOp inner = where(ne(gated_load, constant(Scalar(0.0))), constant(2), constant(0));
  CHECK(reaches(simplify(where(g, inner, invalid())), gated_load));
}

TEST_CASE("ranges over one value disappear") {
  const UOp one = range(1, 0, AxisType::Loop), r = range(4, 1, AxisType::Loop);
  const UOp d = param(0, {4}, DType::Float32);
  const UOp end = UOp::make(Op::End, {store(index(d, r + one * 4), constant(Scalar(1.0))), one, r});
  CHECK(simplify(end) == UOp::make(Op::End, {store(index(d, r), constant(Scalar(1.0))), r}));
  const UOp sum = UOp::make(Op::Reduce, {load(index(d, one)), one}, ReduceArg{Op::Add, 0});
  CHECK(simplify(sum) == load(index(d, constant(0))));
}

TEST_CASE("a division by zero is an error") {
  const Names n = names("a[0,9] z[0,0]");
  CHECK(test::user_error([&] { simplify(read("a//0", n)); }).kind() == UserError::Kind::Zero);
  CHECK(test::user_error([&] { simplify(read("a%(z*3)", n)); }).kind() == UserError::Kind::Zero);
}

TEST_CASE("long chains simplify") {
  UOp u = variable("a", 0, 10), f = variable("x", 0, 1, DType::Float32);
  for (int i = 0; i < 10000; i++) {
    u = u + 1;
    f = f * constant(Scalar(2.0)) + f;
  }
  CHECK(simplify(u) == variable("a", 0, 10) + 10000);
  CHECK(simplify(f).dtype() == DType::Float32);
}

TEST_CASE("Invalid in a branch leaves the dtype alone") {
  const UOp c = variable("c", 0, 1, DType::Bool), x = variable("x", 0, 9, DType::UInt8);
  CHECK(where(c, x, constant(300)).dtype() == DType::UInt8);
  const UOp out =
      simplify(where(c, x, constant(300)).with_srcs(std::vector<UOp>{c, invalid(), constant(300)}));
  CHECK(out == where(logical_not(c), constant(DType::UInt8, 44), invalid()));
  CHECK(simplify(bitcast(where(c, x, invalid()), DType::Int8)).src(2).is_invalid());
  CHECK(simplify(bitcast(where(constant(false), x, invalid()), DType::Int8)).is_invalid());
}

TEST_CASE("branches that meet are rounded to the type of their selections first") {
  const UOp c = variable("c", 0, 1, DType::Bool);
  const UOp f = where(c, constant(DType::Float32, 1.0), constant(0.1));
  const Scalar tenth = cast_scalar(Scalar(0.1), DType::Float32);
  const UOp square = simplify(f * f);
  REQUIRE(square.op() == Op::Where);
  CHECK(square.src(2).value() == cast_scalar(Scalar(tenth.as_double() * tenth.as_double()), DType::Float32));
  const UOp i = where(c, constant(DType::UInt8, 9), constant(300));
  CHECK(simplify(i / where(c, constant(DType::UInt8, 2), constant(5))).src(2).is_const(Scalar(8)));
}
