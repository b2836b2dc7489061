#include "renderer/llvm.h"

#include "renderer/llvm_writer.h"

namespace lathe {

using llvm_text::memory_type;
using llvm_text::scalar_type;
using llvm_text::type;
using llvm_text::with_lanes;

// ---- output and operands

void LlvmWriter::begin_block(const std::string& label) {
  body_ += label + ":\n";
  block_ = label;
}

void LlvmWriter::jump_to(const std::string& label) { line("br label %{}", label); }

std::string LlvmWriter::operand(const UOp& u) {
  const UOp& x = strip_after(u);
  if (x.is_const()) return llvm_text::literal(x.dtype(), x.value());
  const auto it = names_.find(x.node());
  CHECK(it != names_.end(), "{} is used before it is computed", op_name(x.op()));
  return it->second;
}

std::string LlvmWriter::operand(const UOp& u, int64_t lanes) {
  if (lanes_of(u) == lanes) return operand(u);
  CHECK(lanes_of(u) == 0, "{} lanes where {} are needed", lanes_of(u), lanes);
  const UOp& x = strip_after(u);
  if (x.is_const()) return llvm_text::splat_literal(x.dtype(), x.value());
  return splat(operand(x), scalar_type(x.dtype()), lanes);
}

std::string LlvmWriter::splat(const std::string& x, std::string_view scalar, int64_t lanes) {
  const std::string vector = with_lanes(scalar, lanes);
  const std::string key = vector + x;
  for (const auto& scope : splats_)
    if (const auto it = scope.find(key); it != scope.end()) return it->second;
  const std::string first = value_of("insertelement {} poison, {} {}, i64 0", vector, scalar, x);
  const std::string all =
      value_of("shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer", vector, first, lanes);
  splats_.back()[key] = all;
  return all;
}

// ---- structure

void LlvmWriter::node(const UOp& u) {
  switch (u.op()) {
    case Op::Param:
    case Op::Special:
    case Op::Const:
    case Op::After:
    case Op::Group:
    case Op::Noop:
    case Op::Sink: return;
    case Op::Buffer: return buffer(u);
    case Op::Range: return range(u);
    case Op::End: return end(u);
    case Op::If: {
      const std::string label = pool_.unique("if");
      labels_[u.node()] = label;
      line("br i1 {}, label %{}.then, label %{}.end", operand(u.src(0)), label, label);
      begin_block(label + ".then");
      return open_scope();
    }
    case Op::EndIf: {
      close_scope();
      const std::string label = labels_.at(u.src(0).node()) + ".end";
      jump_to(label);
      return begin_block(label);
    }
    case Op::Barrier: return line("fence seq_cst");
    case Op::Index:
      if (!is_memory(u.src(0))) return pick(u);
      return;
    case Op::Shrink:
      if (!is_memory(u.src(0))) break;
      return;
    case Op::Load: return load(u);
    case Op::Store: return store(u);
    case Op::Stack:
      if (used_.contains(u.node())) stack(u);
      return;
    case Op::Cast: return define(u, cast(u));
    case Op::Bitcast: return define(u, bitcast(u));
    default:
      if (is_alu(u.op()) && target_.native_ops.contains(u.op())) return define(u, alu(u));
      break;
  }
  cannot_render(u, "LLVM");
}

void LlvmWriter::buffer(const UOp& u) {
  CHECK(u.param().space == AddrSpace::Reg, "a kernel on a CPU has no shared memory");
  const std::string name = fmt::format("%acc{}", next_buffer_++);
  allocas_ +=
      fmt::format("  {} = alloca [{} x {}], align 64\n", name, element_count(u), memory_type(u.dtype()));
  define(u, name);
}

// The test sits in the header, so an empty loop is skipped; LLVM rotates it.
void LlvmWriter::range(const UOp& u) {
  const std::string name = pool_.unique(fmt::format("r{}", u.range().id));
  const std::string_view t = scalar_type(u.dtype());
  const std::string end = operand(u.src(0));
  const std::string before = block_;
  jump_to(name + ".head");
  begin_block(name + ".head");
  line("%{0} = phi {1} [ 0, %{2} ], [ %{0}.next, %{0}.latch ]", name, t, before);
  line("%{0}.more = icmp slt {1} %{0}, {2}", name, t, end);
  line("br i1 %{0}.more, label %{0}.body, label %{0}.exit", name);
  begin_block(name + ".body");
  open_scope();
  define(u, "%" + name);
  labels_[u.node()] = name;
}

void LlvmWriter::end(const UOp& u) {
  CHECK(u.n_srcs() == 2, "an End of {} loops in a linear program", u.n_srcs() - 1);
  const UOp& r = u.src(1);
  CHECK(labels_.contains(r.node()), "an End without its Range");
  const std::string& name = labels_.at(r.node());
  close_scope();
  jump_to(name + ".latch");
  begin_block(name + ".latch");
  line("%{0}.next = add nuw nsw {1} %{0}, 1", name, scalar_type(r.dtype()));
  jump_to(name + ".head");
  begin_block(name + ".exit");
}

// ---- lanes

void LlvmWriter::stack(const UOp& u) {
  const std::string_view scalar = scalar_type(u.dtype());
  const int64_t n = static_cast<int64_t>(u.n_srcs());
  const std::string vector = with_lanes(scalar, n);
  bool same = true, constant = true;
  for (const UOp& lane : u.srcs()) {
    CHECK(lanes_of(lane) == 0, "a Stack of vectors in a linear program");
    same = same && lane == u.src(0);
    constant = constant && lane.is_const();
  }
  if (same) return define(u, operand(u.src(0), n));
  std::string text;
  for (const UOp& lane : u.srcs())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", scalar, lane.is_const() ? operand(lane) : "poison");
  text = "<" + text + ">";
  if (constant) return define(u, text);
  for (int64_t i = 0; i < n; i++)
    if (!u.src(i).is_const())
      text = value_of("insertelement {} {}, {} {}, i64 {}", vector, text, scalar, operand(u.src(i)), i);
  define(u, text);
}

void LlvmWriter::pick(const UOp& u) {
  const UOp& x = u.src(0);
  const std::string vector = type(x.dtype(), lanes_of(x));
  const auto lanes = picked_lanes(u);
  if (lanes_of(u) == 0) {
    const std::string which = lanes ? fmt::format("i64 {}", (*lanes)[0]) : typed(u.src(1), 0);
    return define(u, value_of("extractelement {} {}, {}", vector, operand(x), which));
  }
  CHECK(lanes, "lane numbers of a shuffle must be constant");
  std::string mask;
  for (int64_t k : *lanes) mask += fmt::format("{}i32 {}", mask.empty() ? "" : ", ", k);
  define(u, value_of("shufflevector {0} {1}, {0} poison, <{2} x i32> <{3}>", vector, operand(x),
                     lanes->size(), mask));
}

// ---- memory

std::string LlvmWriter::pointer(const Address& at) {
  const std::string base = operand(at.buffer);
  if (!at.scattered && at.index.is_const() && at.index.value().equals(Scalar(0))) return base;
  const int64_t lanes = at.scattered ? at.lanes : 0;
  std::string index = typed(at.index, lanes);
  // getelementptr extends the sign of a narrow index.
  if (is_unsigned(at.index.dtype()) && bit_width(at.index.dtype()) < 64) {
    const std::string wide = with_lanes("i64", lanes);
    index = wide + " " + value_of("zext {} to {}", index, wide);
  }
  const std::string name = fmt::format("%ptr{}", next_pointer_++);
  line("{} = getelementptr inbounds {}, ptr {}, {}", name, memory_type(at.buffer.dtype()), base, index);
  return name;
}

std::string LlvmWriter::to_memory(const std::string& x, DType d, int64_t lanes) {
  if (d != DType::Bool) return x;
  return value_of("zext {} {} to {}", type(d, lanes), x, with_lanes("i8", lanes));
}

std::string LlvmWriter::from_memory(const std::string& x, DType d, int64_t lanes) {
  if (d != DType::Bool) return x;
  return value_of("trunc {} {} to {}", with_lanes("i8", lanes), x, type(d, lanes));
}

// The gate as one bit a lane; all lanes where there is none.
std::string LlvmWriter::mask_operand(const UOp& gate, int64_t lanes) {
  return gate ? operand(gate, lanes) : "splat (i1 true)";
}

void LlvmWriter::load(const UOp& u) {
  const Access a = access_of(u);
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  if (a.at.scattered || lane_gates) return define(u, masked_read(a, u.dtype()));
  define(u, a.gate ? gated_read(a, u.dtype()) : read(a, u.dtype()));
}

std::string LlvmWriter::read(const Access& a, DType d) {
  const std::string p = pointer(a.at);
  const std::string t = with_lanes(memory_type(d), a.at.lanes);
  return from_memory(value_of("load {}, ptr {}, align {}", t, p, item_size(d)), d, a.at.lanes);
}

// One gate for the whole access: a branch around it.
std::string LlvmWriter::gated_read(const Access& a, DType d) {
  const std::string label = pool_.unique("load");
  const std::string alternative = operand(a.value, a.at.lanes);
  const std::string before = block_;
  line("br i1 {}, label %{}.read, label %{}.done", operand(a.gate), label, label);
  begin_block(label + ".read");
  open_scope();
  const std::string x = read(a, d);
  close_scope();
  jump_to(label + ".done");
  begin_block(label + ".done");
  return value_of("phi {} [ {}, %{}.read ], [ {}, %{} ]", type(d, a.at.lanes), x, label, alternative, before);
}

std::string LlvmWriter::masked_read(const Access& a, DType d) {
  const int64_t n = a.at.lanes;
  const std::string memory = with_lanes(memory_type(d), n), mask_type = with_lanes("i1", n);
  const std::string mask = mask_operand(a.gate, n);
  const std::string otherwise = a.gate ? to_memory(operand(a.value, n), d, n) : "poison";
  const std::string p = pointer(a.at);
  const std::string kind = llvm_text::suffix(memory_type(d), n);
  const std::string pointers = a.at.scattered ? with_lanes("ptr", n) : "ptr";
  const std::string name = a.at.scattered ? fmt::format("llvm.masked.gather.{}.v{}p0", kind, n)
                                          : fmt::format("llvm.masked.load.{}.p0", kind);
  module_.intrinsic(name, memory, fmt::format("{}, i32 immarg, {}, {}", pointers, mask_type, memory));
  return from_memory(value_of("call {} @{}({} {}, i32 {}, {} {}, {} {})", memory, name, pointers, p,
                              item_size(d), mask_type, mask, memory, otherwise),
                     d, n);
}

void LlvmWriter::store(const UOp& u) {
  const Access a = access_of(u);
  const DType d = a.at.buffer.dtype();
  CHECK(a.value.dtype() == d, "a {} stored to {}", dtype_name(a.value.dtype()), dtype_name(d));
  const std::string x = to_memory(operand(a.value, a.at.lanes), d, a.at.lanes);
  if (!a.gate || lanes_of(a.gate) > 0 || a.at.scattered) return write(a, d, pointer(a.at), x);
  const std::string label = pool_.unique("store");
  line("br i1 {}, label %{}.write, label %{}.done", operand(a.gate), label, label);
  begin_block(label + ".write");
  open_scope();
  Access plain = a;
  plain.gate = UOp();
  write(plain, d, pointer(a.at), x);
  close_scope();
  jump_to(label + ".done");
  begin_block(label + ".done");
}

void LlvmWriter::write(const Access& a, DType d, const std::string& p, const std::string& x) {
  const int64_t n = a.at.lanes;
  const std::string memory = with_lanes(memory_type(d), n);
  if (!a.gate && !a.at.scattered) return line("store {} {}, ptr {}, align {}", memory, x, p, item_size(d));
  const std::string mask_type = with_lanes("i1", n), kind = llvm_text::suffix(memory_type(d), n);
  const std::string pointers = a.at.scattered ? with_lanes("ptr", n) : "ptr";
  const std::string name = a.at.scattered ? fmt::format("llvm.masked.scatter.{}.v{}p0", kind, n)
                                          : fmt::format("llvm.masked.store.{}.p0", kind);
  module_.intrinsic(name, "void", fmt::format("{}, {}, i32 immarg, {}", memory, pointers, mask_type));
  line("call void @{}({} {}, {} {}, i32 {}, {} {})", name, memory, x, pointers, p, item_size(d), mask_type,
       mask_operand(a.gate, n));
}

// ---- module

std::string LlvmWriter::module_text(const std::string& name, const Signature& s) {
  const auto written = written_buffers(linear_);
  std::string parameters, arguments, unpack;
  const auto separate = [&] {
    if (parameters.empty()) return;
    parameters += ", ";
    arguments += ", ";
  };
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const std::string& b = names_.at(s.buffers[i].node());
    separate();
    parameters += fmt::format("ptr noalias nocapture noundef {}{}",
                              written.contains(s.buffers[i].node()) ? "" : "readonly ", b);
    arguments += "ptr " + b;
    unpack += fmt::format(
        "  {0}.at = getelementptr inbounds ptr, ptr %bufs, i64 {1}\n  {0} = load ptr, ptr {0}.at, align 8\n",
        b, i);
  }
  for (size_t i = 0; i < s.variables.size(); i++) {
    const std::string& v = names_.at(s.variables[i].node());
    const bool wide = bit_width(s.variables[i].dtype()) == 64;
    separate();
    parameters += fmt::format("{} {}", scalar_type(s.variables[i].dtype()), v);
    arguments += fmt::format("{} {}", scalar_type(s.variables[i].dtype()), v);
    unpack += fmt::format(
        "  {0}.at = getelementptr inbounds i64, ptr %vars, i64 {1}\n  {0}{2} = load i64, ptr {0}.at, align "
        "8\n",
        v, i, wide ? "" : ".wide");
    if (!wide)
      unpack += fmt::format("  {0} = trunc i64 {0}.wide to {1}\n", v, scalar_type(s.variables[i].dtype()));
  }
  if (s.core_id) {
    separate();
    const std::string_view t = scalar_type(s.core_id.dtype());
    parameters += fmt::format("{} %core", t);
    arguments += fmt::format("{} %core", t);
    unpack += t == "i64" ? "  %core = add i64 %core_id, 0\n"
                         : fmt::format("  %core = trunc i64 %core_id to {}\n", t);
  }
  std::string attributes = "nounwind";
  // LLVM would otherwise split 512-bit vectors in two on CPUs that used to lower their clock for them.
  if (target_.vector_bits >= 512)
    attributes += fmt::format(" \"prefer-vector-width\"=\"{}\"", target_.vector_bits);
  if (!target_.cpu.empty()) attributes += fmt::format(" \"target-cpu\"=\"{}\"", target_.cpu);
  if (!target_.features.empty()) attributes += fmt::format(" \"target-features\"=\"{}\"", target_.features);
  // The body stays a function of its own so that its noalias parameters keep their meaning.
  return fmt::format(
      "; kernel {0}\n\ndefine internal void @{0}_body({1}) noinline #0 {{\nentry:\n{2}{3}  ret void\n}}\n\n"
      "define void @{0}(ptr %bufs, ptr %vars, i64 %core_id) #0 {{\n{4}  call void @{0}_body({5})\n  ret "
      "void\n}}\n{6}"
      "\nattributes #0 = {{ {7} }}\nattributes #1 = {{ alwaysinline {7} }}\n",
      name, parameters, allocas_, body_, unpack, arguments, module_.text(), attributes);
}

Rendered LlvmWriter::run(std::string_view kernel_name) {
  const std::string name = to_identifier(kernel_name);
  const Signature s = signature_of(linear_);
  refuse_images(s, "LLVM");
  for (const UOp& b : s.buffers) define(b, fmt::format("%buf{}", b.param().slot));
  for (const UOp& v : s.variables) define(v, "%" + pool_.unique("var_" + to_identifier(v.param().name)));
  if (s.core_id) define(s.core_id, "%core");
  for (const UOp& u : linear_)
    for (const UOp& v : value_sources(u)) used_.insert(strip_after(v).node());
  open_scope();
  for (const UOp& u : linear_) node(u);
  CHECK(splats_.size() == 1, "a loop or If is left open");
  return {module_text(name, s), name};
}

Rendered LlvmRenderer::render(std::string_view kernel_name, std::span<const UOp> linear) const {
  return LlvmWriter(target_, linear).run(kernel_name);
}

}  // namespace lathe
