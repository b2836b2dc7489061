// The state of rendering one program as LLVM IR.
#pragma once
#include "base/function_ref.h"
#include "renderer/program.h"

#include <fmt/core.h>

#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

class LlvmWriter {
 public:
  LlvmWriter(const Target& target, std::span<const UOp> linear) : target_(target), linear_(linear) {}
  Rendered run(std::string_view kernel_name);

  // Statements, for write_node.
  void leaf(const UOp&) {}
  void buffer(const UOp& u);
  void range(const UOp& u);
  void end(const UOp& u);
  void open_if(const UOp& u);
  void end_if(const UOp& u);
  void barrier() { line("fence seq_cst"); }
  void load(const UOp& u);
  void store(const UOp& u);
  void stack(const UOp& u);
  void pick(const UOp& u);
  void cast(const UOp& u);
  void bitcast(const UOp& u);
  void alu(const UOp& u);

 private:
  static constexpr std::string_view kLanguage = "LLVM";
  // "float", "<8 x float>"; lanes 0 is a scalar.
  static std::string with_lanes(std::string_view scalar, int64_t lanes);
  static std::string_view scalar_type(DType d);  // in registers
  static std::string_view memory_type(DType d);
  static std::string type(DType d, int64_t lanes);
  // Exact: floats as the hexadecimal of a double, half as its bits. As the operand of an operation on
  // `lanes`: "splat (float 0x…)".
  static std::string literal(DType d, const Scalar& v, int64_t lanes = 0);
  // Suffix of overloaded intrinsics: "f32", "v8f32".
  static std::string suffix(std::string_view scalar, int64_t lanes);
  // Output.
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    body_ += "  ";
    body_ += fmt::format(format, std::forward<T>(args)...);
    body_ += '\n';
  }
  // "%valN = …"; returns the name.
  template <class... T>
  std::string value_of(fmt::format_string<T...> format, T&&... args) {
    std::string name = fmt::format("%val{}", next_value_++);
    line("{} = {}", name, fmt::format(format, std::forward<T>(args)...));
    return name;
  }
  void begin_block(const std::string& label);
  void jump_to(const std::string& label);

  // Values. Scalars meet vectors as splats; a splat is reused where it dominates.
  std::string operand(const UOp& u);
  std::string operand(const UOp& u, int64_t lanes);
  std::string typed(const UOp& u, int64_t lanes) { return type(u.dtype(), lanes) + " " + operand(u, lanes); }
  std::string splat(const std::string& x, std::string_view scalar_type, int64_t lanes);
  std::string shuffle(std::string_view scalar, int64_t m, const std::string& a, const std::string& b,
                      std::span<const int64_t> mask);
  void define(const UOp& u, std::string text) { names_[u.node()] = std::move(text); }
  void open_scope() { splats_.emplace_back(); }
  void close_scope() { splats_.pop_back(); }

  // Memory (llvm.cpp).
  std::string pointer(const Address& at);
  std::string read(const Access& a, DType d);
  std::string guarded(const char* name, const char* block, const UOp& gate, FunctionRef<void()> access);
  std::string gated_read(const Access& a, DType d);
  std::string masked(const Access& a, DType d, bool writes, const std::string& value);
  std::string to_memory(const std::string& x, DType d, int64_t lanes);
  std::string from_memory(const std::string& x, DType d, int64_t lanes);
  void prefetch(const UOp& u);
  bool is_streamed(const UOp& store, const Access& a);
  void declare(const std::string& result, const std::string& name, const std::string& arguments) {
    declarations_.insert(fmt::format("declare {} @{}({})\n", result, name, arguments));
  }
  std::string module_text(const std::string& name, const Signature& signature);

  // Arithmetic (llvm_alu.cpp).
  std::string int_alu(const UOp& u, int64_t n);
  std::string float_alu(const UOp& u, int64_t n);
  std::string compare(const UOp& u, int64_t n);
  void dot(const UOp& u);
  std::string words(const UOp& u, int64_t group, int64_t n);
  std::string lanes_from(const std::string& x, std::string_view scalar, int64_t n, int64_t first,
                         int64_t count);
  std::string converted(const UOp& u, int64_t n);
  std::string call(const std::string& intrinsic, DType d, int64_t n, std::initializer_list<std::string> args);

  const Target& target_;
  std::span<const UOp> linear_;
  std::string body_;
  std::string allocas_;
  std::string block_ = "entry";
  int next_value_ = 0;
  int next_pointer_ = 0;
  int next_buffer_ = 0;
  std::set<std::string> declarations_;  // of intrinsics
  std::set<std::string> streamed_;      // arguments that stores write past the caches
  NamePool pool_;
  std::unordered_set<const Node*> used_;  // values that something reads at run time
  std::unordered_map<const Node*, std::string> names_;
  std::unordered_map<const Node*, std::string> labels_;  // of the blocks of a Range or If, without the suffix
  std::vector<std::unordered_map<std::string, std::string>> splats_;
};

}  // namespace lathe
