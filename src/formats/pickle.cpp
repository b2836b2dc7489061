#include "formats/pickle.h"

#include "archive/little_endian.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace lathe {
namespace {

using Kind = PickleValue::Kind;

// Far more than a checkpoint of a large model with its optimiser has; bounds the memory at about 512 MB.
constexpr size_t kMaxValues = size_t{1} << 22;
// Joined from texts that the file has once.
constexpr size_t kMaxNameBytes = size_t{1} << 26;

constexpr int kDict = 1;

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, size_t begin, std::string_view where, size_t base)
      : bytes_(bytes), where_(where), base_(base), at_(begin) {}

  Result<Pickle> run();

  // Actions of opcodes; `n` is the number that the opcode's row gives.

  Result<void> skip(int n) {
    LATHE_TRY_DO(number(n));
    return {};
  }

  Result<void> protocol(int) {
    constexpr uint64_t kNewest = 5;
    LATHE_TRY(version, number(1));
    if (version > kNewest) return error(fmt::format("protocol {} is unknown", version));
    return {};
  }

  Result<void> constant(int n) { return push({.kind = n == 0 ? Kind::None : Kind::Bool, .integer = n == 2}); }

  Result<void> integer(int n) {
    LATHE_TRY(bits, number(n));
    // Four bytes have a sign.
    const int64_t value =
        n == 4 ? static_cast<int32_t>(static_cast<uint32_t>(bits)) : static_cast<int64_t>(bits);
    return push({.kind = Kind::Int, .integer = value});
  }

  Result<void> long_integer(int n) {
    LATHE_TRY(bytes, run_of(n));
    if (bytes.size() > 8) return push({.kind = Kind::LongInt, .text = std::move(bytes)});
    uint64_t bits = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
    return push({.kind = Kind::Int, .integer = static_cast<int64_t>(bits)});
  }

  Result<void> floating(int) {
    LATHE_TRY(bits, number(8));  // big-endian
    return push({.kind = Kind::Float, .number = std::bit_cast<double>(__builtin_bswap64(bits))});
  }

  Result<void> text(int n) {
    LATHE_TRY(value, run_of(n));
    return push({.kind = Kind::Text, .text = std::move(value)});
  }

  Result<void> raw_bytes(int n) {
    LATHE_TRY(value, run_of(n));
    return push({.kind = Kind::Bytes, .text = std::move(value)});
  }

  Result<void> global(int) {
    LATHE_TRY(module, line());
    LATHE_TRY(name, line());
    return push({.kind = Kind::Global, .text = module + "." + name});
  }

  Result<void> stack_global(int) {
    LATHE_TRY(name, take());
    LATHE_TRY(module, take());
    if (values_[name].kind != Kind::Text || values_[module].kind != Kind::Text)
      return error("the name of a global is not a text");
    name_bytes_ += values_[module].text.size() + values_[name].text.size();
    if (name_bytes_ > kMaxNameBytes)
      return error(fmt::format("more than {} bytes of names of globals", kMaxNameBytes));
    return push({.kind = Kind::Global, .text = values_[module].text + "." + values_[name].text});
  }

  Result<void> mark(int) {
    marks_.push_back(stack_.size());
    return {};
  }

  Result<void> pop(int) {
    // A mark right on top goes in the place of a value, as in Python.
    if (!marks_.empty() && marks_.back() == stack_.size()) return pop_mark(0);
    LATHE_TRY_DO(take());
    return {};
  }

  Result<void> pop_mark(int) {
    LATHE_TRY_DO(take_marked());
    return {};
  }

  Result<void> duplicate(int) {
    LATHE_TRY(top, take());
    stack_.insert(stack_.end(), {top, top});
    return {};
  }

  Result<void> empty(int n) { return push({.kind = n == kDict ? Kind::Dict : Kind::Sequence}); }

  Result<void> sequence(int) {
    LATHE_TRY(items, take_marked());
    return push({.kind = Kind::Sequence, .items = std::move(items)});
  }

  Result<void> dict(int) {
    LATHE_TRY_DO(sequence(0));
    PickleValue& value = values_.back();
    if (value.items.size() % 2 != 0) return error("a key has no value");
    value.kind = Kind::Dict;
    return {};
  }

  Result<void> short_tuple(int n) {
    std::vector<PickleRef> items(static_cast<size_t>(n));
    for (size_t i = items.size(); i-- > 0;) {
      LATHE_TRY(item, take());
      items[i] = item;
    }
    return push({.kind = Kind::Sequence, .items = std::move(items)});
  }

  Result<void> append(int n) {
    // The same as a mark below n values.
    if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < static_cast<size_t>(n))
      return error("the stack is empty");
    marks_.push_back(stack_.size() - static_cast<size_t>(n));
    return extend(n == 2 ? kDict : 0);
  }

  Result<void> extend(int n) {
    LATHE_TRY(items, take_marked());
    LATHE_TRY(ref, take());
    stack_.push_back(ref);
    PickleValue& target = values_[ref];
    if (n == kDict && items.size() % 2 != 0) return error("a key has no value");
    if (target.kind != Kind::Object && target.kind != (n == kDict ? Kind::Dict : Kind::Sequence))
      return error("only lists, sets, dicts and objects have items");
    if (!target.entries.empty() && target.has_keys != (n == kDict))
      return error("an object is a list and a dict at once");
    target.has_keys = n == kDict;
    auto& to = target.kind == Kind::Object ? target.entries : target.items;
    to.insert(to.end(), items.begin(), items.end());
    return {};
  }

  Result<void> call(int) {
    LATHE_TRY(arguments, take());
    LATHE_TRY(callee, take());
    return push({.kind = Kind::Object, .items = {callee, arguments}});
  }

  Result<void> call_with_names(int) {
    LATHE_TRY(named, take());
    LATHE_TRY_DO(call(0));
    values_.back().items.push_back(named);  // beside the state, which is also a dict
    return {};
  }

  Result<void> build(int) {
    LATHE_TRY(state, take());
    LATHE_TRY(ref, take());
    stack_.push_back(ref);
    if (values_[ref].kind != Kind::Object) return error("only objects have a state");
    values_[ref].items.push_back(state);
    return {};
  }

  Result<void> persistent(int) {
    LATHE_TRY(id, take());
    return push({.kind = Kind::Persistent, .items = {id}});
  }

  Result<void> put(int n) {
    LATHE_TRY(key, number(n));
    return remember(key);
  }

  Result<void> memoize(int) { return remember(memo_.size()); }

  Result<void> recall(int n) {
    LATHE_TRY(key, number(n));
    const auto found = memo_.find(key);
    if (found == memo_.end()) return error(fmt::format("nothing is remembered as {}", key));
    stack_.push_back(found->second);
    return {};
  }

 private:
  ParseError error(std::string text) const {
    return {std::move(text), base_ + std::min(at_, bytes_.size()), std::string(where_)};
  }

  Result<uint64_t> number(int width) {
    const auto bytes = static_cast<size_t>(width);
    if (at_ > bytes_.size() || bytes_.size() - at_ < bytes) return error("the pickle is cut off");
    const uint64_t out = read_little_endian(bytes_, at_, bytes);
    at_ += bytes;
    return out;
  }

  // bytes after their number, which has `width` bytes
  Result<std::string> run_of(int width) {
    LATHE_TRY(length, number(width));
    if (length > bytes_.size() - at_)
      return error(fmt::format("{} bytes are announced, but only {} follow", length, bytes_.size() - at_));
    std::string out(reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(length));
    at_ += out.size();
    return out;
  }

  Result<std::string> line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), std::byte{'\n'});
    if (end == rest.end()) return error("a line has no end");
    std::string out(reinterpret_cast<const char*>(rest.data()), static_cast<size_t>(end - rest.begin()));
    at_ += out.size() + 1;
    return out;
  }

  Result<PickleRef> add(PickleValue value) {
    if (values_.size() == kMaxValues) return error(fmt::format("more than {} values", kMaxValues));
    value.at = base_ + at_;
    values_.push_back(std::move(value));
    return static_cast<PickleRef>(values_.size() - 1);
  }

  Result<void> push(PickleValue value) {
    LATHE_TRY(ref, add(std::move(value)));
    stack_.push_back(ref);
    return {};
  }

  Result<PickleRef> take() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return error("the stack is empty");
    const PickleRef out = stack_.back();
    stack_.pop_back();
    return out;
  }

  Result<std::vector<PickleRef>> take_marked() {
    if (marks_.empty()) return error("there is no mark");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleRef> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }

  Result<void> remember(uint64_t key) {
    LATHE_TRY(top, take());
    stack_.push_back(top);
    if (memo_.size() == kMaxValues)
      return error(fmt::format("more than {} values are remembered", kMaxValues));
    memo_[key] = top;
    return {};
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t base_, at_, name_bytes_ = 0;
  std::vector<PickleValue> values_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, PickleRef> memo_;
};

struct Opcode {
  unsigned char code;
  Result<void> (Unpickler::*run)(int n);
  int n = 0;
};
constexpr unsigned char kStop = '.';
constexpr Opcode kOpcodes[] = {
#define OPCODE(name, code, action, n) {code, &Unpickler::action, n},
#include "formats/pickle_opcodes.def"
#undef OPCODE
};

constexpr auto kRows = [] {
  std::array<const Opcode*, 256> out{};
  for (const Opcode& o : kOpcodes) out[o.code] = &o;
  return out;
}();

Result<Pickle> Unpickler::run() {
  for (;;) {
    LATHE_TRY(code, number(1));
    if (code == kStop) break;
    const Opcode* row = kRows[code];
    if (row == nullptr) {
      at_--;
      return error(fmt::format("opcode 0x{:02x} is not one that checkpoints are made of", code));
    }
    LATHE_TRY_DO((this->*row->run)(row->n));
  }
  LATHE_TRY(root, take());
  return Pickle{std::move(values_), root, base_ + at_};
}

}  // namespace

Result<Pickle> unpickle(std::span<const std::byte> bytes, size_t begin, std::string_view where, size_t base) {
  return Unpickler(bytes, begin, where, base).run();
}

}  // namespace lathe
