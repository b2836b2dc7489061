// Python pickles as data. Nothing of what they name is looked up or called: a call stays a record of what
// would have been called with what.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// A value's place in Pickle::values. Values may contain each other in circles.
using PickleRef = uint32_t;

struct PickleValue {
  enum class Kind : uint8_t {
    None,
    Bool,     // integer
    Int,      // integer
    LongInt,  // text: more than 8 bytes in two's complement, the lowest first
    Float,    // number
    Text,     // text
    Bytes,    // text
    Global,   // text: the module and the name in it, with a dot between them
    // From here on with values inside.
    Sequence,    // items: a tuple, list or set
    Dict,        // items: keys and values in turn
    Object,      // items: what is called, and its arguments; then named arguments and the outcome's state
    Persistent,  // items: the id, which the pickle's owner knows
  };
  Kind kind = Kind::None;
  bool has_keys = false;  // Object: entries are keys and values
  int64_t integer = 0;
  double number = 0;
  std::string text = {};
  std::vector<PickleRef> items = {};
  std::vector<PickleRef> entries = {};  // Object: what was appended to it, or keys and values in turn
  size_t at = 0;                        // where in the file it ended
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleRef root = 0;
  size_t end = 0;  // of the pickle, in the file

  const PickleValue& operator[](PickleRef r) const { return values[r]; }
};

// The pickle that starts at byte `begin`: protocols 1 to 5 without their textual numbers and strings, without
// extension codes, `INST` and `OBJ`, and without buffers outside of it. `base` is the offset of the bytes in
// the file that `where` names. Throws a ParseError.
Pickle unpickle(std::span<const std::byte> bytes, size_t begin, std::string_view where, size_t base = 0);

}  // namespace lathe
