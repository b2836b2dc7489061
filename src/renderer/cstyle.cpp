#include "renderer/cstyle.h"

#include "renderer/c_writer.h"

#include <algorithm>
#include <cmath>

namespace lathe {

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
  int buffers = 0;
  for (const UOp& u : linear_) {
    if (u.op() == Op::Buffer) {
      const bool is_private = u.param().space == AddrSpace::Reg;
      values_[u.node()] = {fmt::format("{}{}", is_private ? "acc" : "shared", buffers++)};
      if (is_private) vectors_[u.node()] = -1;
    }
    if (u.op() != Op::Load && u.op() != Op::Store) continue;
    const Access a = access_of(u);
    const auto it = vectors_.find(a.at.buffer.node());
    if (it == vectors_.end()) continue;
    const bool whole = a.at.lanes > 0 && !a.at.scattered && !a.gate && a.at.index.is_const() &&
                       !is_bool(a.at.buffer.dtype()) && a.at.lanes == padded_lanes(a.at.lanes) &&
                       a.at.index.value().as_i64() % a.at.lanes == 0 &&
                       element_count(a.at.buffer) % a.at.lanes == 0;
    it->second = whole && (it->second == -1 || it->second == a.at.lanes) ? a.at.lanes : 0;
  }
}

int64_t CWriter::vector_elements(const UOp& buffer) const {
  const auto it = vectors_.find(buffer.node());
  return it == vectors_.end() ? 0 : std::max<int64_t>(it->second, 0);
}

// ---- values

std::string CWriter::float_literal(DType d, double v) const {
  if (std::isnan(v)) return std::string(dialect_.nan);
  if (std::isinf(v)) return v < 0 ? fmt::format("(-{})", dialect_.infinity) : std::string(dialect_.infinity);
  std::string text = fmt::format("{}", v);  // the shortest text that reads back as the same double
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (d != DType::Float64) text += "f";
  return std::signbit(v) ? "(" + text + ")" : text;
}

std::string CWriter::literal(DType d, const Scalar& given) const {
  const Scalar v = cast_scalar(given, d);
  if (is_bool(d)) return v.as_bool() ? "1" : "0";
  if (is_float(d)) return float_literal(d, v.as_double());
  if (d == DType::UInt64)
    return fmt::format("{}u{}", static_cast<uint64_t>(v.as_int()), dialect_.long_suffix);
  const int64_t i = v.as_i64();
  if (d == DType::UInt32) return fmt::format("{}u", i);
  const std::string_view suffix = d == DType::Int64 ? dialect_.long_suffix : "";
  if (Scalar(i) == min_value(d)) return fmt::format("({}{}-1)", i + 1, suffix);
  return i < 0 ? fmt::format("({}{})", i, suffix) : fmt::format("{}{}", i, suffix);
}

const CWriter::Value& CWriter::value(const UOp& u) {
  const UOp& x = strip_after(u);
  const auto it = values_.find(x.node());
  if (it != values_.end()) return it->second;
  CHECK(x.is_const(), "{} is used before it is computed", x.op());
  return values_[x.node()] = {literal(x.dtype(), x.value())};
}

std::string CWriter::scalar_type(DType d) const {
  return is_bool(d) ? std::string(dialect_.boolean) : dialect_.scalar_name(register_element(d));
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
  if (from.bits == to.bits && from.kind != 'f' && to.kind != 'f') return reinterpret(x, to, n);
  return fmt::format(fmt::runtime(dialect_.convert), helpers_.vector_type(to, n), without_parentheses(x));
}

// Vectors of as many bits.
std::string CWriter::reinterpret(const std::string& x, CElement to, int64_t n) {
  return fmt::format(fmt::runtime(dialect_.reinterpret), helpers_.vector_type(to, n), x);
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
  return fmt::format("{}(-({}){})", helpers_.splat(mask, n), dialect_.scalar_name(mask), v.text);
}

// ---- structure

void CWriter::buffer(const UOp& u) {
  CHECK(dialect_.is_device || u.param().space == AddrSpace::Reg, "a kernel on a CPU has no shared memory");
  if (const int64_t n = vector_elements(u))
    line("{} {}[{}];", helpers_.vector_type(register_element(u.dtype()), n), scalar(u), element_count(u) / n);
  else
    line("{}{} {}[{}]{};", dialect_.space_name(u.param().space), dialect_.memory_name(u.dtype()), scalar(u),
         element_count(u), dialect_.is_device ? "" : " __attribute__((aligned(64)))");
}

void CWriter::open() {
  outer_blocks_.push_back(std::exchange(block_, next_block_++));
  depth_++;
}

void CWriter::range(const UOp& u) {
  const std::string name = pool_.unique(fmt::format("r{}", u.range().id));
  line("for ({0} {1} = 0; {1} < {2}; {1}++) {{", scalar_type(u.dtype()), name, scalar(u.src(0)));
  values_[u.node()] = {name};
  open();
}

void CWriter::open_if(const UOp& u) {
  line("if ({}) {{", without_parentheses(scalar(u.src(0))));
  open();
}

void CWriter::end(const UOp&) {
  CHECK(!outer_blocks_.empty(), "an End without its Range");
  block_ = outer_blocks_.back();
  outer_blocks_.pop_back();
  depth_--;
  line("}}");
}

// ---- memory

// The first arguments of a function that reads or writes vectors: the place of the first lane, or the base
// and the index of each lane.
std::string CWriter::place(const Address& at) {
  const std::string base = scalar(at.buffer);
  if (at.scattered) return fmt::format("{}, {}", base, without_parentheses(lanes(at.index, at.lanes)));
  return at.index.is_const(Scalar(0)) ? base : fmt::format("{}+{}", base, scalar(at.index));
}

std::string CWriter::element(const Address& at) {
  const int64_t n = vector_elements(at.buffer);
  return fmt::format(
      "{}[{}]", scalar(at.buffer),
      n ? std::to_string(at.index.value().as_i64() / n) : without_parentheses(scalar(at.index)));
}

// Whether an access is one element of a C array.
bool CWriter::is_element(const Address& at) const { return !at.lanes || vector_elements(at.buffer) > 0; }

void CWriter::load(const UOp& u) {
  const Access a = access_of(u);
  const DType d = u.dtype();
  const int64_t n = a.at.lanes;
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  const std::string otherwise = !a.gate ? "" : n ? lanes(a.value, n, 8) : scalar(a.value);
  std::string text;
  if (is_element(a.at)) {
    text = element(a.at);
  } else {
    text = fmt::format("{}({}", helpers_.load(d, n, lane_access(a)), place(a.at));
    if (lane_gates) text += fmt::format(", {}, {}", lanes(a.gate, n, register_element(d).bits), otherwise);
    text += ")";
  }
  if (a.gate && !lane_gates) text = fmt::format("{} ? {} : {}", scalar(a.gate), text, otherwise);
  define(u, {text, Op::Noop, is_bool(d) && n ? 8 : 0}, false);
}

void CWriter::store(const UOp& u) {
  const Access a = access_of(u);
  const DType d = a.at.buffer.dtype();
  const int64_t n = a.at.lanes;
  CHECK(a.value.dtype() == d, "a {} stored to {}", a.value.dtype(), d);
  const bool lane_gates = a.gate && lanes_of(a.gate) > 0;
  const std::string x = without_parentheses(n ? lanes(a.value, n, 8) : scalar(a.value));
  std::string text;
  if (a.gate && !lane_gates) text = fmt::format("if ({}) ", without_parentheses(scalar(a.gate)));
  if (is_element(a.at)) return line("{}{} = {};", text, element(a.at), x);
  text += fmt::format("{}({}, {}", helpers_.store(d, n, lane_access(a)), place(a.at), x);
  if (lane_gates) text += ", " + lanes(a.gate, n, register_element(d).bits);
  line("{});", text);
}

CAccess CWriter::lane_access(const Access& a) {
  const bool scattered = a.at.scattered;
  return {a.at.buffer.param().space,
          scattered ? std::optional(register_element(a.at.index.dtype())) : std::nullopt,
          a.gate && lanes_of(a.gate) > 0};
}

// ---- the file

std::string CWriter::host_program(const std::string& name, const Signature& s) {
  const auto written = written_buffers(linear_);
  std::string parameters, arguments;
  const auto add = [&](const std::string& parameter, const std::string& argument) {
    parameters += (parameters.empty() ? "" : ", ") + parameter;
    arguments += (arguments.empty() ? "" : ", ") + argument;
  };
  for (size_t i = 0; i < s.buffers.size(); i++) {
    const UOp& b = s.buffers[i];
    const std::string pointer =
        fmt::format("{}{}*", written.contains(b.node()) ? "" : "const ", dialect_.memory_name(b.dtype()));
    add(fmt::format("{} restrict {}", pointer, scalar(b)), fmt::format("({})bufs[{}]", pointer, i));
  }
  for (size_t i = 0; i < s.variables.size(); i++) {
    const std::string t = scalar_type(s.variables[i].dtype());
    add(fmt::format("{} {}", t, scalar(s.variables[i])), fmt::format("({})vars[{}]", t, i));
  }
  if (s.core_id)
    add(scalar_type(s.core_id.dtype()) + " core", fmt::format("({})core_id", scalar_type(s.core_id.dtype())));
  // The body stays a function of its own so that its restrict parameters keep their meaning.
  return fmt::format(
      "// kernel {0}\n#include <stdint.h>\n"
      "#if defined(__clang__) || __GNUC__ >= 12\n#define HAS_SHUFFLEVECTOR 1\n#endif\n"
      "#pragma GCC diagnostic ignored \"-Wpsabi\"\n{1}\n"
      "static __attribute__((noinline)) void {0}_body({2}) {{\n{3}}}\n\n"
      "void {0}(void* const* bufs, const int64_t* vars, int64_t core_id) {{\n"
      "  (void)bufs, (void)vars, (void)core_id;\n  {0}_body({4});\n}}\n",
      name, helpers_.text(), parameters.empty() ? "void" : parameters, body_, arguments);
}

std::string CWriter::device_program(const std::string& name, const Signature& s) {
  const auto written = written_buffers(linear_);
  std::string parameters, head;
  const auto add = [&](const std::string& parameter) {
    parameters += (parameters.empty() ? "" : ", ") + parameter;
  };
  for (const UOp& b : s.buffers) {
    const std::string pointer =
        fmt::format("{}{}{}*", written.contains(b.node()) ? "" : "const ",
                    dialect_.space_name(AddrSpace::Global), dialect_.memory_name(b.dtype()));
    add(fmt::format("{0} mem{1}, ulong at{1}", pointer, b.param().slot));
    head += fmt::format("  {0} restrict {1} = mem{2}+at{2};\n", pointer, scalar(b), b.param().slot);
  }
  for (const UOp& v : s.variables) add(fmt::format("{} {}", scalar_type(v.dtype()), scalar(v)));
  const bool has_items = std::ranges::any_of(s.items, [](const UOp& u) { return static_cast<bool>(u); });
  for (size_t i = 0; i < s.groups.size(); i++) {
    if (s.groups[i])
      head += fmt::format("  int {} = {}({});\n", scalar(s.groups[i]),
                          has_items ? "get_group_id" : "get_global_id", i);
    if (s.items[i]) head += fmt::format("  int {} = get_local_id({});\n", scalar(s.items[i]), i);
  }
  const std::string code = helpers_.text() + body_;
  const bool is_wide = (code + parameters).find("double") != std::string::npos;
  return fmt::format("// kernel {0}\n{1}{2}\n__kernel void {0}({3}) {{\n{4}{5}}}\n", name,
                     is_wide ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "", helpers_.text(),
                     parameters, head, body_);
}

Rendered CWriter::run(std::string_view kernel_name) {
  const std::string name = to_identifier(kernel_name);
  const Signature s = signature_of(linear_);
  if (!dialect_.is_device) refuse_work_groups(s, dialect_.language);
  for (const UOp& b : s.buffers) values_[b.node()] = {fmt::format("buf{}", b.param().slot)};
  for (const UOp& v : s.variables) values_[v.node()] = {pool_.unique("var_" + to_identifier(v.param().name))};
  if (s.core_id) values_[s.core_id.node()] = {"core"};
  for (const auto& specials : {s.groups, s.items})
    for (const UOp& u : specials)
      if (u) values_[u.node()] = {*u.arg_as<TextArg>().text};
  count_uses();
  find_scratch();
  for (const UOp& u : linear_) write_node(*this, u);
  CHECK(outer_blocks_.empty(), "a loop or If is left open");
  return {dialect_.is_device ? device_program(name, s) : host_program(name, s), name};
}

Rendered CStyleRenderer::render(std::string_view kernel_name, std::span<const UOp> linear) const {
  return CWriter(target_, dialect_, linear).run(kernel_name);
}

}  // namespace lathe
