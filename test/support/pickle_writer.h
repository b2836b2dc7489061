#pragma once

// Writes pickles for tests, of protocol 2: what each function returns pushes one value.

#include "archive/little_endian.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::test::pickle {

inline std::string file(const std::string& value) { return "\x80\x02" + value + "."; }

inline std::string text(std::string_view v) { return "X" + little_endian(v.size(), 4) + std::string(v); }
inline std::string truth(bool v) { return v ? "\x88" : "\x89"; }
inline std::string number(int64_t v) {
  return std::string("\x8a\x08") + little_endian(static_cast<uint64_t>(v), 8);
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "}(";
  for (const auto& [key, value] : entries) out += key + value;
  return out + "u";
}
// `name` is module.name.
inline std::string global(const std::string& name) {
  const size_t dot = name.rfind('.');
  return "c" + name.substr(0, dot) + "\n" + name.substr(dot + 1) + "\n";
}
inline std::string call(const std::string& name, const std::string& arguments) {
  return global(name) + arguments + "R";
}
inline std::string object(const std::string& name, const std::string& arguments, const std::string& state) {
  return global(name) + arguments + "\x81" + state + "b";
}

// What torch.save writes.
inline std::string storage(const std::string& type, const std::string& key, int64_t elements) {
  return tuple({text("storage"), global("torch." + type), text(key), text("cpu"), number(elements)}) + "Q";
}
inline std::string numbers(const std::vector<int64_t>& list) {
  std::vector<std::string> items;
  for (int64_t v : list) items.push_back(number(v));
  return tuple(items);
}
inline std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& strides) {
  return call("torch._utils._rebuild_tensor_v2",
              tuple({storage, number(offset), numbers(shape), numbers(strides), truth(false)}));
}

}  // namespace lathe::test::pickle
