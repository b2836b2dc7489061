#include "uop/linear_terms.h"

#include "uop/simplify.h"

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;

namespace {

const Names& variables() {
  static const Names n = parse_names("a[0,8] b[0,8] g[0,8] x[0,64]%4 y[-9,9]").or_throw();
  return n;
}
UOp read(std::string_view text) { return parse_expression(text, variables()).or_throw(); }
UOp simple(std::string_view text) { return simplify(read(text)); }

std::string text(const UOp& u) { return u ? expression(simplify(u)) : "none"; }

}  // namespace

TEST_CASE("const_factor is a divisor of every value") {
  CHECK(const_factor(read("42")) == 42);
  CHECK(const_factor(read("17")) == 17);
  CHECK(const_factor(read("30+12")) == 6);
  CHECK(const_factor(read("5*7")) == 5);
  CHECK(const_factor(read("g*3")) == 3);
  CHECK(const_factor(read("g*3+6")) == 3);
  CHECK(const_factor(read("g*3+1")) == 1);
  CHECK(const_factor(simple("3*g*5")) == 15);
  CHECK(const_factor(read("x//4")) == 1);
  CHECK(const_factor(read("x")) == 4);
  CHECK(const_factor(read("lanes(12,g*8,20)")) == 4);
}

TEST_CASE("divides gives a quotient only where one is certain") {
  CHECK(divides(read("42"), 7).is_const(Scalar(6)));
  CHECK(!divides(read("42"), 5));
  CHECK(divides(simple("a*6+18"), 6) == simple("a+3"));
  CHECK(!divides(simple("a*4"), 3));
  CHECK(!divides(simple("a*4+2"), 4));
  CHECK(divides(read("x"), 4));
  CHECK(divides(read("x"), 2));
  CHECK(!divides(read("x"), 3));
  CHECK(divides(simple("x*3+12"), 12) == simple("x//4+1"));
  CHECK(divides(read("a"), 1) == read("a"));
}

TEST_CASE("common_factor") {
  auto of = [](std::vector<const char*> list) {
    std::vector<UOp> all;
    for (const char* t : list) all.push_back(simple(t));
    return text(common_factor(all));
  };
  CHECK(of({"a", "a*b", "a*3"}) == "a");
  CHECK(of({"a*a*a", "a*b*a", "a*a*3"}) == "(a*a)");
  CHECK(of({"a*a*10", "a*b*5", "a*a*5"}) == "(a*5)");
  CHECK(of({"a*10", "b*5", "a*5"}) == "5");
  CHECK(of({"a", "b*5", "a*5"}) == "1");
  CHECK(of({"a*b+a*2", "a*4"}) == "a");
}

TEST_CASE("divide_exact") {
  auto quotient = [](std::string_view u, std::string_view v) {
    return text(divide_exact(simple(u), simple(v)));
  };
  CHECK(quotient("a*a*3", "a") == "(a*3)");
  CHECK(quotient("a*a*3", "a*a*3") == "1");
  CHECK(quotient("a*a*6", "a*a*3") == "2");
  CHECK(quotient("a*b*3", "3") == "(a*b)");
  CHECK(quotient("a*a*3", "a*-3") == "(a*-1)");
  CHECK(quotient("a*a*b*3", "a*b") == "(a*3)");
  CHECK(quotient("a*3+a*b", "a") == "(b+3)");
  CHECK(quotient("a*b*3+a*b*b", "a*b") == "(b+3)");
  CHECK(quotient("(a*-2+14)*b", "a*-2+14") == "b");
  CHECK(quotient("a", "b") == "none");
  CHECK(quotient("a+2", "a") == "none");
  CHECK(quotient("x*-1", "a") == "none");
  CHECK(quotient("a*5", "a*10") == "none");
  CHECK(quotient("a*10-1", "a*10") == "none");
}

TEST_CASE("equal sums have one normal form") {
  const char* forms[] = {"a+b*2+y*-1+3", "3+b+a-y+b", "(y*-2+a*2+b*4+6)//2", "b-(y-a)+(b+3)",
                         "max(y,y)*-1+(a+3)+b*2"};
  const UOp first = simple(forms[0]);
  for (const char* form : forms) CHECK_MESSAGE(simple(form) == first, form);
  CHECK(first.src(1).is_const(Scalar(3)));
  CHECK(simple("(a+b)*3") == simple("b*3+a*3"));
  CHECK(simple("a*b*3*y") == simple("y*3*b*a"));
  CHECK(simple("a-a").is_const(Scalar(0)));
}

TEST_CASE("values that leave 120 bits are left alone") {
  UOp u = read("a");
  for (int i = 0; i < 12; i++) u = u * 1000000007;
  CHECK_NOTHROW(simplify(u));
  CHECK_NOTHROW(simplify(u / 3 + u % 7));
  CHECK(LinearSum::of(simplify(u) + u).has_value() == false);
}

TEST_CASE("a sum of more terms than the limit still simplifies locally") {
  UOp u = constant(0);
  for (int i = 0; i < 300; i++) u = u + variable("t" + std::to_string(i), 0, 3) + 1;
  const UOp s = simplify(u);
  CHECK(s.bounds().hi.equals(1200));
  CHECK(s.bounds().lo.equals(300));
}
