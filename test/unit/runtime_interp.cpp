#include "base/knobs.h"
#include "runtime/device.h"
#include "uop/eval.h"
#include "uop/parse.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/emulated.h"
#include "support/test.h"

using namespace lathe;
using test::contains;
using test::thrown;
using test::user_error;

namespace {

template <class T>
std::shared_ptr<Buffer> filled(const std::vector<T>& values) {
  auto buffer = Buffer::make(device("INTERP"), values.size() * sizeof(T));
  buffer->copy_in(std::as_bytes(std::span(values)));
  return buffer;
}

template <class T>
std::vector<T> read(const Buffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}

std::unique_ptr<Program> load(const std::string& text) {
  return device("INTERP").load({"kernel", "", parse_list(text).or_throw()});
}

using Buffers = std::vector<std::shared_ptr<Buffer>>;

void run_program(Program& program, const Buffers& bufs, const std::vector<int64_t>& vars, int n_cores) {
  std::vector<Buffer*> pointers;
  for (const auto& buffer : bufs) pointers.push_back(buffer.get());
  program.run(pointers, vars, n_cores, false);
}

bool can_render(std::span<const UOp> linear) {
  for (const UOp& u : linear)
    if (!why_not_rendered(u.op()).empty()) return false;
  return true;
}

// On the interpreter; and what it makes of the buffers, the compiled back ends must make too.
void run(const std::string& text, const Buffers& bufs, const std::vector<int64_t>& vars = {}, int n_cores = 1,
         const std::vector<std::string>& others = {"CPU", "CPU:C"}) {
  std::vector<std::vector<uint8_t>> before;
  for (const auto& buffer : bufs) before.push_back(read<uint8_t>(*buffer));
  run_program(*load(text), bufs, vars, n_cores);

  const std::vector<UOp> linear = parse_list(text).or_throw();
  if (!can_render(linear)) return;
  KnobScope no_cache(Knob::CACHELEVEL, 0);
  for (const std::string& name : others) {
    Device& other = device(name);
    const Rendered rendered = other.renderer()->render("kernel", test::emulated(linear, other.target()));
    CAPTURE(rendered.source);
    Buffers copies;
    for (const auto& bytes : before) copies.push_back(filled(bytes));
    run_program(*other.load({rendered.entry, rendered.source, {}}), copies, vars, n_cores);
    for (size_t i = 0; i < bufs.size(); i++) CHECK(read<uint8_t>(*copies[i]) == read<uint8_t>(*bufs[i]));
  }
}

// The kernel stores `expression`, of which %2 is a loop over n elements and %5, %8, … the elements of the
// inputs, which are vectors of one type.
template <class Out, class In>
std::vector<Out> elementwise(const std::string& out_type, const std::string& in_type,
                             const std::vector<std::vector<In>>& inputs, const std::string& expression) {
  const size_t n = inputs[0].size();
  std::string text = fmt::format("%0 = Param {} [{}] {{slot=0}}\n%2 = Range int {}:int {{id=0 type=Loop}}\n",
                                 out_type, n, n);
  Buffers bufs = {filled(std::vector<Out>(n))};
  for (size_t i = 0; i < inputs.size(); i++) {
    text +=
        fmt::format("%{0} = Param {1} [{2}] {{slot={3}}}\n%{4} = Index {1} %{0} %2\n%{5} = Load {1} %{4}\n",
                    3 + 3 * i, in_type, n, i + 1, 4 + 3 * i, 5 + 3 * i);
    bufs.push_back(filled(inputs[i]));
  }
  text += "%90 = " + expression +
          fmt::format("\n%91 = Index {} %0 %2\n%92 = Store %91 %90\n%93 = End %92 %2\n%94 = Sink %93\n",
                      out_type);
  run(text, bufs, {}, 1, {"CPU"});
  return read<Out>(*bufs[0]);
}

using F = std::vector<float>;
using I = std::vector<int32_t>;
using U8 = std::vector<uint8_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

}  // namespace

TEST_CASE("every ALU op of a linear program") {
  CHECK(elementwise<float, float>("float", "float", {{1, 2.5f, -3}, {4, 0.5f, 3}}, "Add %5 %8") ==
        F{5, 3, 0});
  CHECK(elementwise<float, float>("float", "float", {{1, 2.5f}, {4, 0.5f}}, "Sub %5 %8") == F{-3, 2});
  CHECK(elementwise<float, float>("float", "float", {{1, 2.5f}, {4, 0.5f}}, "Mul %5 %8") == F{4, 1.25f});
  CHECK(elementwise<float, float>("float", "float", {{1, 2}, {4, 0.5f}}, "FDiv %5 %8") == F{0.25f, 4});
  CHECK(elementwise<float, float>("float", "float", {{4, 0.5f}}, "Reciprocal %5") == F{0.25f, 2});
  CHECK(elementwise<float, float>("float", "float", {{4, -0.5f}}, "Neg %5") == F{-4, 0.5f});
  CHECK(elementwise<float, float>("float", "float", {{4, 0.25f}}, "Sqrt %5") == F{2, 0.5f});
  CHECK(elementwise<float, float>("float", "float", {{2.7f, -2.7f}}, "Trunc %5") == F{2, -2});
  CHECK(elementwise<float, float>("float", "float", {{3, -1}}, "Exp2 %5") == F{8, 0.5f});
  CHECK(elementwise<float, float>("float", "float", {{8, 0.5f}}, "Log2 %5") == F{3, -1});
  CHECK(elementwise<float, float>("float", "float", {{0, 1}}, "Sin %5") == F{0, std::sin(1.0f)});
  CHECK(elementwise<float, float>("float", "float", {{3, 2}, {2, -1}}, "Pow %5 %8") == F{9, 0.5f});
  CHECK(elementwise<float, float>("float", "float", {{2, 3}, {5, 7}, {1, 1}}, "MulAcc %5 %8 %11") ==
        F{11, 22});
  CHECK(elementwise<float, float>("float", "float", {{1, 5, kInf}, {4, 2, 1}}, "Max %5 %8") == F{4, 5, kInf});
  // a < b ? b : a: a NaN on the left stays, one on the right does not win
  CHECK(std::isnan(elementwise<float, float>("float", "float", {{kNan}, {1}}, "Max %5 %8")[0]));
  CHECK(elementwise<float, float>("float", "float", {{1}, {kNan}}, "Max %5 %8") == F{1});

  const int32_t low = INT32_MIN, high = INT32_MAX;
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{high, 5}, {1, -7}}, "Add %5 %8") == I{low, -2});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{65536, -3}, {65536, 7}}, "Mul %5 %8") == I{0, -21});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{7, -7, 7}, {2, 2, -2}}, "CDiv %5 %8") == I{3, -3, -3});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{7, -7, 7}, {2, 2, -2}}, "CMod %5 %8") == I{1, -1, 1});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{7, -7, 7}, {2, 2, -2}}, "FloorDiv %5 %8") ==
        I{3, -4, -4});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{7, -7, 7}, {2, 2, -2}}, "FloorMod %5 %8") ==
        I{1, 1, -1});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{3, -1}, {4, 31}}, "Shl %5 %8") == I{48, low});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{48, -5}, {4, 1}}, "Shr %5 %8") == I{3, -3});
  CHECK(elementwise<uint32_t, uint32_t>("uint", "uint", {{0xfffffffb}, {1}}, "Shr %5 %8") ==
        std::vector<uint32_t>{0x7ffffffd});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{12}, {10}}, "Xor %5 %8") == I{6});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{12}, {10}}, "Or %5 %8") == I{14});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{12}, {10}}, "And %5 %8") == I{8});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{low + 1}, {1}}, "Max %5 %8") == I{1});
  CHECK(elementwise<int32_t, int32_t>("int", "int", {{low}}, "Neg %5") == I{low});
  CHECK(elementwise<uint8_t, uint8_t>("uchar", "uchar", {{200}, {100}}, "Add %5 %8") == U8{44});
  // The counter 0 under key 0 of Random123's known answers for threefry2x32, 20 rounds.
  CHECK(elementwise<uint64_t, uint64_t>("ulong", "ulong", {{0}, {0}}, "Threefry %5 %8") ==
        std::vector<uint64_t>{0x99ba4efe'6b200159u});
}

TEST_CASE("comparisons give bools, one byte each") {
  CHECK(elementwise<uint8_t, float>("bool", "float", {{1, 2, kNan, 1}, {2, 1, 1, 1}}, "CmpLt %5 %8") ==
        U8{1, 0, 0, 0});
  CHECK(elementwise<uint8_t, float>("bool", "float", {{1, 2, kNan}, {1, 1, kNan}}, "CmpNe %5 %8") ==
        U8{0, 1, 1});
  CHECK(elementwise<uint8_t, float>("bool", "float", {{1, 2, kNan}, {1, 1, kNan}}, "CmpEq %5 %8") ==
        U8{1, 0, 0});
  CHECK(elementwise<uint8_t, int32_t>("bool", "int", {{-1, 2}, {1, 2}}, "CmpLt %5 %8") == U8{1, 0});
  CHECK(elementwise<uint8_t, uint8_t>("bool", "bool", {{0, 1}, {1, 1}}, "Xor %5 %8") == U8{1, 0});
  CHECK(elementwise<float, uint8_t>("float", "bool", {{0, 1}}, "Where %5 1.5:float 2.5:float") ==
        F{2.5f, 1.5f});
}

TEST_CASE("casts") {
  CHECK(elementwise<int32_t, float>("int", "float", {{2.9f, -2.9f, 0.5f}}, "Cast int %5") == I{2, -2, 0});
  CHECK(elementwise<uint8_t, float>("bool", "float", {{0, -0.0f, 0.25f, kNan}}, "Cast bool %5") ==
        U8{0, 0, 1, 1});
  CHECK(elementwise<uint8_t, int32_t>("uchar", "int", {{300, -1}}, "Cast uchar %5") == U8{44, 255});
  CHECK(elementwise<float, int32_t>("float", "int", {{16777217, -5}}, "Cast float %5") == F{16777216, -5});
  CHECK(elementwise<uint16_t, float>("half", "float", {{1, 65520}}, "Cast half %5") ==
        std::vector<uint16_t>{0x3c00, 0x7c00});
  CHECK(elementwise<float, uint16_t>("float", "bfloat16", {{0x3f80, 0xc040}}, "Cast float %5") == F{1, -3});
  CHECK(elementwise<int32_t, float>("int", "float", {{1.0f}}, "Bitcast int %5") == I{0x3f800000});
  CHECK(elementwise<float, int32_t>("float", "int", {{0x7f800000}}, "Bitcast float %5") == F{kInf});
}

TEST_CASE("a bitcast of lanes keeps their order in memory") {
  auto out = filled<uint16_t>(std::vector<uint16_t>(4));
  auto in = filled<int32_t>({0x00020001, 0x00040003});
  run(R"(
    %0 = Param ushort [4] {slot=0}
    %1 = Param int [2] {slot=1}
    %2 = Stack int 0:int
    %3 = Shrink int %1 %2 [2]
    %4 = Load int %3
    %5 = Bitcast ushort %4
    %6 = Shrink ushort %0 %2 [4]
    %7 = Store %6 %5
    %8 = Sink %7
  )",
      {out, in});
  CHECK(read<uint16_t>(*out) == std::vector<uint16_t>{1, 2, 3, 4});
}

TEST_CASE("nested loops, with a bound that is a variable, and an accumulator in scratch") {
  // out[i] = sum over j < n of a[i * 4 + j]
  const std::string text = R"(
    %0 = Param float [3] {slot=0}
    %1 = Param float [12] {slot=1}
    %2 = Param int [] {slot=-1 space=Alu name="n" bounds=[0 4]}
    %3 = Buffer float [1] {slot=@7 space=Reg}
    %4 = Range int 3:int {id=0 type=Loop}
    %5 = Index float %3 0:int
    %6 = Store %5 0.0:float
    %7 = Range int %2 {id=1 type=Reduce}
    %8 = Mul int %4 4:int
    %9 = Add int %8 %7
    %10 = Index float %1 %9
    %11 = Load float %10
    %12 = After float %3 %6 %7
    %13 = Index float %12 0:int
    %14 = Load float %13
    %15 = Add float %14 %11
    %16 = Store %5 %15
    %17 = End %16 %7
    %18 = After float %3 %17
    %19 = Index float %18 0:int
    %20 = Load float %19
    %21 = Index float %0 %4
    %22 = Store %21 %20
    %23 = End %22 %4
    %24 = Sink %23
  )";
  auto a = filled<float>({1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400});
  auto out = filled<float>({-1, -1, -1});
  run(text, {out, a}, {3});
  CHECK(read<float>(*out) == F{6, 60, 600});
  run(text, {out, a}, {4});
  CHECK(read<float>(*out) == F{10, 100, 1000});
  run(text, {out, a}, {0});
  CHECK(read<float>(*out) == F{0, 0, 0});
}

TEST_CASE("buffers go by slot and variables by name, whatever the order of their lines") {
  auto first = filled<int64_t>({0});
  auto second = filled<int64_t>({100});
  run(R"(
    %0 = Param long [] {slot=-1 space=Alu name="zebra" bounds=[0 9]}
    %1 = Param long [1] {slot=5}
    %2 = Param int [] {slot=-1 space=Alu name="ape" bounds=[0 9]}
    %3 = Param long [1] {slot=2}
    %4 = Index long %1 0:int
    %5 = Load long %4
    %6 = Cast long %2
    %7 = Mul long %6 10:long
    %8 = Add long %7 %0
    %9 = Add long %8 %5
    %10 = Index long %3 0:int
    %11 = Store %10 %9
    %12 = Sink %11
  )",
      {first, second}, {3, 4});
  CHECK(read<int64_t>(*first) == std::vector<int64_t>{134});
  CHECK(read<int64_t>(*second) == std::vector<int64_t>{100});
}

TEST_CASE("each core runs its part") {
  const std::string text = R"(
    %0 = Param int [8] {slot=0}
    %1 = Special int 4:int {text="core_id"}
    %2 = Range int 2:int {id=0 type=Loop}
    %3 = Mul int %1 2:int
    %4 = Add int %3 %2
    %5 = Index int %0 %4
    %6 = Mul int %4 %4
    %7 = Store %5 %6
    %8 = End %7 %2
    %9 = Sink %8
  )";
  auto out = filled<int32_t>(I(8, -1));
  run(text, {out}, {}, 2);
  CHECK(read<int32_t>(*out) == I{0, 1, 4, 9, -1, -1, -1, -1});
  run(text, {out}, {}, 4);
  CHECK(read<int32_t>(*out) == I{0, 1, 4, 9, 16, 25, 36, 49});
}

TEST_CASE("If guards effects and loops") {
  auto out = filled<int32_t>(I(4, -1));
  run(R"(
    %0 = Param int [4] {slot=0}
    %1 = Range int 4:int {id=0 type=Loop}
    %2 = CmpLt bool %1 2:int
    %3 = If %2 %1
    %4 = Range int 3:int {id=1 type=Loop}
    %5 = Index int %0 %1
    %6 = Store %5 %4
    %7 = End %6 %4
    %8 = EndIf %3
    %9 = Group %7 %8
    %10 = End %9 %1
    %11 = Sink %10
  )",
      {out});
  CHECK(read<int32_t>(*out) == I{2, 2, -1, -1});
}

TEST_CASE("vectors: contiguous load and store, lanes, shuffles, broadcast") {
  auto out = filled<float>(F(8, -1));
  auto in = filled<float>({1, 2, 3, 4, 5, 6});
  run(R"(
    %0 = Param float [8] {slot=0}
    %1 = Param float [6] {slot=1}
    %2 = Stack int 2:int
    %3 = Shrink float %1 %2 [4]
    %4 = Load float %3
    %5 = Index float %4 1:int
    %6 = Index float %4 [3 0 0 2]
    %7 = Mul float %6 %5
    %8 = Stack int 0:int
    %9 = Shrink float %0 %8 [4]
    %10 = Store %9 %7
    %11 = Stack int 4:int
    %12 = Shrink float %0 %11 [2]
    %13 = Store %12 9.0:float
    %14 = Stack float %5 0.5:float
    %15 = Stack int 6:int
    %16 = Shrink float %0 %15 [2]
    %17 = Store %16 %14
    %18 = Sink %10 %13 %17
  )",
      {out, in});
  CHECK(read<float>(*out) == F{24, 12, 12, 20, 9, 9, 4, 0.5f});
}

TEST_CASE("a vector of indices gathers and scatters") {
  auto out = filled<int32_t>(I(6, -1));
  auto in = filled<int32_t>({10, 11, 12, 13, 14});
  run(R"(
    %0 = Param int [6] {slot=0}
    %1 = Param int [5] {slot=1}
    %2 = Stack int 4:int 0:int 2:int
    %3 = Index int %1 %2
    %4 = Load int %3
    %5 = Add int %2 1:int
    %6 = Index int %0 %5
    %7 = Store %6 %4
    %8 = Sink %7
  )",
      {out, in});
  CHECK(read<int32_t>(*out) == I{-1, 10, -1, 12, -1, 14});
}

TEST_CASE("gated loads give the alternative and touch nothing, gated stores do nothing") {
  // One gate for all lanes, and one a lane; the index of a closed lane is far outside.
  auto out = filled<int32_t>(I(8, -1));
  auto in = filled<int32_t>({10, 11});
  run(R"(
    %0 = Param int [8] {slot=0}
    %1 = Param int [2] {slot=1}
    %2 = Range int 4:int {id=0 type=Loop}
    %3 = CmpLt bool %2 2:int
    %4 = Mul int %2 1000000:int
    %5 = Where int %3 %2 %4
    %6 = Index int %1 %5
    %7 = Load int %6 77:int %3
    %8 = Index int %0 %2
    %9 = CmpNe bool %2 1:int
    %10 = Store %8 %7 %9
    %11 = End %10 %2
    %12 = Sink %11
  )",
      {out, in});
  CHECK(read<int32_t>(*out) == I{10, -1, 77, 77, -1, -1, -1, -1});

  run(R"(
    %0 = Param int [8] {slot=0}
    %1 = Param int [2] {slot=1}
    %2 = Stack int -5:int 0:int 1:int 2:int
    %3 = CmpLt bool -1:int %2
    %4 = CmpLt bool %2 2:int
    %5 = And bool %3 %4
    %6 = Index int %1 %2
    %7 = Load int %6 55:int %5
    %8 = Stack int 4:int
    %9 = Shrink int %0 %8 [4]
    %10 = CmpNe bool %2 1:int
    %11 = Store %9 %7 %10
    %12 = Sink %11
  )",
      {out, in});
  CHECK(read<int32_t>(*out) == I{10, -1, 77, 77, 55, 10, -1, 55});

  // golden behaviours of the backend specification
  auto four = filled<int32_t>(I(4));
  run(R"(
    %0 = Param int [4] {slot=0}
    %1 = Special int 4:int {text="core_id"}
    %2 = Index int %0 %1
    %3 = CmpNe bool %1 0:int
    %4 = Store %2 1:int %3
    %5 = Sink %4
  )",
      {four}, {}, 4);
  CHECK(read<int32_t>(*four) == I{0, 1, 1, 1});
}

TEST_CASE("an access outside its buffer names slot, index and size") {
  const std::string text = R"(
    %0 = Param float [100] {slot=0}
    %1 = Param float [100] {slot=3}
    %2 = Param int [] {slot=-1 space=Alu name="i" bounds=[-9 200]}
    %3 = Index float %1 %2
    %4 = Load float %3
    %5 = Index float %0 0:int
    %6 = Store %5 %4
    %7 = Sink %6
  )";
  auto out = filled<float>(F(100)), small = filled<float>(F(7)), large = filled<float>(F(120));
  run(text, {out, small}, {6});
  auto error = user_error([&] { run(text, {out, small}, {7}); });
  CHECK(error.kind() == UserError::Kind::Index);
  CHECK(contains(error.what(), "kernel: Load outside buffer slot 3: index 7, size 7 (float)"));
  CHECK(contains(user_error([&] { run(text, {out, small}, {-1}); }).what(), "index -1"));
  // The declared size counts where the buffer is larger.
  CHECK(contains(user_error([&] { run(text, {out, large}, {100}); }).what(), "size 100"));

  const std::string store = R"(
    %0 = Param float [4] {slot=0}
    %1 = Stack int 2:int
    %2 = Shrink float %0 %1 [4]
    %3 = Store %2 1.0:float
    %4 = Sink %3
  )";
  auto four = filled<float>(F(4));
  CHECK(contains(user_error([&] { run(store, {four}); }).what(),
                 "Store outside buffer slot 0: index 4, size 4"));
}

TEST_CASE("scratch that was never written is an error") {
  auto out = filled<float>({0});
  auto error = thrown<DeviceError>([&] {
    run(R"(
      %0 = Param float [1] {slot=0}
      %1 = Buffer float [2] {slot=@4 space=Reg}
      %2 = Index float %1 0:int
      %3 = Store %2 1.0:float
      %4 = After float %1 %3
      %5 = Index float %4 1:int
      %6 = Load float %5
      %7 = Index float %0 0:int
      %8 = Store %7 %6
      %9 = Sink %8
    )",
        {out});
  });
  CHECK(contains(error.what(), "read at 1 before it is written"));
}

TEST_CASE("division by zero has no value") {
  auto error =
      thrown<DeviceError>([] { elementwise<int32_t, int32_t>("int", "int", {{7}, {0}}, "CDiv %5 %8"); });
  CHECK(contains(error.what(), "CDiv(7, 0) of type int has no value"));
}

TEST_CASE("what is no linear program is refused when it is loaded") {
  CHECK_THROWS_AS(load("%0 = Range int 4:int {id=0 type=Loop}\n%1 = Sink\n"), InternalError);
  CHECK_THROWS_AS(
      load("%0 = Range int 4:int {id=0 type=Loop}\n%1 = Range int 4:int {id=1 type=Loop}\n%2 = Noop\n"
           "%3 = End %2 %0\n%4 = End %3 %1\n%5 = Sink %4\n"),
      InternalError);
  CHECK_THROWS_AS(load("%0 = Param float [4] {slot=0}\n%1 = Reshape float %0 [2 2]\n%2 = Sink %1\n"),
                  InternalError);
  std::vector<UOp> list = parse_list(
                              "%0 = Param float [4] {slot=0}\n%1 = Index float %0 0:int\n%2 = Load float %1\n"
                              "%3 = Add float %2 1.0:float\n%4 = Store %1 %3\n%5 = Sink %4\n")
                              .or_throw();
  std::swap(list[2], list[3]);
  auto error = thrown<InternalError>([&] { device("INTERP").load({"kernel", "", list}); });
  CHECK(contains(error.what(), "used before it is computed"));
}

TEST_CASE("the number of arguments is checked") {
  auto program = load(
      "%0 = Param float [4] {slot=0}\n%1 = Index float %0 0:int\n%2 = Store %1 1.0:float\n%3 = Sink %2\n");
  CHECK_THROWS_AS(program->run({}, {}, 1, false), InternalError);
  auto out = filled<float>(F(4));
  Buffer* bufs[] = {out.get()};
  const int64_t extra[] = {1};
  CHECK_THROWS_AS(program->run(bufs, extra, 1, false), InternalError);
  CHECK(program->run(bufs, {}, 1, true) > 0);
}

TEST_CASE("every op of the table is run, or is known to have no place in a linear program") {
  const std::set<Op> structure = {Op::Special, Op::Buffer,  Op::Noop,    Op::Param,  Op::Sink, Op::After,
                                  Op::Group,   Op::Stack,   Op::Index,   Op::Shrink, Op::Load, Op::Store,
                                  Op::Cast,    Op::Bitcast, Op::Barrier, Op::Range,  Op::If,   Op::End,
                                  Op::EndIf,   Op::Const,   Op::Dot};
  const std::set<Op> graphs_only = {
      Op::Call,   Op::Result, Op::Linear, Op::Contiguous, Op::ContiguousBackward,
      Op::Detach, Op::Stage,  Op::Copy,   Op::Reshape,    Op::Permute,
      Op::Expand, Op::Pad,    Op::Flip,   Op::Reduce,     Op::Multi};
  for (int i = 0; i < kNumOps; i++) {
    const Op op = static_cast<Op>(i);
    CAPTURE(op_name(op));
    const int ways = has_eval(op) + structure.contains(op) + graphs_only.contains(op);
    CHECK(ways == 1);
    CHECK(is_alu(op) == has_eval(op));
    CHECK(device("INTERP").target().native_ops.contains(op) == has_eval(op));
  }
}
