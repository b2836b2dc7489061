#include "renderer/llvm.h"

#include "renderer/llvm_writer.h"
#include "uop/linear_terms.h"

#include <algorithm>

namespace lathe {

namespace {

// The vector that one lane of a Stack is picked from; the lane itself where it is none.
const UOp& lane_source(const UOp& lane) {
  const UOp& x = strip_after(lane);
  const bool is_pick = x.op() == Op::Index && !is_memory(x.src(0)) && picked_lanes(x);
  return is_pick ? strip_after(x.src(0)) : x;
}

constexpr int64_t kLine = 64;  // bytes of the caches
constexpr std::string_view kStreamed = ", align 64, !nontemporal !0";

}  // namespace

// ---- output and operands

void LlvmWriter::begin_block(const std::string& label) {
  body_ += label + ":\n";
  block_ = label;
}

void LlvmWriter::jump_to(const std::string& label) { line("br label %{}", label); }

std::string LlvmWriter::operand(const UOp& u) {
  const UOp& x = strip_after(u);
  if (x.is_const()) return literal(x.dtype(), x.value());
  const auto it = names_.find(x.node());
  CHECK(it != names_.end(), "{} is used before it is computed", x.op());
  return it->second;
}

std::string LlvmWriter::operand(const UOp& u, int64_t lanes) {
  if (lanes_of(u) == lanes) return operand(u);
  CHECK(lanes_of(u) == 0, "{} lanes where {} are needed", lanes_of(u), lanes);
  const UOp& x = strip_after(u);
  if (x.is_const()) return literal(x.dtype(), x.value(), lanes);
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

void LlvmWriter::open_if(const UOp& u) {
  const std::string label = pool_.unique("if");
  labels_[u.node()] = label;
  line("br i1 {}, label %{}.then, label %{}.end", operand(u.src(0)), label, label);
  begin_block(label + ".then");
  open_scope();
}

void LlvmWriter::end_if(const UOp& u) {
  close_scope();
  const std::string label = labels_.at(u.src(0).node()) + ".end";
  jump_to(label);
  begin_block(label);
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

// Lanes of `a` and then of `b`, vectors of m, in the order of `mask`; -1: any value.
std::string LlvmWriter::shuffle(std::string_view scalar, int64_t m, const std::string& a,
                                const std::string& b, std::span<const int64_t> mask) {
  std::string text;
  for (const int64_t k : mask)
    text += (text.empty() ? "i32 " : ", i32 ") + (k < 0 ? std::string("poison") : std::to_string(k));
  return value_of("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", with_lanes(scalar, m), a, b,
                  mask.size(), text);
}

// Constants are there from the start. What comes from vectors, and a scalar in several lanes, is shuffled in.
void LlvmWriter::stack(const UOp& u) {
  if (!used_.contains(u.node())) return;
  const std::string_view scalar = scalar_type(u.dtype());
  const size_t n = u.n_srcs();
  std::vector<UOp> sources;
  std::unordered_map<const Node*, std::vector<int64_t>> masks;  // of each source: its lane, or -1
  std::string text;
  for (size_t i = 0; i < n; i++) {
    const UOp& lane = u.src(i);
    CHECK(lanes_of(lane) == 0, "a Stack of vectors in a linear program");
    text += fmt::format("{}{} {}", i ? ", " : "", scalar, lane.is_const() ? operand(lane) : "poison");
    if (lane.is_const()) continue;
    const UOp& from = lane_source(lane);
    auto& mask = masks[from.node()];
    if (mask.empty()) sources.push_back(from);
    mask.resize(n, -1);
    mask[i] = from.ndim() ? (*picked_lanes(strip_after(lane)))[0] : 0;
  }
  text = "<" + text + ">";
  bool is_empty = std::ranges::none_of(u.srcs(), [](const UOp& lane) { return lane.is_const(); });
  for (size_t k = 0; k < sources.size(); k++) {
    const UOp& from = sources[k];
    std::vector<int64_t> mask = masks[from.node()];
    int64_t lanes = lanes_of(from);
    if (!lanes && static_cast<size_t>(std::ranges::count(mask, 0)) < std::min<size_t>(n, 4)) {
      for (size_t i = 0; i < n; i++)
        if (mask[i] == 0)
          text = value_of("insertelement {} {}, {} {}, i64 {}", with_lanes(scalar, n), text, scalar,
                          operand(from), i);
      is_empty = false;
      continue;
    }
    std::string x = lanes ? operand(from) : splat(operand(from), scalar, static_cast<int64_t>(n));
    if (!lanes) lanes = static_cast<int64_t>(n);
    if (is_empty) {  // with the next one, where that is as long
      std::string other = "poison";
      if (k + 1 < sources.size() && lanes_of(sources[k + 1]) == lanes) {
        const UOp& next = sources[++k];
        other = operand(next);
        for (size_t i = 0; i < n; i++)
          if (masks[next.node()][i] >= 0) mask[i] = lanes + masks[next.node()][i];
      }
      text = shuffle(scalar, lanes, x, other, mask);
      is_empty = false;
      continue;
    }
    if (lanes != static_cast<int64_t>(n)) x = shuffle(scalar, lanes, x, "poison", mask);
    for (size_t i = 0; i < n; i++) {
      const auto at = static_cast<int64_t>(i), source = lanes == static_cast<int64_t>(n) ? mask[i] : at;
      mask[i] = mask[i] < 0 ? at : static_cast<int64_t>(n) + source;
    }
    text = shuffle(scalar, static_cast<int64_t>(n), text, x, mask);
  }
  define(u, text);
}

void LlvmWriter::pick(const UOp& u) {
  if (!used_.contains(u.node())) return;
  const UOp& x = u.src(0);
  const auto lanes = picked_lanes(u);
  if (lanes_of(u) == 0) {
    const std::string which = lanes ? fmt::format("i64 {}", (*lanes)[0]) : typed(u.src(1), 0);
    return define(u, value_of("extractelement {} {}, {}", type(x.dtype(), lanes_of(x)), operand(x), which));
  }
  CHECK(lanes, "lane numbers of a shuffle must be constant");
  define(u, shuffle(scalar_type(x.dtype()), lanes_of(x), operand(x), "poison", *lanes));
}

// ---- memory

std::string LlvmWriter::pointer(const Address& at) {
  const std::string base = operand(at.buffer);
  if (!at.scattered && at.index.is_const(Scalar(0))) return base;
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

void LlvmWriter::load(const UOp& u) {
  const Access a = access_of(u);
  const DType d = u.dtype();
  const int64_t n = a.at.lanes;
  if (a.at.scattered || (a.gate && lanes_of(a.gate) > 0)) {
    const std::string otherwise = a.gate ? to_memory(operand(a.value, n), d, n) : "poison";
    return define(u, from_memory(masked(a, d, false, otherwise), d, n));
  }
  define(u, a.gate ? gated_read(a, d) : read(a, d));
}

std::string LlvmWriter::read(const Access& a, DType d) {
  const std::string p = pointer(a.at);
  const std::string t = with_lanes(memory_type(d), a.at.lanes);
  return from_memory(value_of("load {}, ptr {}, align {}", t, p, item_size(d)), d, a.at.lanes);
}

// Runs `access` in a block of its own, behind a branch; returns the name that the labels start with.
std::string LlvmWriter::guarded(const char* name, const char* block, const UOp& gate,
                                FunctionRef<void()> access) {
  const std::string label = pool_.unique(name);
  line("br i1 {}, label %{}.{}, label %{}.done", operand(gate), label, block, label);
  begin_block(fmt::format("{}.{}", label, block));
  open_scope();
  access();
  close_scope();
  jump_to(label + ".done");
  begin_block(label + ".done");
  return label;
}

// One gate for the whole access: a branch around it.
std::string LlvmWriter::gated_read(const Access& a, DType d) {
  const std::string alternative = operand(a.value, a.at.lanes), before = block_;
  std::string x;
  const std::string label = guarded("load", "read", a.gate, [&] { x = read(a, d); });
  return value_of("phi {} [ {}, %{}.read ], [ {}, %{} ]", type(d, a.at.lanes), x, label, alternative, before);
}

// The intrinsic that reads or writes the lanes whose gate is true, all where there is none. `value` is the
// alternative or what is stored; of a read the result is returned.
std::string LlvmWriter::masked(const Access& a, DType d, bool writes, const std::string& value) {
  const int64_t n = a.at.lanes;
  const bool scattered = a.at.scattered;
  const std::string memory = with_lanes(memory_type(d), n), mask_type = with_lanes("i1", n);
  const std::string pointers = scattered ? with_lanes("ptr", n) : "ptr";
  const std::string mask = a.gate ? operand(a.gate, n) : "splat (i1 true)";
  const std::string name = fmt::format(
      "llvm.masked.{}.{}.{}p0", writes ? (scattered ? "scatter" : "store") : (scattered ? "gather" : "load"),
      suffix(memory_type(d), n), scattered ? fmt::format("v{}", n) : "");
  const std::string types = fmt::format("{}, i32 immarg, {}", pointers, mask_type);
  const std::string where =
      fmt::format("{} {}, i32 {}, {} {}", pointers, pointer(a.at), item_size(d), mask_type, mask);
  if (!writes) {
    declare(memory, name, types + ", " + memory);
    return value_of("call {} @{}({}, {} {})", memory, name, where, memory, value);
  }
  declare("void", name, memory + ", " + types);
  line("call void @{}({} {}, {})", name, memory, value, where);
  return {};
}

// Whole cache lines of a result that the caches cannot hold go past them: they need not be read first, and
// what is in the caches stays. Only where the argument is aligned to a line, which the kernel looks at.
bool LlvmWriter::is_streamed(const UOp& u, const Access& a) {
  const int64_t item = item_size(a.at.buffer.dtype()), bytes = std::max<int64_t>(1, a.at.lanes) * item;
  if (target_.arch != "x86_64" || a.at.buffer.op() != Op::Param || bytes % kLine) return false;
  double written = static_cast<double>(bytes * launch_extent(signature_of(linear_).core_id));
  for (const Node* r : u.ranges()) written *= UOp(r).bounds().hi.as_double() + 1;
  if (written < static_cast<double>(target_.l3_bytes) || const_factor(a.at.index) * item % kLine)
    return false;
  for (const UOp& v : linear_)
    if (v.op() == Op::Load && address_of(v.src(0)).buffer == a.at.buffer) return false;
  streamed_.insert(operand(a.at.buffer));
  return true;
}

void LlvmWriter::store(const UOp& u) {
  const Access a = access_of(u);
  const DType d = a.at.buffer.dtype();
  CHECK(a.value.dtype() == d, "a {} stored to {}", a.value.dtype(), d);
  const std::string x = to_memory(operand(a.value, a.at.lanes), d, a.at.lanes);
  if (a.at.scattered || (a.gate && lanes_of(a.gate) > 0)) {
    masked(a, d, true, x);
    return;
  }
  const auto write = [&] {
    const std::string how =
        is_streamed(u, a) ? std::string(kStreamed) : fmt::format(", align {}", item_size(d));
    line("store {} {}, ptr {}{}", with_lanes(memory_type(d), a.at.lanes), x, pointer(a.at), how);
  };
  if (!a.gate) return write();
  guarded("store", "write", a.gate, write);
}

// What will be read soon: into the second cache.
void LlvmWriter::prefetch(const UOp& u) {
  for (const UOp& s : u.srcs()) {
    if (!is_address(s)) continue;
    const Address at = address_of(s);
    if (at.scattered) continue;
    const int64_t bytes = std::max<int64_t>(1, at.lanes) * item_size(at.buffer.dtype());
    declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32");
    const std::string first = value_of("getelementptr {}, ptr {}, {}", memory_type(at.buffer.dtype()),
                                       operand(at.buffer), typed(at.index, 0));
    for (int64_t k = 0; k < bytes; k += kLine)
      line("call void @llvm.prefetch.p0(ptr {}, i32 0, i32 2, i32 1)",
           value_of("getelementptr i8, ptr {}, i64 {}", first, k));
  }
}

// ---- module

std::string LlvmWriter::module_text(const std::string& name, const Signature& s) {
  const auto written = written_buffers(linear_);
  std::string parameters, arguments, unpack;
  const auto add = [&](std::string_view t, std::string_view attributes, const std::string& name) {
    const char* comma = parameters.empty() ? "" : ", ";
    parameters += fmt::format("{}{} {}{}", comma, t, attributes, name);
    arguments += fmt::format("{}{} {}", comma, t, name);
  };
  const auto fetch = [&](std::string_view t, std::string_view list, size_t i, const std::string& name,
                         const char* suffix) {
    unpack += fmt::format(
        "  {0}.at = getelementptr inbounds {1}, ptr %{2}, i64 {3}\n  {0}{4} = load {1}, ptr {0}.at, align "
        "8\n",
        name, t, list, i, suffix);
  };
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const std::string& b = names_.at(s.buffers[i].node());
    const bool is_written = written.contains(s.buffers[i].node());
    add("ptr", is_written ? "noalias nocapture noundef " : "noalias nocapture noundef readonly ", b);
    fetch("ptr", "bufs", i, b, "");
  }
  for (size_t i = 0; i < s.variables.size(); i++) {
    const std::string& v = names_.at(s.variables[i].node());
    const std::string_view t = scalar_type(s.variables[i].dtype());
    add(t, "", v);
    fetch("i64", "vars", i, v, t == "i64" ? "" : ".wide");
    if (t != "i64") unpack += fmt::format("  {0} = trunc i64 {0}.wide to {1}\n", v, t);
  }
  if (s.core_id) {
    const std::string_view t = scalar_type(s.core_id.dtype());
    add(t, "", "%core");
    unpack += t == "i64" ? "  %core = add i64 %core_id, 0\n"
                         : fmt::format("  %core = trunc i64 %core_id to {}\n", t);
  }
  std::string declarations;
  for (const std::string& d : declarations_) declarations += d;
  std::string attributes = "nounwind";
  // LLVM would otherwise split 512-bit vectors in two on CPUs that used to lower their clock for them.
  if (target_.vector_bits >= 512)
    attributes += fmt::format(" \"prefer-vector-width\"=\"{}\"", target_.vector_bits);
  if (!target_.cpu.empty()) attributes += fmt::format(" \"target-cpu\"=\"{}\"", target_.cpu);
  if (!target_.features.empty()) attributes += fmt::format(" \"target-features\"=\"{}\"", target_.features);
  // The body stays a function of its own so that its noalias parameters keep their meaning.
  std::string bodies, choice;
  const auto add_body = [&](const char* suffix, const std::string& text) {
    bodies +=
        fmt::format("define internal void @{}_body{}({}) noinline #0 {{\nentry:\n{}{}  ret void\n}}\n\n",
                    name, suffix, parameters, allocas_, text);
  };
  if (!streamed_.empty()) {
    declarations += "declare void @llvm.x86.sse.sfence()\n!0 = !{i32 1}\n";
    add_body("_streamed", body_ + "  call void @llvm.x86.sse.sfence()\n");
    std::string all = "0";
    for (const std::string& b : streamed_) {
      choice += fmt::format("  {0}.int = ptrtoint ptr {0} to i64\n  {0}.or = or i64 {1}, {0}.int\n", b, all);
      all = b + ".or";
    }
    choice += fmt::format(
        "  %low = and i64 {}, 63\n  %fits = icmp eq i64 %low, 0\n  br i1 %fits, label %streamed, label "
        "%plain\nstreamed:\n  call void @{}_body_streamed({})\n  ret void\nplain:\n",
        all, name, arguments);
    for (size_t at; (at = body_.find(kStreamed)) != body_.npos;)
      body_.replace(at, kStreamed.size(), ", align 1");
  }
  add_body("", body_);
  return fmt::format(
      "; kernel {0}\n\n{1}define void @{0}(ptr %bufs, ptr %vars, i64 %core_id) #0 {{\n{2}{3}  call void "
      "@{0}_body({4})\n  ret void\n}}\n{5}\nattributes #0 = {{ {6} }}\n",
      name, bodies, unpack, choice, arguments, declarations, attributes);
}

Rendered LlvmWriter::run(std::string_view kernel_name) {
  const std::string name = to_identifier(kernel_name);
  const Signature s = signature_of(linear_);
  refuse_work_groups(s, kLanguage);
  for (const UOp& b : s.buffers) define(b, fmt::format("%buf{}", b.param().slot));
  for (const UOp& v : s.variables) define(v, "%" + pool_.unique("var_" + to_identifier(v.param().name)));
  if (s.core_id) define(s.core_id, "%core");
  for (const UOp& u : linear_)
    for (const UOp& v : value_sources(u))
      used_.insert((u.op() == Op::Stack ? lane_source(v) : strip_after(v)).node());
  open_scope();
  for (const UOp& u : linear_) u.op() == Op::Noop ? prefetch(u) : write_node(*this, u);
  CHECK(splats_.size() == 1, "a loop or If is left open");
  return {module_text(name, s), name};
}

Rendered LlvmRenderer::render(std::string_view kernel_name, std::span<const UOp> linear) const {
  return LlvmWriter(target_, linear).run(kernel_name);
}

}  // namespace lathe
