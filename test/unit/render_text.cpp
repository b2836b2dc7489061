// What the text looks like, that it is complete, and the targets.
#include "render_harness.h"

#include <fstream>
#include <set>
#include <sstream>

using namespace lathe;
using namespace lathe::test;

namespace {

// A fixed machine, so that texts do not depend on where the test runs.
Target plain(Target t) {
  t.vector_bits = 128;
  t.has_fma = true;
  return t;
}

const std::vector<const Renderer*>& renderers() {
  static const LlvmRenderer llvm(plain(llvm_target()));
  static const CStyleRenderer c(plain(c_target()));
  static const std::vector<const Renderer*> all{&llvm, &c};
  return all;
}

std::vector<UOp> add_kernel() {
  LinearProgram p;
  const UOp out = p.emit(param(0, {32}, DType::Float32)), a = p.emit(param(1, {32}, DType::Float32)),
            b = p.emit(param(2, {32}, DType::Float32));
  const UOp r = p.open(8);
  const UOp at = alu(Op::Mul, {r, i32(4)});
  const UOp x = p.emit(load(vec(a, at, 4))), y = p.emit(load(vec(b, at, 4)));
  p.close(p.emit(store(vec(out, at, 4), alu(Op::Add, {alu(Op::Add, {x, y}), f32(1)}))), r);
  return p.finish();
}

std::vector<UOp> sum_kernel() {
  LinearProgram p;
  const UOp out = p.emit(param(0, {1}, DType::Float32)), a = p.emit(param(1, {100}, DType::Float32));
  const UOp acc = p.emit(scratch(1, DType::Float32));
  const UOp zero = p.emit(store(index(acc, i32(0)), f32(0)));
  const UOp r = p.open(variable("n", 1, 100, DType::Int32));
  const UOp now = index(after(acc, {zero, r}), i32(0));
  const UOp sum = p.emit(store(now, alu(Op::Add, {load(now), load(index(a, r))})));
  p.close(sum, r);
  p.emit(store(index(out, i32(0)), load(index(after(acc, {sum}), i32(0)))));
  return p.finish();
}

std::string body_of(const std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.substr(at, text.find(to, at) - at);
}

}  // namespace

TEST_CASE("LLVM text of a vector kernel") {
  CHECK(renderers()[0]->render("add", add_kernel()).source == R"(; kernel add

define internal void @add_body(ptr noalias nocapture noundef %buf0, ptr noalias nocapture noundef readonly %buf1, ptr noalias nocapture noundef readonly %buf2) noinline #0 {
entry:
  br label %r0.head
r0.head:
  %r0 = phi i32 [ 0, %entry ], [ %r0.next, %r0.latch ]
  %r0.more = icmp slt i32 %r0, 8
  br i1 %r0.more, label %r0.body, label %r0.exit
r0.body:
  %val0 = mul nsw i32 %r0, 4
  %ptr0 = getelementptr inbounds float, ptr %buf1, i32 %val0
  %val1 = load <4 x float>, ptr %ptr0, align 4
  %ptr1 = getelementptr inbounds float, ptr %buf2, i32 %val0
  %val2 = load <4 x float>, ptr %ptr1, align 4
  %val3 = fadd contract <4 x float> %val1, %val2
  %val4 = fadd contract <4 x float> %val3, splat (float 0x3FF0000000000000)
  %ptr2 = getelementptr inbounds float, ptr %buf0, i32 %val0
  store <4 x float> %val4, ptr %ptr2, align 4
  br label %r0.latch
r0.latch:
  %r0.next = add nuw nsw i32 %r0, 1
  br label %r0.head
r0.exit:
  ret void
}

define void @add(ptr %bufs, ptr %vars, i64 %core_id) #0 {
  %buf0.at = getelementptr inbounds ptr, ptr %bufs, i64 0
  %buf0 = load ptr, ptr %buf0.at, align 8
  %buf1.at = getelementptr inbounds ptr, ptr %bufs, i64 1
  %buf1 = load ptr, ptr %buf1.at, align 8
  %buf2.at = getelementptr inbounds ptr, ptr %bufs, i64 2
  %buf2 = load ptr, ptr %buf2.at, align 8
  call void @add_body(ptr %buf0, ptr %buf1, ptr %buf2)
  ret void
}

attributes #0 = { nounwind }
)");
}

TEST_CASE("C text of a reduction") {
  const std::string text = renderers()[1]->render("sum", sum_kernel()).source;
  CHECK(
      body_of(text, "static __attribute__((noinline)) void", "\x04") ==
      R"(static __attribute__((noinline)) void sum_body(float* restrict buf0, const float* restrict buf1, int32_t var_n) {
  float acc0[1] __attribute__((aligned(64)));
  acc0[0] = 0.0f;
  for (int32_t r0 = 0; r0 < var_n; r0++) {
    float val0 = acc0[0];
    float val1 = buf1[r0];
    acc0[0] = val0+val1;
  }
  float val2 = acc0[0];
  buf0[0] = val2;
}

void sum(void* const* bufs, const int64_t* vars, int64_t core_id) {
  (void)bufs, (void)vars, (void)core_id;
  sum_body((float*)bufs[0], (const float*)bufs[1], (int32_t)vars[0]);
}
)");
}

TEST_CASE("C writes single-use values into their users and chains without parentheses") {
  LinearProgram p;
  const UOp out = p.emit(param(0, {8}, DType::Float32)), a = p.emit(param(1, {8}, DType::Float32));
  UOp x[6];
  for (int i = 0; i < 6; i++) x[i] = p.emit(load(index(a, i32(i))));
  UOp sum = x[0], difference = x[0];
  for (int i = 1; i < 6; i++) {
    sum = alu(Op::Add, {sum, x[i]});
    difference = alu(Op::Sub, {difference, x[i]});
  }
  p.emit(store(index(out, i32(0)), sum));
  p.emit(store(index(out, i32(1)), difference));
  p.emit(store(index(out, i32(2)), alu(Op::Mul, {x[0], alu(Op::Mul, {x[1], x[2]})})));
  const std::string text = renderers()[1]->render("chain", p.finish()).source;
  CHECK(contains(text, "buf0[0] = val0+val1+val2+val3+val4+val5;"));
  CHECK(contains(text, "buf0[1] = ((((val0-val1)-val2)-val3)-val4)-val5;"));
  CHECK(contains(text, "buf0[2] = val0*(val1*val2);"));
}

TEST_CASE("a value used inside a loop is not recomputed there") {
  LinearProgram p;
  const UOp out = p.emit(param(0, {8}, DType::Float32)), a = p.emit(param(1, {8}, DType::Float32));
  const UOp root = p.emit(alu(Op::Sqrt, {load(index(a, i32(0)))}));
  const UOp r = p.open(8);
  p.close(p.emit(store(index(out, r), root)), r);
  const std::string text = renderers()[1]->render("hoist", p.finish()).source;
  CHECK(contains(text, "float val1 = sqrt_f32(val0);\n  for"));
}

TEST_CASE("a deep chain of values does not nest without end") {
  LinearProgram p;
  const UOp out = p.emit(param(0, {1}, DType::Float32));
  UOp x = p.emit(load(index(param(1, {1}, DType::Float32), i32(0))));
  for (int i = 0; i < 2000; i++) x = p.emit(alu(Op::Mul, {f32(1), alu(Op::Add, {x, f32(1)})}));
  p.emit(store(index(out, i32(0)), x));
  run_everywhere("deep", p.finish(), {filled(4), std::vector<float>{0}},
                 [](const auto& m) { CHECK(m[0].template as<float>()[0] == 2000); });
}

TEST_CASE("accumulators leave memory: SROA removes every alloca") {
  if (!has_program("opt-19")) return skip("opt-19 is not installed");
  constexpr int64_t kTiles = 6, kLanes = 32;
  LinearProgram p;
  const UOp out = p.emit(param(0, {kTiles * kLanes}, DType::Float32));
  const UOp a = p.emit(param(1, {kTiles}, DType::Float32)), b = p.emit(param(2, {kLanes}, DType::Float32));
  const UOp acc = p.emit(scratch(kTiles * kLanes, DType::Float32));
  std::vector<UOp> deps{acc};
  // Written in halves, read whole, and one element on its own.
  for (int64_t t = 0; t < 2 * kTiles; t++)
    deps.push_back(p.emit(store(vec(acc, i32(t * kLanes / 2), kLanes / 2), f32(0))));
  deps.push_back(p.emit(store(index(acc, i32(5)), f32(1))));
  deps.push_back(p.open(100));
  const UOp live = UOp::make(Op::After, DType::Void, deps), y = p.emit(load(vec(b, i32(0), kLanes)));
  std::vector<UOp> sums;
  for (int64_t t = 0; t < kTiles; t++) {
    const UOp at = vec(live, i32(t * kLanes), kLanes);
    sums.push_back(p.emit(store(at, alu(Op::MulAcc, {load(index(a, i32(t))), y, load(at)}))));
  }
  const UOp all = p.emit(UOp::make(Op::Group, DType::Void, sums));
  p.close(all, deps.back());
  for (int64_t t = 0; t < kTiles; t++)
    p.emit(store(vec(out, i32(t * kLanes), kLanes), load(vec(after(acc, {all}), i32(t * kLanes), kLanes))));
  const std::string text = renderers()[0]->render("tile", p.finish()).source;
  REQUIRE(contains(text, "alloca"));
  const TempDir dir;
  std::ofstream(dir.file("tile.ll")) << text;
  REQUIRE(std::system(fmt::format("opt-19 -S -passes=sroa {} -o {}", dir.file("tile.ll"), dir.file("out.ll"))
                          .c_str()) == 0);
  std::stringstream promoted;
  promoted << std::ifstream(dir.file("out.ll")).rdbuf();
  CHECK(contains(promoted.str(), "phi <32 x float>"));
  CHECK(!contains(promoted.str(), "alloca"));
}

TEST_CASE("equal programs give equal text, whatever was built before") {
  for (const Renderer* r : renderers()) {
    const Rendered first = r->render("sum", sum_kernel());
    new_buffer({1}, DType::Float32, "", AddrSpace::Reg);  // moves the process-wide slot counter on
    const Rendered second = r->render("sum", sum_kernel());
    CHECK(first.source == second.source);
    CHECK(first.entry == "sum");
    CHECK(r->render("odd name-7", sum_kernel()).entry == "odd_name_7");
  }
}

TEST_CASE("512-bit targets ask LLVM not to split vectors") {
  Target t = plain(llvm_target());
  t.vector_bits = 512;
  t.cpu = "sapphirerapids";
  t.features = "+avx512f";
  const std::string text = LlvmRenderer(t).render("sum", sum_kernel()).source;
  CHECK(contains(
      text, R"("prefer-vector-width"="512" "target-cpu"="sapphirerapids" "target-features"="+avx512f")"));
}

TEST_CASE("index arithmetic that cannot overflow says so, data does not") {
  LinearProgram p;
  const UOp out = p.emit(param(0, {64}, DType::Int32)), a = p.emit(param(1, {64}, DType::Int32));
  const UOp r = p.open(8);
  const UOp at = p.emit(alu(Op::Add, {alu(Op::Mul, {r, i32(7)}), i32(3)}));
  const UOp x = p.emit(load(index(a, at)));
  p.close(p.emit(store(index(out, at), alu(Op::Add, {x, x}))), r);
  const std::string text = renderers()[0]->render("flags", p.finish()).source;
  CHECK(contains(text, "mul nsw i32 %r0, 7"));
  CHECK(contains(text, "add i32 %val2, %val2"));
}

TEST_CASE("every op is printed by every renderer or has a reason not to be") {
  // A program that uses every op of stage 4 once.
  LinearProgram p;
  const UOp out = p.emit(param(0, {8}, DType::Float32)), ints = p.emit(param(1, {8}, DType::Int32));
  const UOp acc = p.emit(scratch(8, DType::Float32));
  const UOp core = p.emit(UOp::make(Op::Special, {i32(2)}, TextArg("core_id")));
  const UOp r = p.open(4);
  const UOp i = p.emit(load(index(ints, r))), f = p.emit(load(vec(out, core, 2)));
  UOp x = p.emit(index(f, constant(0))), n = i;
  for (Op op : {Op::Sqrt, Op::Reciprocal, Op::Neg, Op::Trunc}) x = alu(op, {x});
  for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::FDiv, Op::Max}) x = alu(op, {x, f32(2)});
  for (Op op : {Op::CDiv, Op::CMod, Op::Shl, Op::Shr, Op::Xor, Op::Or, Op::And}) n = alu(op, {n, i32(3)});
  x = alu(Op::MulAcc, {x, bitcast(n, DType::Float32), cast(n, DType::Float32)});
  UOp yes = alu(Op::CmpLt, {x, f32(0)});
  yes = alu(Op::CmpEq, {alu(Op::CmpNe, {yes, constant(DType::Bool, true)}), yes});
  x = alu(Op::Where, {yes, x, f32(1)});
  const UOp branch = p.emit(UOp::make(Op::If, {yes, r}));
  const UOp put = p.emit(store(index(after(acc, {r}), r), x));
  p.emit(UOp::make(Op::EndIf, {branch}));
  p.emit(store(vec(out, core, 2), stack(std::array{x, f32(0)})));
  p.emit(UOp::make(Op::Barrier, {put}));
  p.emit(UOp::make(Op::Noop, DType::Void, {put}));
  p.close(UOp::make(Op::Group, {put}), r);
  const std::vector<UOp> linear = p.finish();
  std::set<Op> used;
  for (const UOp& u : linear) used.insert(u.op());
  for (int k = 0; k < kNumOps; k++) {
    const Op op = static_cast<Op>(k);
    INFO(op_name(op));
    CHECK(used.contains(op) == why_not_rendered(op).empty());
    for (const Renderer* renderer : renderers())
      if (is_alu(op)) CHECK(renderer->target().native_ops.contains(op) == used.contains(op));
  }
  for (const Renderer* renderer : renderers()) CHECK(!renderer->render("all", linear).source.empty());
  // And a refused op is refused by name.
  LinearProgram bad;
  bad.emit(store(index(out, i32(0)), alu(Op::Exp2, {f32(1)})));
  for (const Renderer* renderer : renderers()) {
    const auto error = thrown<InternalError>([&] { renderer->render("bad", bad.finish()); });
    CHECK(contains(error.what(), "cannot print Exp2 of float: codegen decomposes it"));
  }
}

TEST_CASE("programs that break the contract are internal errors") {
  const UOp out = param(0, {8}, DType::Float32);
  const auto refused = [](std::initializer_list<UOp> nodes) {
    LinearProgram p;
    for (const UOp& u : nodes) p.emit(u);
    const auto linear = p.finish();
    for (const Renderer* r : renderers()) CHECK_THROWS_AS(r->render("bad", linear), InternalError);
  };
  refused({store(index(out, i32(0)), i32(1))});                                         // an int into floats
  refused({UOp::make(Op::Special, {i32(2)}, TextArg("gidx0"))});                        // no workgroups here
  refused({store(index(out, i32(0)), alu(Op::Add, {f32(1), constant(Scalar(1.5))}))});  // a weak literal
  refused({store(index(out, i32(0)), alu(Op::Sqrt, {i32(4)}))});  // an implied conversion
  const UOp eighth = param(1, {8}, DType::Fp8E4M3);
  refused({store(index(eighth, i32(0)), load(index(eighth, i32(1))))});   // emulated in codegen
  refused({range(i32(2), 0, AxisType::Loop)});                            // left open
  refused({store(index(out, constant(1)), f32(1))});                      // a weak index
  refused({param(0, {8}, DType::Float32), param(0, {4}, DType::Int32)});  // one slot twice
  refused({store(index(new_buffer({4}, DType::Float32, "", AddrSpace::Local), i32(0)),
                 f32(1))});  // no shared memory
}

TEST_CASE("the host's targets") {
  for (const Target& t : {llvm_target(), c_target()}) {
    CHECK(t.has_threads);
    CHECK(t.max_threads >= 1);
    CHECK((t.vector_bits == 128 || t.vector_bits == 256 || t.vector_bits == 512));
    CHECK(t.vector_registers >= 16);
    CHECK(t.l1d_bytes >= 8 << 10);
    CHECK(t.l2_bytes > t.l1d_bytes);
    CHECK(t.lanes(DType::Float32) == t.vector_bits / 32);
    CHECK(t.lanes(DType::Int8) == t.vector_bits / 8);
    CHECK(!t.supports_dtype(DType::BFloat16));  // emulated in codegen
    CHECK(t.supports_dtype(DType::UInt64));
    CHECK(!t.supports_dtype(DType::Fp8E4M3));
    CHECK(!t.supports_dtype(DType::WeakInt));
    CHECK(!t.native_ops.contains(Op::Exp2));
  }
  CHECK(llvm_target().key() == llvm_target().key());
  CHECK(llvm_target().key() != c_target().key());
  Target other = llvm_target();
  other.vector_bits *= 2;
  CHECK(other.key() != llvm_target().key());
}
