#include "uop/print.h"

#include "uop/parse.h"
#include "uop/uop.h"

#include <array>

#include "support/test.h"

using namespace lathe;
using lathe::test::contains;

namespace {

void check_round_trip(const UOp& u) {
  const std::string text = print(u);
  INFO(text);
  const Result<UOp> back = parse(text);
  REQUIRE_MESSAGE(back.ok(), back.error().message());
  CHECK(back.value() == u);
  CHECK(print(back.value()) == text);
}

UOp kernel() {
  const UOp p0 = param(0, {SInt(16)}, DType::Float32), p1 = param(1, {SInt(16)}, DType::Float32);
  const UOp r = range(16, 0, AxisType::Loop);
  const UOp value = load(index(p1, r)) * constant(Scalar(2.0));
  const UOp loop = UOp::make(Op::End, {store(index(p0, r), value), r});
  auto arg = std::make_shared<KernelArg>();
  arg->name = "double";
  arg->actions = {{ActionKind::Upcast, 0, 4}, {ActionKind::Tile, 1, -1}};
  arg->given = std::vector<Action>{};
  return sink({&loop, 1}, KernelPtr(arg));
}

ParseError parse_error(std::string_view text) {
  const Result<UOp> r = parse(text);
  REQUIRE_MESSAGE(!r.ok(), "this parses: ", text);
  return r.error();
}

UOp long_chain(int n) {
  UOp u = variable("x", 0, 1);
  for (int i = 0; i < n; i++) u = u + 1;
  return u;
}

}  // namespace

TEST_CASE("a kernel prints one node a line and reads back as the same node") {
  const UOp u = kernel();
  CHECK(print(u) ==
        "%0 = Param float [16] {slot=0}\n"
        "%1 = Range weakint 16 {id=0 type=Loop}\n"
        "%2 = Index float %0 %1\n"
        "%3 = Param float [16] {slot=1}\n"
        "%4 = Index float %3 %1\n"
        "%5 = Load float %4\n"
        "%6 = Mul float %5 2.0\n"
        "%7 = Store %2 %6\n"
        "%8 = End %7 %1\n"
        "%9 = Sink %8 {kernel=\"double\" actions=[Upcast(0,4) Tile(1,-1)] given=[]}\n");
  check_round_trip(u);
}

TEST_CASE("every kind of argument reads back") {
  const UOp x = param(0, {SInt(2), SInt(3)}, DType::Float32, "CPU:1");
  const int order[] = {1, 0}, flags[] = {0, 1};
  check_round_trip(permute(x, order));
  check_round_trip(flip(x, flags));
  check_round_trip(UOp::make(Op::Reduce, {x}, ReduceArg{Op::Max, 1}));
  check_round_trip(
      UOp::make(Op::Reduce, {constant(1), range(4, 2, AxisType::Reduce)}, ReduceArg{Op::Add, 0}));
  check_round_trip(UOp::make(Op::Copy, {x}, DeviceArg("DISK:/tmp/a \"quoted\" name")));
  check_round_trip(UOp::make(Op::Special, {constant(DType::Int32, 8)}, TextArg("core_id")));
  check_round_trip(UOp::make(Op::Noop, DType::Float32, {x}, TextArg("line\none\ttab\\ \x01\xff")));
  check_round_trip(
      UOp::make(Op::Stage, {x, range(4, -1, AxisType::Outer)}, StageArg{AddrSpace::Local, false}));
  check_round_trip(variable("n", -3, 1000000000000, DType::Int64, 4));
  check_round_trip(new_buffer({SInt(4)}, DType::Float16, "CPU"));
  check_round_trip(new_buffer({SInt(4)}, DType::Float16, "", AddrSpace::Reg));
  check_round_trip(sink({&x, 1}, KernelPtr(std::make_shared<KernelArg>())));
  check_round_trip(sink({&x, 1}));
  check_round_trip(prepend(x, {SInt(variable("a", 1, 6)), SInt(1)}));
}

TEST_CASE("constants read back bit for bit") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double v : {0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, 0.1, nan, inf, -inf})
    check_round_trip(constant(Scalar(v)));
  for (const int128 v : {int128{0}, int128{-7}, int128{1} << 100, -(int128{1} << 126) * 2})
    check_round_trip(constant(Scalar(v)));
  check_round_trip(constant(Scalar(true)));
  check_round_trip(invalid());
  check_round_trip(constant(DType::Float16, 0.1));
  check_round_trip(constant(DType::UInt64, Scalar(~uint64_t{0})));
  check_round_trip(constant(DType::BFloat16, nan));
  CHECK(print(constant(3)) == "%0 = 3\n");
  CHECK(print(constant(DType::Float32, 3)) == "%0 = 3.0:float\n");
  CHECK(print(constant(DType::Int8, 3) + constant(DType::Int8, -1)) == "%0 = Add char 3:char -1:char\n");
  // Nodes that no builder makes keep their exact form too.
  check_round_trip(UOp::make(Op::Const, DType::Float32, {}, Scalar(3)));
  check_round_trip(UOp::make(Op::Const, DType::UInt8, {}, Scalar(300)) + 1);
  check_round_trip(UOp::make(Op::Const, DType::Float32, {}, Scalar::invalid()));
}

TEST_CASE("stacks of constants stand where they are used") {
  std::vector<UOp> lanes = {constant(1), constant(Scalar(2.5)), invalid()};
  check_round_trip(stack(lanes));
  CHECK(print(stack(lanes)) == "%0 = [1 2.5 Invalid]\n");
  check_round_trip(shape_node({}));
  for (int i = 0; i < 9; i++) lanes.push_back(constant(i));
  check_round_trip(stack(lanes));
  const std::vector<UOp> nested = {stack(lanes), stack(lanes)};
  check_round_trip(stack(nested));
  CHECK(parse("%0 = [[1 2] [3 4]]").or_throw().shape() == Shape{SInt(2), SInt(2)});
  const UOp a = variable("a", 0, 3);
  check_round_trip(stack({{a, constant(1)}}));
  CHECK(parse(print(a) + "%1 = [%0 1]").or_throw() == stack({{a, constant(1)}}));
}

TEST_CASE("a shared node has one line") {
  UOp u = variable("x", 0, 1);
  for (int i = 0; i < 20; i++) u = u + u;
  const std::string text = print(u);
  CHECK(text.size() < 10000);
  CHECK(std::count(text.begin(), text.end(), '\n') == 21);
  check_round_trip(u);
}

TEST_CASE("bodies of calls are part of the text") {
  const UOp buffer = new_buffer({SInt(16)}, DType::Float32, "CPU");
  check_round_trip(UOp::make(Op::Call, {kernel(), buffer, buffer}));
  const UOp p = param(0, {SInt(16)}, DType::Float32, "CPU");
  const UOp made =
      call(sink(std::array{p + p, p * p}), {&buffer, 1},
           {.name = "f", .n_written = 2, .precompile = true, .recompute = true, .gradient_id = 3});
  check_round_trip(call_result(made, 1));
  CHECK(call_result(made, 1).shape() == buffer.shape());
  check_round_trip(
      sink({&p, 1}, std::make_shared<const KernelArg>(KernelArg{"k", {}, {}, "a\n\"b\"", true, 4})));
}

TEST_CASE("renumbered buffers make prints of equal graphs equal") {
  const auto graph = [] {
    const UOp a = new_buffer({SInt(4)}, DType::Float32, "CPU"),
              b = new_buffer({SInt(4)}, DType::Float32, "CPU");
    return a * b + a;
  };
  const UOp first = graph(), second = graph();
  CHECK(print(first) != print(second));
  const std::string text = print(first, {.renumber = true});
  CHECK(text == print(second, {.renumber = true}));
  CHECK(contains(text, "slot=@0"));
  CHECK(contains(text, "slot=@1"));
  const UOp third = parse(text).or_throw();
  CHECK(!(third == first));
  CHECK(!(third == second));
  CHECK(third.src(1) == third.src(0).src(0));
  CHECK(third.src(1).param().store != nullptr);
  CHECK(print(third, {.renumber = true}) == text);
}

TEST_CASE("shapes are a comment") {
  const UOp u = param(0, {SInt(2), SInt(3)}, DType::Float32);
  const std::string text = print(u, {.shapes = true});
  CHECK(text == "%0 = Param float [2 3] {slot=0}  # (2, 3)\n");
  CHECK(parse(text).or_throw() == u);
}

TEST_CASE("a list keeps its order") {
  const UOp p = param(0, {SInt(4)}, DType::Int32), one = constant(DType::Int32, 1),
            i = constant(DType::Int32, 0);
  const UOp at = index(p, i), value = load(at) + one, write = store(at, value), end = sink({&write, 1});
  const std::vector<UOp> list = {one, p, i, at, load(at), value, write, end};
  const std::string text = print_list(list);
  INFO(text);
  CHECK(text.starts_with("%0 = 1:int\n%1 = Param int [4] {slot=0}\n%2 = 0:int\n%3 = Index int %1 0:int\n"));
  CHECK(parse_list(text).or_throw() == list);
  // What is not in the list comes before its first user.
  const std::vector<UOp> open = {write, end};
  CHECK(parse_list(print_list(open)).or_throw() == std::vector<UOp>{p, at, load(at), value, write, end});
}

TEST_CASE("a chain of a million nodes prints its ends and reads back") {
  const UOp u = long_chain(1000000);
  CHECK(print_head(u, 2) ==
        "%0 = Param weakint [] {slot=-1 space=Alu name=\"x\" bounds=[0 1]}\n"
        "%1 = Add weakint %0 1\n"
        "# 999997 more lines\n"
        "%999999 = Add weakint %999998 1\n"
        "%1000000 = Add weakint %999999 1\n");
  const Result<UOp> back = parse(print(u));
  REQUIRE(back.ok());
  CHECK(back.value() == u);
}

TEST_CASE("a head that covers the graph is the graph") {
  const UOp u = kernel();
  CHECK(print_head(u, 5) == print(u));
  CHECK(print_head(u, SIZE_MAX) == print(u));
  CHECK(print_head(u, 0) == "# 10 more lines\n");
  CHECK(contains(print_head(u, 4), "# 2 more lines"));
}

TEST_CASE("text by hand may leave out what follows") {
  const UOp a = variable("a", 0, 8);
  const UOp u = parse(
                    "\n  # a sum\n%7 = Param weakint [] {slot=-1 space=Alu name=\"a\" bounds=[0 8]}\r\n"
                    "%9 = Add %7 0x10 # comment\n\n")
                    .or_throw();
  CHECK(u == a + 16);
  CHECK(parse("%0 = 3:half").or_throw() == constant(DType::Float16, 3));
  CHECK(parse("%0 = Sink").or_throw() == sink({}));
}

TEST_CASE("parse errors name offset and cause") {
  struct Row {
    const char* text;
    size_t offset;
    const char* cause;
  };
  const Row rows[] = {
      {"", 0, "no node"},
      {"# nothing\n", 0, "no node"},
      {"Add 1 2", 0, "expected %number"},
      {"%0 Add", 3, "expected ="},
      {"%0 = Bad 1", 5, "expected an operand"},
      {"%0 = Add 1", 5, "Add takes 2 sources, got 1"},
      {"%0 = Index float", 5, "Index takes at least 1 sources"},
      {"%0 = Add 1 %1", 11, "%1 is not defined"},
      {"%0 = 1\n%0 = 2", 7, "%0 is defined twice"},
      {"%0 = 1 2", 7, "unexpected '2'"},
      {"%0 = 3:void", 7, "no dtype"},
      {"%0 = Invalid:float", 12, "Invalid has no dtype"},
      {"%99999999999 = 1", 0, "above 32 bits"},
      {"%0 = Cast 1", 5, "Cast needs a dtype"},
      {"%0 = Range 4", 5, "needs its arguments"},
      {"%0 = Range 4 {id=0 id=1}", 19, "given twice"},
      {"%0 = Range 4 {id=0 slot=1}", 19, "does not belong"},
      {"%0 = Range 4 {id=9999999999}", 17, "does not fit"},
      {"%0 = Range 4 {foo=1}", 14, "no argument starts"},
      {"%0 = Range 4 {id=0 type=Sideways}", 24, "no axis type"},
      {"%0 = Range 4 {id=0", 18, "expected name=value"},
      {"%0 = Param float [4] {slot=0 name=\"abc", 34, "string without end"},
      {"%0 = Param float [4] {slot=0 bounds=[3 2]}", 36, "low <= high"},
      {"%0 = Param float [4] {slot=@0}", 27, "number is missing"},
      {"%0 = Param float 4 {slot=0}", 5, "not a Stack"},
      {"%0 = Param [4] {slot=0}", 15, "dtype is missing"},
      {"%0 = Param float [2 2] {slot=0}\n%1 = Permute float %0 {axes=[0 0]}", 37, "no permutation"},
      {"%0 = Param float [2 2] {slot=0}\n%1 = Permute float %0 {axes=[0 9]}", 37, "no permutation"},
      {"%0 = Param float [2] {slot=0}\n%1 = Param float [3] {slot=0}\n%2 = Add %0 %1", 65, "broadcast"},
      {"%0 = [[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]", 21, "deeper than 16"},
      {"%0 = [1 2", 9, "expected an operand"},
      {"%0 = 170141183460469231731687303715884105728", 5, "more than 127 bits"},
      {"%0 = 1e999", 5, "not a double"},
      {"%0 = Sink {kernel=\"k\" actions=[Fly(0,1)]}", 31, "no action"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const ParseError e = parse_error(row.text);
    CHECK(e.offset == row.offset);
    CAPTURE(e.text);
    CHECK(contains(e.text, row.cause));
  }
  CHECK(parse_error("%0 = \x1b[31m\n").message() ==
        "graph text: offset 5: expected an operand, got '?[31m?': a number is missing");
}

TEST_CASE("parsing leaves nothing behind") {
  const size_t before = live_node_count();
  {
    const UOp u = kernel();
    (void)parse(print(u)).or_throw();
    (void)parse_error("%0 = 1234567\n%1 = Add %0 %2");
  }
  CHECK(live_node_count() == before);
}

TEST_CASE("one node for a message") {
  const UOp u = kernel();
  const UOp write = u.src(0).src(0);
  CHECK(print_node(write) == "Store (Index float, Mul float)");
  CHECK(print_node(write.src(0).src(1)) == "Range weakint (Const weakint) {id=0 type=Loop}");
}
