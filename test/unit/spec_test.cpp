#include "uop/spec.h"

#include "base/knobs.h"
#include "codegen/passes.h"
#include "uop/parse.h"
#include "uop/uop.h"

#include "support/test.h"

using namespace lathe;
using lathe::test::contains;
using lathe::test::thrown;

namespace {

std::string violation(std::string_view text, SpecLevel level) {
  const auto v = find_violation(parse(text).or_throw(), level);
  return v ? std::string(v->rule) : "";
}

constexpr SpecLevel kT = SpecLevel::Tensor, kK = SpecLevel::Kernel, kP = SpecLevel::Program;

constexpr std::string_view kProgramText =
    "%0 = Param float [16] {slot=0}\n"
    "%1 = Param float [16] {slot=1}\n"
    "%2 = 4:int\n"
    "%3 = Range int 4:int {id=0 type=Loop}\n"
    "%4 = 4:int\n"
    "%5 = Mul int %3 4:int\n"
    "%6 = Stack int %5\n"
    "%7 = Shrink float %0 %6 [4]\n"
    "%8 = Shrink float %1 %6 [4]\n"
    "%9 = Load float %8\n"
    "%10 = 2.0:float\n"
    "%11 = Mul float %9 2.0:float\n"
    "%12 = Store %7 %11\n"
    "%13 = End %12 %3\n"
    "%14 = Sink %13\n";

// The program as a list, each constant once; `without` elements leave it.
std::vector<UOp> program() {
  std::vector<UOp> list = parse_list(kProgramText).or_throw();
  list.erase(list.begin() + 4);  // the second 4:int is the first
  return list;
}

std::string list_violation(const std::vector<UOp>& list) {
  const auto v = find_violation(list);
  return v ? std::string(v->rule) : "";
}

}  // namespace

TEST_CASE("legal graphs of each level") {
  CHECK(violation("%0 = Buffer float [4 4] {slot=9000001 device=\"CPU\"}\n"
                  "%1 = Reduce float %0 {op=Add n_axes=1}\n"
                  "%2 = Reshape float %1 [4 1]\n"
                  "%3 = Mul float %2 0.25\n"
                  "%4 = Cast half %3\n"
                  "%5 = Contiguous half %4\n"
                  "%6 = Sink %5",
                  kT) == "");
  CHECK(violation("%0 = Param float [16] {slot=0}\n"
                  "%1 = Range weakint 16 {id=0 type=Loop}\n"
                  "%2 = CmpLt bool %1 8\n"
                  "%3 = Where weakint %2 %1 Invalid\n"
                  "%4 = Index float %0 %3\n"
                  "%5 = Load float %4\n"
                  "%6 = Range weakint 3 {id=1 type=Reduce}\n"
                  "%7 = Reduce float %5 %6 {op=Max}\n"
                  "%8 = Index float %0 %1\n"
                  "%9 = Store %8 %7\n"
                  "%10 = End %9 %1\n"
                  "%11 = Sink %10 {kernel=\"k\"}",
                  kK) == "");
  CHECK(violation(kProgramText, kP) == "");
  CHECK(list_violation(program()) == "");
}

TEST_CASE("what the text form cannot say") {
  const UOp alone = UOp::make(Op::Store, {constant(1)});
  CHECK(broken_rule(alone, SpecLevel::Tensor) == "the number of sources is the one of the op");
  const UOp size = constant(Scalar(4.0));
  const UOp u = param(0, {SInt(4)}, DType::Float32).with_srcs({{stack({&size, 1})}});
  const auto v = find_violation(u, SpecLevel::Tensor);
  REQUIRE(v.has_value());
  CHECK(v->rule == "shapes are Stacks of integers");
}

TEST_CASE("the order of a program is checked") {
  const std::vector<UOp> good = program();
  const auto position = [&](Op op) {
    for (size_t i = 0; i < good.size(); i++)
      if (good[i].op() == op) return i;
    FAIL("no such op");
    return size_t{0};
  };
  std::vector<UOp> list = good;
  std::swap(list[position(Op::Load)], list[position(Op::Mul)]);
  CHECK(list_violation(list) == "sources come before their users");
  list = good;
  list.insert(list.end() - 1, list[position(Op::Load)]);
  CHECK(list_violation(list) == "a node occurs once");
  list = good;
  list.pop_back();
  CHECK(list_violation(list) == "a program ends in a Sink");
  CHECK(list_violation({}) == "a program ends in a Sink");
  list = good;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(position(Op::End)));
  list.back() = sink({});
  CHECK(list_violation(list) == "every loop and If is closed");

  // The stored value and the loop variable do not outlive the loop.
  const UOp p = list[0], value = good[position(Op::Store)].src(1), r = good[position(Op::Range)];
  const UOp zero = constant(DType::Int32, 0), at = index(p, zero), late = store(at, index(value, zero));
  list = good;
  list.insert(list.end() - 1, {zero, at, index(value, zero), late});
  CHECK(list_violation(list) == "a value is used inside the loop or If that computes it");
  list = good;
  list.insert(list.end() - 1, {index(p, r)});
  CHECK(list_violation(list) == "a loop variable is used outside its loop");

  // Loops that overlap.
  const UOp a = range(constant(DType::Int32, 2), 1, AxisType::Loop),
            b = range(constant(DType::Int32, 2), 2, AxisType::Loop);
  const UOp two = a.src(0), end_a = UOp::make(Op::End, {sink({}), a}),
            end_b = UOp::make(Op::End, {sink({}), b});
  const UOp end_both = UOp::make(Op::End, {sink({}), a, b});
  CHECK(list_violation({two, sink({}), a, b, end_both}) == "an End closes exactly one loop");
  CHECK(list_violation({two, sink({}), a, b, end_b, end_a, sink({{end_a}})}) == "");
  CHECK(list_violation({two, sink({}), a, b, end_a, end_b, sink({{end_a}})}) ==
        "an End closes the innermost open loop or If");
}

TEST_CASE("the error names the node, the rule and the pass") {
  const UOp u =
      parse("%0 = Param int [] {slot=-1 space=Alu name=\"n\"}\n%1 = Add int %0 2.5:float\n%2 = Sink %1")
          .or_throw();
  const auto e = thrown<InternalError>([&] { verify(u, SpecLevel::Tensor, "my_pass"); });
  const std::string text = e.what();
  CAPTURE(text);
  CHECK(contains(text,
                 "UOp verification failed at 3 on Add after my_pass (tensor level): the dtype follows from "
                 "the sources"));
  CHECK(contains(text, "node: Add int (Param int, Const float)"));
  CHECK(contains(text, "expression: (n+2.5)"));
  const auto weak =
      thrown<InternalError>([&] { verify(sink({{constant(1)}}), SpecLevel::Program, "lower"); });
  CHECK(contains(weak.what(), "UOp verification failed at 1 on Sink"));
  const std::vector<UOp> empty;
  CHECK(contains(thrown<InternalError>([&] { verify(empty, "linearize"); }).what(),
                 "after linearize (program level)"));
  verify(program(), "linearize");
}

TEST_CASE("the error names the pass that made the node") {
  const KnobScope spec(Knob::SPEC, 1);
  const Pass passes[] = {
      {"leave", [](const UOp& u, const Target&) { return u; }, SpecLevel::Kernel},
      {"spoil", [](const UOp&, const Target&) { return sink({{constant(1)}}); }, SpecLevel::Program}};
  const auto e = thrown<InternalError>([&] { run_passes(sink({{constant(1)}}), Target(), passes); });
  CHECK(contains(e.what(), "on Sink after spoil (program level): no weak dtype in a program"));
}

TEST_CASE("SPEC=2 looks at every node as it is made") {
  const UOp one = constant(DType::Float32, 1.5), two = constant(DType::Float32, 2.5);
  const KnobScope spec(Knob::SPEC, 2);
  const auto e = thrown<InternalError>([&] {
    ErrorContext context([] { return "running pass p"; });
    UOp::make(Op::Add, DType::Int32, {one, two});
  });
  CAPTURE(std::string(e.what()));
  CHECK(contains(e.what(),
                 "UOp verification failed on Add as it was made: the dtype follows from the sources"));
  CHECK(contains(e.what(), "bad dtype int, expected float on Add"));
  CHECK(contains(e.what(), "running pass p"));
  CHECK(contains(thrown<InternalError>([&] { UOp::make(Op::FloorDiv, {one, two}); }).what(),
                 "for integers only"));
  CHECK(UOp::make(Op::Add, {one, two}).dtype() == DType::Float32);
}

TEST_CASE("the bodies of calls are another graph") {
  const UOp body = sink({{UOp::make(Op::Sub, {constant(DType::Int32, 1), constant(DType::Int32, 2)})}});
  CHECK(!find_violation(UOp::make(Op::Call, {body}), SpecLevel::Tensor));
  CHECK(find_violation(body, SpecLevel::Tensor));
}
