#include "codegen/actions.h"
#include "codegen/passes.h"
#include "runtime/interp/executor.h"
#include "uop/gates.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;

namespace {

// The loop r is [0, 204), q [0, 3). An effect is "index = value", a store to out[index] in the loop, or
// "sum value", "max value", a reduction over r that is stored to out[q] in the loop over q.
struct Row {
  std::vector<const char*> effects;
  std::vector<int64_t> loops;  // the sizes that are left, of r only; none where r is gone
};

const Names& names() {
  static const Names n = [] {
    Names all = parse_names("d=param(256):f32 e=param(256):i32 b=param(256):bool").or_throw();
    all.emplace_back("r", range(204, 0, AxisType::Loop));
    all.emplace_back("q", range(3, 1, AxisType::Loop));
    all.emplace_back("s", range(204, 2, AxisType::Reduce));
    return all;
  }();
  return n;
}
UOp read(std::string_view text) { return parse_expression(text, names()).or_throw(); }
UOp named(std::string_view name) { return read(name); }

UOp body_of(const Row& row) {
  const UOp out = param(3, {256}, DType::Float32);
  std::vector<UOp> ends, stores, results;
  for (const std::string_view effect : row.effects) {
    if (!effect.starts_with("sum ") && !effect.starts_with("max ")) {
      const size_t equals = effect.find(" = ");
      const UOp value = read(effect.substr(equals + 3));
      stores.push_back(store(index(out, read(effect.substr(0, equals))),
                             value.is_invalid() ? value : cast(value, DType::Float32)));
      continue;
    }
    const Op op = effect.starts_with("sum ") ? Op::Add : Op::Max;
    const UOp folded = UOp::make(Op::Reduce, {read(effect.substr(4)), named("s")}, ReduceArg{op, 0});
    const UOp to = named("q") + static_cast<int64_t>(results.size()) * 3;
    results.push_back(store(index(out, to), cast(folded, DType::Float32)));
  }
  const auto close = [&](const std::vector<UOp>& effects, const char* r) {
    if (!effects.empty())
      ends.push_back(UOp::make(Op::End, {UOp::make(Op::Group, DType::Void, effects), named(r)}));
  };
  close(results, "q");
  close(stores, "r");
  return sink(ends, std::make_shared<const KernelArg>());
}

std::vector<float> execute(const UOp& body) {
  const std::vector<UOp> linear =
      linearize(commit_weak_types(lower_reduces(move_gates(body, Target())), Target()));
  verify(linear, "shrink ranges");
  std::vector<float> d(256), out(256, -1);
  std::vector<int32_t> e(256);
  std::vector<uint8_t> b(256);
  for (size_t i = 0; i < 256; i++)
    d[i] = static_cast<float>(i) - 20, e[i] = static_cast<int32_t>(i * 7 % 11), b[i] = i % 3 == 0;
  const std::span<std::byte> all[] = {
      std::as_writable_bytes(std::span(d)), std::as_writable_bytes(std::span(e)),
      std::as_writable_bytes(std::span(b)), std::as_writable_bytes(std::span(out))};
  std::vector<int64_t> slots;
  for (const UOp& u : linear)
    if (u.op() == Op::Param) slots.push_back(u.param().slot);
  std::sort(slots.begin(), slots.end());
  std::vector<std::span<std::byte>> memory;
  for (const int64_t slot : slots) memory.push_back(all[slot]);
  interp::Code("shrink", linear).run(memory, {}, 0);
  return out;
}

}  // namespace

TEST_CASE("ranges shrink to where they do something") {
  const Row rows[] = {
      {{"(r<4?r:Inv) = d[r]"}, {4}},
      {{"(r<4?r:Inv) = d[r]", "(r<8?r+9:Inv) = d[r]"}, {8}},
      {{"(r<4?r:Inv) = d[r<300?r:Inv]"}, {4}},
      {{"(r<300?r:Inv) = d[r]"}, {204}},
      {{"(r<4?r:Inv) = d[r]", "r+9 = d[r]"}, {204}},
      {{"r = d[r<4?r:Inv]"}, {204}},  // the rest is set to 0
      {{"r = r<4?d[r]:1.0"}, {204}},
      {{"(r<1?r:Inv) = d[r]"}, {}},
      {{"(r<1?r+5:Inv) = d[r+3]"}, {}},
      {{"r = r<4?d[r]:Inv"}, {4}},
      {{"r = !(r<4)?Inv:d[r]"}, {4}},
      {{"(!(r<4)&r<10?r:Inv) = d[r]"}, {6}},
      {{"(!(r<203)?r:Inv) = d[r]"}, {}},
      {{"(r*4+3<16?r:Inv) = d[r]"}, {4}},
      {{"((r-1)//3<2?r:Inv) = d[r]"}, {7}},
      {{"(e[r]<4?r:Inv) = d[r]"}, {204}},
      {{"(e[r]<4&r<4?r:Inv) = d[r]"}, {4}},
      // reductions
      {{"sum d[s<4?s:Inv]"}, {4}},
      {{"sum s<4?d[s]:0.0"}, {4}},
      {{"sum s<4?0.0:d[s]"}, {200}},
      {{"sum s<4?1.5:d[s]"}, {204}},
      {{"sum d[s<4?s:Inv]+f32(e[s<8?s:Inv])"}, {8}},
      {{"sum d[s<4?s:Inv]*f32(e[s])"}, {4}},
      {{"sum d[s<4?s:Inv]+1.0"}, {204}},
      {{"sum d[s<4?s:Inv]*f32(e[!(s<2)?s:Inv])"}, {2}},
      {{"sum d[!(s+q<3)&s<20?s+q:Inv]"}, {19}},  // q says where it begins
      {{"max d[s<4?s:Inv]"}, {204}},             // 0 counts
      {{"max e[s]*2"}, {204}},
      {{"sum d[s<1?s+q:Inv]"}, {}},
      {{"sum d[s<4?s:Inv]", "sum d[s<9?s:Inv]*f32(e[s])"}, {9}},
      {{"sum i32(s<50&b[s])"}, {50}},
  };
  for (const Row& row : rows) {
    const std::string text = row.effects[0];
    const UOp body = simplify_gates(simplify(body_of(row)));
    const UOp got = shrink_ranges(body);
    verify(got, SpecLevel::Kernel, "shrink ranges");
    std::vector<int64_t> loops;
    for (const UOp& r : kernel_axes(got))
      if (!(r == named("q"))) loops.push_back(r.src(0).value().as_i64());
    CHECK_MESSAGE(loops == row.loops, text);
    CHECK_MESSAGE((got == body) == (row.loops == std::vector<int64_t>{204}), text);
    CHECK_MESSAGE(execute(got) == execute(body_of(row)), text);
    for (const UOp& u : toposort(got))
      if (row.loops.empty()) CHECK_FALSE(u.is_invalid());
  }
}
