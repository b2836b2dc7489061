#include "renderer/cstyle.h"

#include "renderer/c_writer.h"

#include <cmath>

namespace lathe {

const CDialect kC{
    .name = "C",
    .prologue =
        "#include <stdint.h>\n"
        "#if defined(__clang__) || __GNUC__ >= 12\n#define HAS_SHUFFLEVECTOR 1\n#endif\n"
        "#pragma GCC diagnostic ignored \"-Wpsabi\"\n",
    .body_qualifier = "static __attribute__((noinline)) void",
    .helper_qualifier = "static inline __attribute__((always_inline))",
    .pointer_space = "",
    .restrict_word = "restrict",
    .barrier = "__atomic_thread_fence(__ATOMIC_SEQ_CST);",
    .sqrt_float = "__builtin_sqrtf",
    .sqrt_double = "__builtin_sqrt",
    .trunc_float = "__builtin_truncf",
    .trunc_double = "__builtin_trunc",
    .infinity = "__builtin_inff()",
    .nan = "__builtin_nanf(\"\")",
    .unroll_hint = "",
    .unpacks_arguments = true,
};

namespace {

constexpr size_t kLongestInline = 120;  // characters of an expression that is still written into its user

bool opens_block(Op op) { return op == Op::Range || op == Op::If; }
bool closes_block(Op op) { return op == Op::End || op == Op::EndIf; }

// The nodes whose text is their sources' text, written where they are used.
bool is_transparent(const UOp& u) { return u.op() == Op::After || is_address(u); }

}  // namespace

std::string without_parentheses(const std::string& x) {
  if (x.size() < 2 || x.front() != '(') return x;
  int depth = 0;
  for (size_t i = 0; i < x.size(); i++) {
    depth += x[i] == '(' ? 1 : x[i] == ')' ? -1 : 0;
    if (depth == 0) return i + 1 == x.size() ? x.substr(1, x.size() - 2) : x;
  }
  return x;
}

// ---- before printing

void CWriter::count_uses() {
  std::vector<int> block_of(linear_.size());
  std::vector<int> open{0};
  int opened = 1;
  for (size_t i = 0; i < linear_.size(); i++) {
    if (closes_block(linear_[i].op()) && open.size() > 1) open.pop_back();
    block_of[i] = open.back();
    if (opens_block(linear_[i].op())) open.push_back(opened++);
  }
  for (size_t i = linear_.size(); i-- > 0;) {
    const UOp& u = linear_[i];
    const Use through = is_transparent(u) ? uses_[u.node()] : Use{1, block_of[i]};
    for (const UOp& s : value_sources(u)) {
      Use& use = uses_[s.node()];
      use.block = use.count == 0 || use.block == through.block ? through.block : -2;
      use.count += through.count;
    }
  }
}

// Compilers keep an array of vectors in registers more readily than an array of floats that is read as
// vectors.
void CWriter::find_scratch() {
  for (const UOp& u : linear_) {
    if (u.op() == Op::Buffer) {
      CHECK(u.param().space == AddrSpace::Reg, "a kernel on a CPU has no shared memory");
      scratch_[u.node()] = {fmt::format("acc{}", scratch_.size()), -1};
    }
    if (u.op() != Op::Load && u.op() != Op::Store) continue;
    const Access a = access_of(u);
    const auto it = scratch_.find(a.at.buffer.node());
    if (it == scratch_.end()) continue;
    int64_t& lanes = it->second.lanes;
    const DType d = a.at.buffer.dtype();
    const bool whole = a.at.lanes > 0 && !a.at.scattered && !a.gate && a.at.index.is_const() && !is_bool(d) &&
                       !is_rounded(d) && a.at.lanes == padded_lanes(a.at.lanes) &&
                       a.at.index.value().as_i64() % a.at.lanes == 0 &&
                       element_count(a.at.buffer) % a.at.lanes == 0;
    lanes = whole && (lanes == -1 || lanes == a.at.lanes) ? a.at.lanes : 0;
  }
}

// ---- values

std::string CWriter::float_literal(DType d, double v) const {
  std::string text;
  if (std::isnan(v) || std::isinf(v)) {
    text = std::isnan(v) ? dialect_.nan : dialect_.infinity;
    return v < 0 ? "(-" + text + ")" : text;
  }
  text = fmt::format("{}", v);  // the shortest text that reads back as the same double
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (d != DType::Float64) text += "f";
  return std::signbit(v) ? "(" + text + ")" : text;
}

std::string CWriter::literal(DType d, const Scalar& given) const {
  const Scalar v = cast_scalar(given, d);
  if (is_bool(d)) return v.as_bool() ? "1" : "0";
  if (is_float(d)) return float_literal(d, v.as_double());
  if (d == DType::UInt64) return fmt::format("{}ull", static_cast<uint64_t>(v.as_int()));
  const int64_t i = v.as_i64();
  if (d == DType::UInt32) return fmt::format("{}u", i);
  const char* suffix = d == DType::Int64 ? "ll" : "";
  if (Scalar(i) == min_value(d)) return fmt::format("({}{}-1)", i + 1, suffix);
  return i < 0 ? fmt::format("({}{})", i, suffix) : fmt::format("{}{}", i, suffix);
}

const CWriter::Value& CWriter::value(const UOp& u) {
  const UOp& x = strip_after(u);
  const auto it = values_.find(x.node());
  if (it != values_.end()) return it->second;
  CHECK(x.is_const(), "{} is used before it is computed", op_name(x.op()));
  return values_[x.node()] = {literal(x.dtype(), x.value())};
}

std::string CWriter::scalar_type(DType d) const {
  return is_bool(d) ? "_Bool" : scalar_name(register_element(d));
}

std::string CWriter::type_of(const UOp& u, const Value& v) {
  const int64_t n = lanes_of(u);
  if (!n) return scalar_type(u.dtype());
  return helpers_.vector_type(is_bool(u.dtype()) ? CElement{'i', v.mask_bits} : register_element(u.dtype()),
                              n);
}

void CWriter::define(const UOp& u, Value v, bool inlined) {
  const Use& use = uses_[u.node()];
  if (use.count == 0 && inlined) return;
  if (inlined && use.count == 1 && use.block == block_ && v.text.size() <= kLongestInline) {
    values_[u.node()] = std::move(v);
    return;
  }
  const std::string name = fmt::format("val{}", next_value_++);
  line("{} {} = {};", type_of(u, v), name, without_parentheses(v.text));
  values_[u.node()] = {name, Op::Noop, v.mask_bits};
}

std::string CWriter::convert(const std::string& x, CElement from, CElement to, int64_t n) {
  if (from == to) return x;
  const std::string t = helpers_.vector_type(to, n);
  if (from.bits == to.bits && from.kind != 'f' && to.kind != 'f') return fmt::format("(({}){})", t, x);
  return fmt::format("__builtin_convertvector({}, {})", without_parentheses(x), t);
}

std::string CWriter::lanes(const UOp& u, int64_t n, int mask_bits) {
  const Value& v = value(u);
  if (!is_bool(u.dtype())) {
    if (lanes_of(u)) return v.text;
    return fmt::format("{}({})", helpers_.splat(register_element(u.dtype()), n), without_parentheses(v.text));
  }
  CHECK(mask_bits > 0, "mask of unknown width");
  const CElement mask{'i', mask_bits};
  if (lanes_of(u)) return convert(v.text, {'i', v.mask_bits}, mask, n);
  return fmt::format("{}(-({}){})", helpers_.splat(mask, n), scalar_name(mask), v.text);
}

// ---- structure

void CWriter::node(const UOp& u) {
  switch (u.op()) {
    case Op::Param:
    case Op::Special:
    case Op::Const:
    case Op::After:
    case Op::Group:
    case Op::Noop:
    case Op::Sink: return;
    case Op::Buffer: {
      const Scratch& s = scratch_.at(u.node());
      const bool vectors = s.lanes > 0;
      line("{} {}[{}]{};",
           vectors ? helpers_.vector_type(register_element(u.dtype()), s.lanes) : memory_name(u.dtype()),
           s.name, vectors ? element_count(u) / s.lanes : element_count(u),
           vectors ? "" : " __attribute__((aligned(64)))");
      return;
    }
    case Op::Range: return range(u);
    case Op::If:
      line("if ({}) {{", without_parentheses(scalar(u.src(0))));
      outer_blocks_.push_back(std::exchange(block_, next_block_++));
      depth_++;
      return;
    case Op::End:
      CHECK(u.n_srcs() == 2, "an End of {} loops in a linear program", u.n_srcs() - 1);
      return close();
    case Op::EndIf: return close();
    case Op::Barrier: return line("{}", dialect_.barrier);
    case Op::Index:
      if (!is_memory(u.src(0))) define(u, pick(u), true);
      return;
    case Op::Shrink:
      if (!is_memory(u.src(0))) break;
      return;
    case Op::Load: return load(u);
    case Op::Store: return store(u);
    case Op::Stack:
      if (uses_[u.node()].count) define(u, stack(u), true);
      return;
    case Op::Cast: return define(u, cast(u), true);
    case Op::Bitcast: return define(u, bitcast(u), true);
    default:
      if (is_alu(u.op()) && target_.native_ops.contains(u.op())) return define(u, alu(u), true);
      break;
  }
  cannot_render(u, dialect_.name);
}

void CWriter::range(const UOp& u) {
  const std::string name = pool_.unique(fmt::format("r{}", u.range().id));
  line("for ({0} {1} = 0; {1} < {2}; {1}++) {{", scalar_type(u.dtype()), name, scalar(u.src(0)));
  values_[u.node()] = {name};
  outer_blocks_.push_back(std::exchange(block_, next_block_++));
  depth_++;
}

void CWriter::close() {
  CHECK(!outer_blocks_.empty(), "an End without its Range");
  block_ = outer_blocks_.back();
  outer_blocks_.pop_back();
  depth_--;
  line("}}");
}

// ---- memory

std::string CWriter::address(const Address& at) {
  const auto it = scratch_.find(at.buffer.node());
  const std::string base = it != scratch_.end() ? it->second.name : scalar(at.buffer);
  if (at.scattered || (at.index.is_const() && at.index.value().equals(Scalar(0)))) return base;
  return fmt::format("{}+{}", base, scalar(at.index));
}

std::string CWriter::element(const Address& at) {
  const auto it = scratch_.find(at.buffer.node());
  if (it != scratch_.end() && it->second.lanes > 0)
    return fmt::format("{}[{}]", it->second.name, at.index.value().as_i64() / it->second.lanes);
  return fmt::format("{}[{}]", it != scratch_.end() ? it->second.name : scalar(at.buffer),
                     without_parentheses(scalar(at.index)));
}

std::string CWriter::from_element(DType d, const std::string& x) {
  return is_rounded(d) ? fmt::format("{}({})", helpers_.from_bits(d, 0), x) : x;
}

std::string CWriter::to_element(DType d, const std::string& x) {
  return is_rounded(d) ? fmt::format("{}({})", helpers_.bits(d, 0), without_parentheses(x))
                       : without_parentheses(x);
}

void CWriter::load(const UOp& u) {
  const Access a = access_of(u);
  const DType d = u.dtype();
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  Value v;
  v.mask_bits = is_bool(d) && a.at.lanes ? 8 : 0;
  const auto it = scratch_.find(a.at.buffer.node());
  const bool whole = it != scratch_.end() && it->second.lanes > 0;
  v.text = a.at.lanes && !whole ? read_vector(a, d) : from_element(d, element(a.at));
  if (a.gate && !lane_gates) {
    const std::string otherwise = a.at.lanes ? lanes(a.value, a.at.lanes, 8) : scalar(a.value);
    v.text = fmt::format("{} ? {} : {}", scalar(a.gate), v.text, otherwise);
  }
  define(u, v, false);
}

std::string CWriter::read_vector(const Access& a, DType d) {
  const int64_t n = a.at.lanes;
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  const std::string p = address(a.at);
  const CElement index = register_element(a.at.index.dtype());
  const std::string at = a.at.scattered ? ", " + without_parentheses(lanes(a.at.index, n)) : "";
  if (!lane_gates)
    return fmt::format("{}({}{})", a.at.scattered ? helpers_.gather(d, n, index) : helpers_.load(d, n), p,
                       at);
  const std::string mask = lanes(a.gate, n, register_element(d).bits), otherwise = lanes(a.value, n, 8);
  return fmt::format("{}({}{}, {}, {})",
                     a.at.scattered ? helpers_.gather_if(d, n, index) : helpers_.load_if(d, n), p, at, mask,
                     otherwise);
}

void CWriter::store(const UOp& u) {
  const Access a = access_of(u);
  const DType d = a.at.buffer.dtype();
  CHECK(a.value.dtype() == d, "a {} stored to {}", dtype_name(a.value.dtype()), dtype_name(d));
  const auto it = scratch_.find(a.at.buffer.node());
  const bool whole = it != scratch_.end() && it->second.lanes > 0;
  std::string text;
  if (!a.at.lanes)
    text = fmt::format("{} = {};", element(a.at), to_element(d, scalar(a.value)));
  else if (whole)
    text = fmt::format("{} = {};", element(a.at), without_parentheses(lanes(a.value, a.at.lanes)));
  else
    text = write_vector(a, d);
  if (a.gate && lanes_of(a.gate) == 0)
    text = fmt::format("if ({}) {}", without_parentheses(scalar(a.gate)), text);
  line("{}", text);
}

std::string CWriter::write_vector(const Access& a, DType d) {
  const int64_t n = a.at.lanes;
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  const std::string p = address(a.at), x = without_parentheses(lanes(a.value, n, 8));
  const CElement index = register_element(a.at.index.dtype());
  const std::string at = a.at.scattered ? ", " + without_parentheses(lanes(a.at.index, n)) : "";
  if (!lane_gates)
    return fmt::format("{}({}{}, {});", a.at.scattered ? helpers_.scatter(d, n, index) : helpers_.store(d, n),
                       p, at, x);
  const std::string mask = lanes(a.gate, n, register_element(d).bits);
  return fmt::format("{}({}{}, {}, {});",
                     a.at.scattered ? helpers_.scatter_if(d, n, index) : helpers_.store_if(d, n), p, at, x,
                     mask);
}

// ---- the file

std::string CWriter::whole_program(const std::string& name, const Signature& s) {
  const auto written = written_buffers(linear_);
  std::string parameters, arguments;
  const auto add = [&](const std::string& parameter, const std::string& argument) {
    parameters += (parameters.empty() ? "" : ", ") + parameter;
    arguments += (arguments.empty() ? "" : ", ") + argument;
  };
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const UOp& b = s.buffers[i];
    const std::string pointer = fmt::format("{}{}{}*", written.contains(b.node()) ? "" : "const ",
                                            dialect_.pointer_space, memory_name(b.dtype()));
    add(fmt::format("{} {} {}", pointer, dialect_.restrict_word, scalar(b)),
        fmt::format("({})bufs[{}]", pointer, i));
  }
  for (size_t i = 0; i < s.variables.size(); i++) {
    const std::string t = scalar_type(s.variables[i].dtype());
    add(fmt::format("{} {}", t, scalar(s.variables[i])), fmt::format("({})vars[{}]", t, i));
  }
  if (s.core_id)
    add(scalar_type(s.core_id.dtype()) + " core", fmt::format("({})core_id", scalar_type(s.core_id.dtype())));
  const std::string head = fmt::format("// kernel {}\n{}{}", name, dialect_.prologue, helpers_.text());
  if (!dialect_.unpacks_arguments)
    return fmt::format("{}\n{} {}({}) {{\n{}}}\n", head, dialect_.body_qualifier, name, parameters, body_);
  // The body stays a function of its own so that its restrict parameters keep their meaning.
  return fmt::format(
      "{0}\n{1} {2}_body({3}) {{\n{4}}}\n\n"
      "void {2}(void* const* bufs, const int64_t* vars, int64_t core_id) {{\n"
      "  (void)bufs, (void)vars, (void)core_id;\n  {2}_body({5});\n}}\n",
      head, dialect_.body_qualifier, name, parameters.empty() ? "void" : parameters, body_, arguments);
}

Rendered CWriter::run(std::string_view kernel_name) {
  const std::string name = to_identifier(kernel_name);
  const Signature s = signature_of(linear_);
  refuse_images(s, "C");
  for (const UOp& b : s.buffers) values_[b.node()] = {fmt::format("buf{}", b.param().slot)};
  for (const UOp& v : s.variables) values_[v.node()] = {pool_.unique("var_" + to_identifier(v.param().name))};
  if (s.core_id) values_[s.core_id.node()] = {"core"};
  count_uses();
  find_scratch();
  for (const UOp& u : linear_) node(u);
  CHECK(outer_blocks_.empty(), "a loop or If is left open");
  return {whole_program(name, s), name};
}

Rendered CStyleRenderer::render(std::string_view kernel_name, std::span<const UOp> linear) const {
  return CWriter(dialect_, target_, linear).run(kernel_name);
}

}  // namespace lathe
