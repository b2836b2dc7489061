// The payload of a node: a closed variant of named structs.
#pragma once
#include "base/hash.h"
#include "uop/op.h"
#include "uop/scalar.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lathe {

// How a Range runs.
enum class AxisType : uint8_t {
#define AXIS(name, letter) name,
#include "uop/axes.def"
};
std::string_view axis_name(AxisType t);  // "Global", …
char axis_letter(AxisType t);
std::optional<AxisType> parse_axis_type(std::string_view name);

enum class AddrSpace : uint8_t { Global, Local, Reg, Alu };

struct RangeArg {
  int32_t id = 0;
  AxisType type = AxisType::Loop;
  bool operator==(const RangeArg&) const = default;
};

struct ReduceArg {
  Op op = Op::Add;
  int32_t n_axes = 0;  // leading axes folded; 0 when Ranges are sources
  bool operator==(const ReduceArg&) const = default;
};

// Axis lists of Permute (a permutation), Flip (0/1 flags) and Multi (the axis it is split along, if any).
struct AxesArg {
  static constexpr int kMaxRank = 23;
  int8_t n = 0;
  std::array<int8_t, kMaxRank> v{};
  AxesArg() = default;
  explicit AxesArg(std::span<const int> axes);
  std::span<const int8_t> span() const { return {v.data(), static_cast<size_t>(n)}; }
  bool operator==(const AxesArg&) const = default;
};

// What memory a realised Buffer node stands for. Owned by the node, so storage dies with the last use of the
// node; not part of the node's identity.
class Storage {
 public:
  virtual ~Storage() = default;
};
struct StorageSlot {
  std::shared_ptr<Storage> storage;  // empty until allocated
};

// A Buffer, a Param or a symbolic variable.
struct ParamArg {
  int64_t slot = 0;  // Param: argument position; Buffer: a process-wide unique id; variable: -1
  DType dtype = DType::Void;
  AddrSpace space = AddrSpace::Global;
  std::string name;                                   // variables and named arguments
  std::string device;                                 // "" where no device applies
  std::optional<std::pair<int64_t, int64_t>> bounds;  // inclusive; variables have them
  int64_t multiple_of = 1;
  std::shared_ptr<StorageSlot> store;  // Global Buffers only; not compared, not hashed
  bool operator==(const ParamArg& o) const {
    return slot == o.slot && dtype == o.dtype && space == o.space && name == o.name && device == o.device &&
           bounds == o.bounds && multiple_of == o.multiple_of;
  }
};
using ParamPtr = std::shared_ptr<const ParamArg>;

// One optimiser action (codegen/actions.h gives their meaning).
enum class ActionKind : uint8_t {
#define ACTION(name) name,
#include "uop/actions.def"
};
struct Action {
  ActionKind kind;
  int32_t axis;    // position in the kernel's list of axes at the time the action applies
  int32_t amount;  // 0 = the whole axis; Swap: the other axis; Stage: sliding loops; Merge: unused
  bool operator==(const Action&) const = default;
};

// What a kernel Sink carries.
struct KernelArg {
  std::string name;                          // "" until the kernel is named
  std::vector<Action> actions;               // applied so far, for display
  std::optional<std::vector<Action>> given;  // a schedule fixed by the user or by search
  // A kernel that is no graph: its text in the language of the device's renderer, or what a compiler made of
  // it; `name` is the entry, the sources of the Sink are the Params it takes.
  std::string source = {};
  bool is_binary = false;
  int32_t n_cores = 1;  // how often the source runs, with core_id from 0 on
  bool operator==(const KernelArg&) const = default;
};
using KernelPtr = std::shared_ptr<const KernelArg>;

// The gradient that a user gives a Call (tensor/gradient.h).
struct CallGradient;

// What a Call carries. A body with a KernelArg is a kernel, any other one a function: its sources are values
// over its Params.
struct CallArg {
  std::string name;
  int32_t n_written = 0;    // the first arguments, which are states of memory, are written
  bool precompile = false;  // the body is scheduled once, by itself
  bool recompute = false;   // gradients compute what they need of the body again
  int64_t gradient_id = 0;  // of `gradient`, a process-wide unique number; 0 without one
  std::shared_ptr<const CallGradient> gradient = nullptr;  // not compared, not hashed
  bool operator==(const CallArg& o) const {
    return name == o.name && n_written == o.n_written && precompile == o.precompile &&
           recompute == o.recompute && gradient_id == o.gradient_id;
  }
};
using CallPtr = std::shared_ptr<const CallArg>;

struct TextArg {  // Special names, Noop notes
  std::shared_ptr<const std::string> text;
  explicit TextArg(std::string s) : text(std::make_shared<const std::string>(std::move(s))) {}
  bool operator==(const TextArg& o) const { return *text == *o.text; }
};

struct DeviceArg {  // target of Copy
  std::shared_ptr<const std::string> device;
  explicit DeviceArg(std::string s) : device(std::make_shared<const std::string>(std::move(s))) {}
  bool operator==(const DeviceArg& o) const { return *device == *o.device; }
};

struct StageArg {
  AddrSpace space = AddrSpace::Global;
  bool removable = true;  // false where the user asked for memory (contiguous)
  bool operator==(const StageArg&) const = default;
};

using Arg = std::variant<std::monostate, Scalar, RangeArg, ReduceArg, AxesArg, ParamPtr, KernelPtr, TextArg,
                         DeviceArg, StageArg, CallPtr>;

bool same_arg(const Arg& a, const Arg& b);  // by value, through pointers
Hash128 hash_arg(const Arg& a, Hash128 seed);

}  // namespace lathe
