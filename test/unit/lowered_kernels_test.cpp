// What must and must not be left in linear programs.
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "renderer/llvm.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"

#include <algorithm>

#include "support/test.h"

namespace lathe {
namespace {

Tensor e(const Shape& s, DType d) {
  Tensor t = Tensor::empty(s, {.dtype = d, .device = "NULL"});
  t.realize();
  return t;
}

std::vector<std::vector<UOp>> programs_of(const Tensor& t) {
  std::vector<std::vector<UOp>> out;
  for (const ScheduledKernel& k : make_schedule({&t.uop(), 1}).kernels)
    out.push_back(lower(k.body, llvm_target()).linear);
  return out;
}

long count(const std::vector<UOp>& program, Op op) {
  return std::count_if(program.begin(), program.end(), [&](const UOp& u) { return u.op() == op; });
}

}  // namespace

TEST_CASE("a gather from a large table computes its addresses in 32 bits") {
  const Tensor table = e({128000, 8}, DType::Float32), rows = e({60000}, DType::Int32);
  for (const auto& program : programs_of(table.index({rows})))
    for (const UOp& u : program) {
      INFO(op_name(u.op()));
      CHECK(u.dtype() != DType::Int64);
    }
}

TEST_CASE("a reduction of a constant is a constant: no load, no loop") {
  const Tensor ones = Tensor::constant_of({4, 3}, 3.0, DType::Float32);
  const auto programs = programs_of((ones.sum(1) + e({4}, DType::Float32)).contiguous());
  REQUIRE(programs.size() == 1);
  CHECK(std::none_of(programs[0].begin(), programs[0].end(),
                     [](const UOp& u) { return u.op() == Op::Range && u.range().type == AxisType::Reduce; }));
}

TEST_CASE("lanes of pooling and of its gradient go along the rows of images") {
  Tensor x = e({2, 4, 64, 64}, DType::Float32);
  x.set_param();
  const Tensor overlapping = x.max_pool2d({3, 3}, {.stride = 2, .padding = 1});
  const Tensor gradient = (x.max_pool2d() * e({2, 4, 32, 32}, DType::Float32)).sum().gradient({x})[0];
  for (const Tensor& t : {overlapping, gradient})
    for (const ScheduledKernel& k : make_schedule({&t.uop(), 1}).kernels) {
      const std::vector<Action> actions = lower(k.body, llvm_target()).actions;
      INFO(print_actions(actions));
      CHECK(std::ranges::any_of(
          actions, [](const Action& a) { return a.kind == ActionKind::Vector && a.amount >= 4; }));
    }
}

TEST_CASE("a product that views are cut from has the loops of its result") {
  const Tensor x = e({64, 128}, DType::Float32), w = e({128, 96}, DType::Float32);
  const Tensor parts = x.matmul(w).reshape({4, 16, 3, 2, 16}).permute({2, 0, 3, 1, 4});
  const Tensor out = (parts.at(0) * parts.at(1).flip({0})).sum(-1) + parts.at(2).sum(-1);
  const Schedule schedule = make_schedule({&out.uop(), 1});
  const std::vector<UOp> body = toposort(schedule.kernels.at(0).body);
  CHECK(std::ranges::count_if(body, [](const UOp& u) { return u.op() == Op::Range; }) == 3);
}

TEST_CASE("powers become multiplications and roots") {
  const Tensor x = e({7}, DType::Float32);
  const auto only = [](const Tensor& t) {
    const auto programs = programs_of(t);
    REQUIRE(programs.size() == 1);
    return programs[0];
  };
  CHECK(count(only(x.pow(8)), Op::Mul) == 3 * count(only(x.pow(2)), Op::Mul));
  const std::vector<UOp> root = only(x.pow(-0.5));
  CHECK(count(root, Op::Sqrt) > 0);
  CHECK(count(root, Op::Log2) == 0);
  CHECK(count(only(x.pow(0.5)), Op::Sqrt) > 0);
}

TEST_CASE("axes that a target does not have are refused") {
  using enum ActionKind;
  const Tensor x = e({65536}, DType::Float32) + 1;
  const Schedule schedule = make_schedule({&x.uop(), 1});
  const UOp& body = schedule.kernels.at(0).body;
  const auto refused = [&](const Target& target, const std::vector<Action>& actions) {
    KernelArg arg = *body.arg_as<KernelPtr>();
    arg.given = actions;
    const UOp given = body.with_arg(std::make_shared<const KernelArg>(std::move(arg)));
    return std::string(test::user_error([&] { lower(given, target); }).what());
  };
  CHECK(test::contains(refused(opencl_target(), {{Thread, 0, 4}}), "a kernel for opencl has no threads"));
  CHECK(test::contains(refused(opencl_target(), {{Local, 0, 64}, {Local, 0, 64}}),
                       "a group of 4096 work items: the device has at most 256"));
  CHECK(test::contains(refused(opencl_target(), {{Vector, 0, 32}}), "opencl has at most 16"));
  CHECK(test::contains(refused(c_target(), {{Local, 0, 4}}), "a kernel for c has no work groups"));
}

TEST_CASE("what a group shares has to fit") {
  Target small = opencl_target();
  small.work_groups->local_bytes = 60;
  const Tensor sum = e({16}, DType::Float32).sum();
  const Schedule schedule = make_schedule({&sum.uop(), 1});
  const auto error = test::user_error([&] { lower(schedule.kernels.at(0).body, small); });
  CHECK(test::contains(error.what(), "a group shares 64 bytes of memory: the device has 60"));
}

TEST_CASE("padding reads inside its source only: the gate is the load's own") {
  for (const auto& program : programs_of(e({5}, DType::Float32).pad({3, 3}).contiguous()))
    for (const UOp& u : program)
      if (u.op() == Op::Load) CHECK(u.n_srcs() == 3);
}

}  // namespace lathe
