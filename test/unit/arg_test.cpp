#include "uop/arg.h"

#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

ParamArg sample_param() {
  ParamArg p;
  p.slot = 3;
  p.dtype = DType::Float32;
  p.name = "weights";
  p.device = "CPU:1";
  p.bounds = {{0, 7}};
  p.multiple_of = 4;
  return p;
}
Arg arg_of(const ParamArg& p) { return std::make_shared<const ParamArg>(p); }
Arg arg_of(const KernelArg& k) { return std::make_shared<const KernelArg>(k); }

AxesArg axes(std::vector<int> v) { return AxesArg(v); }

// Pairwise different args.
std::vector<Arg> distinct_args() {
  std::vector<Arg> out = {std::monostate{},
                          Scalar(1),
                          Scalar(1.0),
                          Scalar(true),
                          Scalar::invalid(),
                          RangeArg{0, AxisType::Loop},
                          RangeArg{1, AxisType::Loop},
                          RangeArg{0, AxisType::Reduce},
                          RangeArg{-1, AxisType::Loop},
                          ReduceArg{Op::Add, 1},
                          ReduceArg{Op::Add, 2},
                          ReduceArg{Op::Max, 1},
                          axes({}),
                          axes({0}),
                          axes({0, 1}),
                          axes({1, 0}),
                          axes({1, 0, 0}),
                          TextArg("a"),
                          TextArg("b"),
                          DeviceArg("a"),
                          StageArg{AddrSpace::Global, true},
                          StageArg{AddrSpace::Global, false},
                          StageArg{AddrSpace::Local, true}};
  const auto param = [&](auto change) {
    ParamArg p = sample_param();
    change(p);
    out.push_back(arg_of(p));
  };
  param([](ParamArg&) {});
  param([](ParamArg& p) { p.slot = -1; });
  param([](ParamArg& p) { p.dtype = DType::Float64; });
  param([](ParamArg& p) { p.space = AddrSpace::Alu; });
  param([](ParamArg& p) { p.name = "weight", p.device = "sCPU:1"; });
  param([](ParamArg& p) { p.device = "CPU"; });
  param([](ParamArg& p) { p.bounds = {{0, 8}}; });
  param([](ParamArg& p) { p.bounds = {{0, 0}}; });
  param([](ParamArg& p) { p.bounds.reset(); });
  param([](ParamArg& p) { p.multiple_of = 1; });
  const Action upcast{ActionKind::Upcast, 0, 4}, unroll{ActionKind::Unroll, 0, 4},
      wide{ActionKind::Upcast, 0, 8};
  using Actions = std::vector<Action>;
  out.push_back(arg_of(KernelArg{}));
  out.push_back(arg_of(KernelArg{"k", {}, {}}));
  out.push_back(arg_of(KernelArg{"", {upcast}, {}}));
  out.push_back(arg_of(KernelArg{"", {unroll}, {}}));
  out.push_back(arg_of(KernelArg{"", {wide}, {}}));
  out.push_back(arg_of(KernelArg{"", {upcast, unroll}, {}}));
  out.push_back(arg_of(KernelArg{"", {}, Actions{}}));
  out.push_back(arg_of(KernelArg{"", {}, Actions{upcast}}));
  out.push_back(arg_of(KernelArg{"k", {}, {}, "text"}));
  out.push_back(arg_of(KernelArg{"k", {}, {}, "text", true}));
  out.push_back(arg_of(KernelArg{"k", {}, {}, "text", false, 2}));
  out.push_back(std::make_shared<const CallArg>());
  out.push_back(std::make_shared<const CallArg>(CallArg{.name = "f"}));
  out.push_back(std::make_shared<const CallArg>(CallArg{.name = "", .n_written = 1}));
  out.push_back(std::make_shared<const CallArg>(CallArg{.name = "", .precompile = true}));
  out.push_back(std::make_shared<const CallArg>(CallArg{.name = "", .recompute = true}));
  out.push_back(std::make_shared<const CallArg>(CallArg{.name = "", .gradient_id = 1}));
  return out;
}

}  // namespace

TEST_CASE("op names parse back") {
  for (int i = 0; i < kNumOps; i++) CHECK(parse_op(op_name(static_cast<Op>(i))) == static_cast<Op>(i));
  CHECK(!parse_op(""));
  CHECK(!parse_op("add"));
  CHECK(!parse_op("Addx"));
  CHECK(!parse_op("Zzz"));
}

TEST_CASE("axis types") {
  const std::tuple<AxisType, const char*, char> rows[] = {
      {AxisType::Outer, "Outer", 'O'},   {AxisType::Global, "Global", 'g'},
      {AxisType::Thread, "Thread", 't'}, {AxisType::Loop, "Loop", 'L'},
      {AxisType::Local, "Local", 'l'},   {AxisType::GroupReduce, "GroupReduce", 'G'},
      {AxisType::Reduce, "Reduce", 'R'}, {AxisType::Upcast, "Upcast", 'u'},
      {AxisType::Unroll, "Unroll", 'r'}, {AxisType::Vector, "Vector", 'v'},
      {AxisType::Dot, "Dot", 'd'},
  };
  for (const auto& [type, name, letter] : rows) {
    CHECK(axis_name(type) == name);
    CHECK(axis_letter(type) == letter);
    CHECK(parse_axis_type(name) == type);
  }
  CHECK(!parse_axis_type("global"));
  CHECK(!parse_axis_type(""));
}

TEST_CASE("axes") {
  const AxesArg a = axes({2, 0, 1});
  CHECK(std::vector<int>(a.span().begin(), a.span().end()) == std::vector<int>{2, 0, 1});
  CHECK(axes({}).span().empty());
  CHECK(axes(std::vector<int>(23, 1)).span().size() == 23);
  const UserError e = lathe::test::user_error([] { axes(std::vector<int>(24, 1)); });
  CHECK(lathe::test::contains(e.what(), "24"));
  CHECK_THROWS_AS(axes({200}), InternalError);
}

TEST_CASE("args compare and hash by value") {
  // Two independent lists: equal values at other addresses.
  const std::vector<Arg> a = distinct_args(), b = distinct_args();
  const Hash128 seed{5, 6};
  for (size_t i = 0; i < a.size(); i++)
    for (size_t j = 0; j < b.size(); j++) {
      INFO(i, " and ", j);
      CHECK(same_arg(a[i], b[j]) == (i == j));
      CHECK((hash_arg(a[i], seed) == hash_arg(b[j], seed)) == (i == j));
    }
  for (const Arg& x : a) CHECK(hash_arg(x, seed) != hash_arg(x, Hash128{5, 7}));
}

TEST_CASE("storage is no part of a parameter's identity") {
  ParamArg p = sample_param();
  p.store = std::make_shared<StorageSlot>();
  CHECK(same_arg(arg_of(p), arg_of(sample_param())));
  CHECK(hash_arg(arg_of(p), {}) == hash_arg(arg_of(sample_param()), {}));
}

TEST_CASE("absent args are equal") {
  CHECK(same_arg(KernelPtr(), KernelPtr()));
  CHECK(!same_arg(KernelPtr(), arg_of(KernelArg{})));
  CHECK(hash_arg(KernelPtr(), {}) != hash_arg(arg_of(KernelArg{}), {}));
}
