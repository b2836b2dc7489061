#include "uop/uop.h"

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;
using lathe::test::contains;

namespace {

const Names& names() {
  static const Names n =
      parse_names("a[0,8] b[0,8] c[0,8] x:float y:int p[0,1]:bool r0=range(16) r12=range(a+2) d=param(16)")
          .or_throw();
  return n;
}

UOp read(std::string_view text) { return parse_expression(text, names()).or_throw(); }

ParseError read_error(std::string_view text) {
  const Result<UOp> r = parse_expression(text, names());
  REQUIRE_MESSAGE(!r.ok(), "this parses: ", text);
  return r.error();
}

}  // namespace

TEST_CASE("expressions print with few parentheses and read back") {
  const char* rows[] = {
      "a",
      "r0",
      "3",
      "-1.5",
      "true",
      "(a+b)",
      "(a+b*c)",
      "((a+b)*c)",
      "(a-5)",
      "(a+-5*b)",
      "(a*b//c%7)",
      "(a*(b//c))",
      "(a+(b+c))",
      "(a+b+c)",
      "(a<<b+1)",
      "((a<<b)+1)",
      "(a&b|c^a)",
      "(a&(b|c))",
      "(a<b)",
      "(a+b<c*2)",
      "(a!=b)",
      "!(a<b)",
      "!!(a<b)",
      "!p",
      "((a<b)&p)",
      "max(a+1, b)",
      "(a if (a<b) else b+1)",
      "((a if p else b)*2)",
      "(1/x)",
      "(1/(x*2.0))",
      "exp2(x)",
      "trunc(x)",
      "pow(x, 2.0)",
      "cdiv(a, b)",
      "cmod(a, b)",
      "(int)(a+b)",
      "((long)(a)*2)",
      "bitcast(x, uint)",
      "{a, b, 3}",
      "{a, b, 3}[1]",
      "d0[r0*4+a]",
      "(d0[r0]*2.0)",
      "(a<(b if p else Invalid))",
      "(r12+r0)",
      "(a*-1//3)",
      "(a//-4)",
      "(x*inf)",
  };
  Names all = names();
  for (const auto& [name, value] : names())
    if (name == "d") all.emplace_back("d0", value);
  for (const char* row : rows) {
    CAPTURE(row);
    const Result<UOp> u = parse_expression(row, all);
    REQUIRE_MESSAGE(u.ok(), u.error().message());
    std::string text = expression(u.value());
    if (const size_t at = text.find("p0["); at != std::string::npos) text.replace(at, 2, "d0");
    CHECK(text == row);
  }
}

TEST_CASE("the notation builds what it says") {
  const UOp a = read("a"), b = read("b"), c = read("c"), x = read("x");
  CHECK(read("a//4+b%3*2") == a / 4 + b % 3 * 2);
  CHECK(read("a-b") == a - b);
  CHECK(read("a-5") == a + -5);
  CHECK(read("a - -5") == a + 5);
  CHECK(read("-a//b") == (-a) / b);
  CHECK(read("-3%a") == constant(-3) % a);
  CHECK(read("--3") == constant(3));
  CHECK(read("a<b?a:b<c?b:c") == where(lt(a, b), a, where(lt(b, c), b, c)));
  CHECK(read("a<10&!(a<10)") == (lt(a, 10) & logical_not(lt(a, 10))));
  CHECK(read("a<=b") == logical_not(lt(b, a)));
  CHECK(read("a>b") == lt(b, a));
  CHECK(read("a>=b") == ge(a, b));
  CHECK(read("a==b") == eq(a, b));
  CHECK(read("a!=b") == ne(a, b));
  CHECK(read("a!=b|b<c") == (ne(a, b) | lt(b, c)));
  CHECK(read("1+2<<3") == (constant(1) + constant(2)) << constant(3));
  CHECK(read("a&b==c") == alu(Op::And, {a, eq(b, c)}));
  CHECK(read("a cdiv 3") == alu(Op::CDiv, {a, constant(3)}));
  CHECK(read("cmod(a,3)") == alu(Op::CMod, {a, constant(3)}));
  CHECK(read("min(max(a,5),8)") == minimum(maximum(a, constant(5)), constant(8)));
  CHECK(read("2.0*rcp(2.0*x)") == constant(Scalar(2.0)) * alu(Op::Reciprocal, {constant(Scalar(2.0)) * x}));
  CHECK(read("x/2.0") == x * alu(Op::Reciprocal, {constant(Scalar(2.0))}));
  CHECK(read("int(a<2)!=0") == ne(cast(lt(a, 2), DType::Int32), constant(0)));
  CHECK(read("weak(a<2)") == cast(lt(a, 2), DType::WeakInt));
  CHECK(read("u8(a)") == cast(a, DType::UInt8));
  CHECK(read("half(x)") == cast(x, DType::Float16));
  CHECK(read("bool(a)") == cast(a, DType::Bool));
  CHECK(read("bitcast(u32(a)<<1,i32)") == bitcast(cast(a, DType::UInt32) << constant(1), DType::Int32));
  CHECK(read("where(a<b,T,F)") == where(lt(a, b), constant(Scalar(true)), constant(Scalar(false))));
  CHECK(read("a&0x7fffffff") == (a & constant(0x7fffffff)));
  CHECK(read("lanes(1,a)") == stack({{constant(1), a}}));
  CHECK(read("{}") == shape_node({}));
  CHECK(read("Inv") == invalid());
  CHECK(read("d[r0]").op() == Op::Load);
  CHECK(read("d[lanes(1,2)][0]") == index(load(index(read("d"), read("lanes(1,2)"))), constant(0)));
  CHECK(read("1e-5") == constant(Scalar(1e-5)));
}

TEST_CASE("names declare variables, ranges and arguments") {
  const Names n = parse_names("a[-3,8] w[0,64]%4:i32 f:float r7=range((a+2)*3) d=param(16):half").or_throw();
  REQUIRE(n.size() == 5);
  CHECK(n[0].second == variable("a", -3, 8));
  CHECK(n[1].second == variable("w", 0, 64, DType::Int32, 4));
  CHECK(n[2].second.dtype() == DType::Float32);
  CHECK(!n[2].second.param().bounds.has_value());
  CHECK(n[3].second == range((n[0].second + 2) * 3, 7, AxisType::Loop));
  CHECK(n[4].second == param(0, {SInt(16)}, DType::Float16));
  for (const char* bad :
       {"a", "a[1]", "a[2,1]", "a[0,1]:void", "a[0,1]x", "3[0,1]", "a[0,1] a[0,1]", "r=range(", "r=range(q)",
        "r=range(1.5)", "a[0,1]%0", "a[0,99999999999999999999]", "a:int8x"}) {
    CAPTURE(bad);
    CHECK(!parse_names(bad).ok());
  }
}

TEST_CASE("movement prints as methods") {
  const UOp t = param(0, {SInt(2), SInt(3)}, DType::Float32);
  const int order[] = {1, 0};
  CHECK(expression(permute(t, order)) == "p0.permute(1, 0)");
  CHECK(expression(reshape(t, {SInt(6)})) == "p0.reshape(6)");
  CHECK(expression(pad(t, {SInt(1), SInt(0)}, {SInt(4), SInt(3)})) == "p0.pad((1, 4), (0, 3))");
  CHECK(expression(UOp::make(Op::Reduce, {t + t}, ReduceArg{Op::Add, 1})) == "(p0+p0).reduce(Add, 1)");
  CHECK(expression(range(4, -2, AxisType::Loop)) == "rm2");
  CHECK(expression(store(index(t, constant(0)), constant(Scalar(1.0)))) == "store(p0[0], 1.0)");
  CHECK(expression(cast(constant(3), DType::Float32)) == "3");
}

TEST_CASE("large graphs print within the limits") {
  UOp chain = variable("x", 0, 1), doubled = chain;
  for (int i = 0; i < 1000000; i++) chain = chain + 1;
  for (int i = 0; i < 100; i++) doubled = doubled + doubled;
  const std::string text = expression(chain);
  CHECK(text.substr(0, 20) == "(...+1+1+1+1+1+1+1+1");
  CHECK(text.size() < 1000);
  CHECK(expression(doubled).size() <= 10003);
  CHECK(expression(doubled, {.characters = 20, .depth = 200}).size() <= 23);
  UOp right = variable("x", 0, 1);
  for (int i = 0; i < 1000000; i++) right = constant(1) + right;
  CHECK(contains(expression(right), "(1+(1+(1+"));
}

TEST_CASE("what a printed expression nests can be read again") {
  UOp u = read("a");
  for (int i = 0; i < 190; i++) u = read("b") * (u + 1) + i;
  CHECK(contains(expression(u), "..."));  // three levels a step
  u = read("a");
  for (int i = 0; i < 199; i++) u = constant(1) + u;
  CHECK(read(expression(u)) == u);
}

TEST_CASE("expression errors name offset and cause") {
  struct Row {
    std::string text;
    size_t offset;
    const char* cause;
  };
  const Row rows[] = {
      {"", 0, "operand at the end"},
      {"a+", 2, "operand at the end"},
      {"a b", 2, "unexpected 'b'"},
      {"(a", 2, "expected ')'"},
      {"a?b", 3, "expected ':'"},
      {"a?b:c", 1, "where cond must be bool, got weakint"},
      {"q+1", 0, "unknown name 'q'"},
      {"foo(a)", 0, "unknown function 'foo'"},
      {"max(a)", 0, "takes 2 values, got 1"},
      {"int(a,b)", 0, "takes one value"},
      {"x//2", 1, "FloorDiv needs integers, got float"},
      {"x<<1", 1, "Shl needs integers"},
      {"x&1", 1, "And on float"},
      {"!a", 0, "! on weakint"},
      {"d[x]", 1, "coordinate of dtype float"},
      {"d[1][2]", 4, "into a scalar"},
      {"lanes(lanes(1,2),lanes(3,4))[0]", 31, "fewer coordinates"},
      {"d+lanes(1,2,3)", 1, "broadcast"},
      {"lanes(a,d)", 0, "different shapes"},
      {"bitcast(a,int)", 0, "bitcast"},
      {"a if p", 6, "expected 'else'"},
      {"@", 0, "expected an operand"},
      {"99999999999999999999999999999999999999999", 0, "127 bits"},
      {"170141183460469231731687303715884105727", 0, "126 bits"},
      {std::string(300, '('), 200, "nesting deeper than 200"},
      {std::string(300, '!') + "p", 200, "nesting deeper than 200"},
      {std::string(300, '-') + "a", 200, "nesting deeper than 200"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const ParseError e = read_error(row.text);
    CAPTURE(e.text);
    CHECK(e.offset == row.offset);
    CHECK(contains(e.text, row.cause));
  }
  std::string sum = "a";
  for (int i = 0; i < 10000; i++) sum += "+a";
  CHECK(parse_expression(sum, names()).ok());  // long is not deep
}
