#include "runtime/interp/executor.h"

#include "base/error.h"
#include "uop/eval.h"

#include <cstring>

namespace lathe::interp {
namespace {

// Bytes of one memory while a part runs.
struct Bound {
  std::byte* data;
  int64_t elements;
  int64_t item;                // bytes of an element
  std::vector<bool>* written;  // scratch: which elements hold a value
};

Scalar read_element(const Bound& m, int64_t i, DType d) {
  const std::byte* from = m.data + i * m.item;
  if (d == DType::Float32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return Scalar(static_cast<double>(value));
  }
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(m.item));
  return decode(bits, d);
}

void write_element(const Bound& m, int64_t i, const Scalar& value, DType d) {
  std::byte* to = m.data + i * m.item;
  const uint64_t bits = encode(cast_scalar(value, d), d);
  std::memcpy(to, &bits, static_cast<size_t>(m.item));
}

class Run {
 public:
  Run(const Resolved& program, std::span<const std::span<std::byte>> memory, std::span<const int64_t> vars,
      int64_t core_id)
      : program_(program), vars_(vars), core_id_(core_id), values_(program.values) {
    bind(memory);
  }

  void run() {
    const size_t end = program_.steps.size();
    for (size_t pc = 0; pc < end;) pc = step(program_.steps[pc], pc);
  }

 private:
  void bind(std::span<const std::span<std::byte>> memory) {
    scratch_.resize(program_.memories.size());
    written_.resize(program_.memories.size());
    for (size_t i = 0; i < program_.memories.size(); i++) {
      const Memory& m = program_.memories[i];
      const int64_t item = item_size(m.dtype);
      if (m.is_scratch) {
        scratch_[i].resize(static_cast<size_t>(m.elements * item));
        written_[i].resize(static_cast<size_t>(m.elements));
        bound_.push_back({scratch_[i].data(), m.elements, item, &written_[i]});
        continue;
      }
      int64_t elements = static_cast<int64_t>(memory[i].size()) / item;
      if (m.elements >= 0) elements = std::min(elements, m.elements);
      bound_.push_back({memory[i].data(), elements, item, nullptr});
    }
  }

  const Scalar& at(const Operand& o, int32_t lane = 0) const {
    return values_[static_cast<size_t>(o.at + lane * o.stride)];
  }
  Scalar& result(const Step& s, int32_t lane = 0) { return values_[static_cast<size_t>(s.at + lane)]; }

  // The step that comes next.
  size_t step(const Step& s, size_t pc) {
    switch (s.kind) {
      case StepKind::Variable:
        result(s) = cast_scalar(Scalar(vars_[static_cast<size_t>(s.index)]), s.dtype);
        break;
      case StepKind::CoreId: result(s) = Scalar(core_id_); break;
      case StepKind::OpenLoop:
        result(s) = Scalar(0);
        if (at(s.srcs[0]).as_i64() <= 0) return static_cast<size_t>(s.jump);
        break;
      case StepKind::CloseLoop: {
        const Step& open = program_.steps[static_cast<size_t>(s.jump)];
        const int64_t next = result(open).as_i64() + 1;
        if (next >= at(open.srcs[0]).as_i64()) break;
        result(open) = Scalar(next);
        return static_cast<size_t>(s.jump) + 1;
      }
      case StepKind::Skip:
        if (!at(s.srcs[0]).as_bool()) return static_cast<size_t>(s.jump);
        break;
      case StepKind::Alu: alu(s); break;
      case StepKind::Dot: dot(s); break;
      case StepKind::Cast:
        for (int32_t i = 0; i < s.lanes; i++) result(s, i) = cast_scalar(at(s.srcs[0], i), s.dtype);
        break;
      case StepKind::Bitcast: reinterpret(s); break;
      case StepKind::Gather:
        for (int32_t i = 0; i < s.lanes; i++) result(s, i) = at(s.srcs[static_cast<size_t>(i)]);
        break;
      case StepKind::Load: load(s); break;
      case StepKind::Store: store(s); break;
    }
    return pc + 1;
  }

  void alu(const Step& s) {
    const size_t n = s.srcs.size();
    Scalar operands[3];
    for (int32_t lane = 0; lane < s.lanes; lane++) {
      for (size_t i = 0; i < n; i++) operands[i] = at(s.srcs[i], lane);
      std::optional<Scalar> value = eval(s.op, s.dtype, {operands, n});
      if (!value) no_value(s, {operands, n});
      result(s, lane) = *value;
    }
  }

  // Sums of floats are rounded once.
  void dot(const Step& s) {
    const auto number = [&](const Scalar& v) {
      return s.from == DType::UInt16 ? decode(static_cast<uint64_t>(v.as_int()), DType::BFloat16) : v;
    };
    const int32_t group = 32 / bit_width(s.from);
    for (int32_t lane = 0; lane < s.lanes; lane++) {
      const Scalar start = at(s.srcs[0], lane);
      double real = start.as_double();
      int128 whole = is_int(s.dtype) ? start.as_int() : 0;
      for (int32_t i = lane * group; i < (lane + 1) * group; i++) {
        const Scalar a = number(at(s.srcs[1], i)), b = number(at(s.srcs[2], i));
        if (is_int(s.dtype))
          whole += a.as_int() * b.as_int();
        else
          real += a.as_double() * b.as_double();
      }
      result(s, lane) = cast_scalar(is_int(s.dtype) ? Scalar(whole) : Scalar(real), s.dtype);
    }
  }

  [[noreturn]] void no_value(const Step& s, std::span<const Scalar> operands) const {
    std::string text;
    for (const Scalar& v : operands) text += (text.empty() ? "" : ", ") + v.to_string();
    device_error("{}: {}({}) of type {} has no value", program_.name, s.op, text, s.dtype);
  }

  // Lanes are laid out as in memory, so types of different width take several lanes or parts of one.
  void reinterpret(const Step& s) {
    const int64_t from_size = item_size(s.from), to_size = item_size(s.dtype);
    if (from_size == to_size) {
      for (int32_t i = 0; i < s.lanes; i++) result(s, i) = bitcast_scalar(at(s.srcs[0], i), s.from, s.dtype);
      return;
    }
    const int64_t total = s.lanes * to_size;
    CHECK(total % from_size == 0, "Bitcast of {} bytes to {}", total, s.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(total));
    for (int64_t i = 0; i < total / from_size; i++) {
      const uint64_t bits = encode(at(s.srcs[0], static_cast<int32_t>(i)), s.from);
      std::memcpy(&bytes[static_cast<size_t>(i * from_size)], &bits, static_cast<size_t>(from_size));
    }
    for (int32_t i = 0; i < s.lanes; i++) {
      uint64_t bits = 0;
      std::memcpy(&bits, &bytes[static_cast<size_t>(i * to_size)], static_cast<size_t>(to_size));
      result(s, i) = decode(bits, s.dtype);
    }
  }

  bool is_open(const Step& s, int32_t lane) const { return !s.has_gate || at(s.srcs[2], lane).as_bool(); }

  // The element that a lane touches, inside the buffer.
  int64_t element(const Step& s, int32_t lane) const {
    const int64_t i = s.is_scattered ? at(s.srcs[0], lane).as_i64() : at(s.srcs[0]).as_i64() + lane;
    const int64_t size = bound_[static_cast<size_t>(s.index)].elements;
    if (i < 0 || i >= size) [[unlikely]]
      out_of_range(s, i, size);
    return i;
  }

  [[noreturn]] void out_of_range(const Step& s, int64_t i, int64_t size) const {
    const Memory& m = program_.memories[static_cast<size_t>(s.index)];
    index_error("{}: {} outside {} slot {}: index {}, size {} ({})", program_.name, s.op,
                m.is_scratch ? "scratch" : "buffer", m.slot, i, size, m.dtype);
  }

  void load(const Step& s) {
    const Bound& m = bound_[static_cast<size_t>(s.index)];
    for (int32_t lane = 0; lane < s.lanes; lane++) {
      if (!is_open(s, lane)) {
        result(s, lane) = at(s.srcs[1], lane);
        continue;
      }
      const int64_t i = element(s, lane);
      if (m.written && !(*m.written)[static_cast<size_t>(i)]) [[unlikely]]
        device_error("{}: scratch slot {} is read at {} before it is written", program_.name,
                     program_.memories[static_cast<size_t>(s.index)].slot, i);
      result(s, lane) = read_element(m, i, s.dtype);
    }
  }

  void store(const Step& s) {
    const Bound& m = bound_[static_cast<size_t>(s.index)];
    for (int32_t lane = 0; lane < s.lanes; lane++) {
      if (!is_open(s, lane)) continue;
      const int64_t i = element(s, lane);
      write_element(m, i, at(s.srcs[1], lane), s.dtype);
      if (m.written) (*m.written)[static_cast<size_t>(i)] = true;
    }
  }

  const Resolved& program_;
  std::span<const int64_t> vars_;
  int64_t core_id_;
  std::vector<Scalar> values_;
  std::vector<Bound> bound_;
  std::vector<std::vector<std::byte>> scratch_;
  std::vector<std::vector<bool>> written_;
};

}  // namespace

void Code::run(std::span<const std::span<std::byte>> memory, std::span<const int64_t> vars,
               int64_t core_id) const {
  CHECK(static_cast<int>(memory.size()) == program_.n_params, "{} takes {} buffers, not {}", program_.name,
        program_.n_params, memory.size());
  CHECK(vars.size() == program_.variables.size(), "{} takes {} variables, not {}", program_.name,
        program_.variables.size(), vars.size());
  Run(program_, memory, vars, core_id).run();
}

}  // namespace lathe::interp
