#include "formats/pickle.h"

#include "archive/little_endian.h"
#include "archive/parsing.h"

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

  Pickle run();

  // Actions of opcodes; `n` is the number that the opcode's row gives.

  void skip(int n) { number(n); }

  void protocol(int) {
    constexpr uint64_t kNewest = 5;
    if (const uint64_t version = number(1); version > kNewest) fail("protocol {} is unknown", version);
  }

  void constant(int n) { push({.kind = n == 0 ? Kind::None : Kind::Bool, .integer = n == 2}); }

  void integer(int n) {
    const auto bits = number(n);
    // Four bytes have a sign.
    const int64_t value =
        n == 4 ? static_cast<int32_t>(static_cast<uint32_t>(bits)) : static_cast<int64_t>(bits);
    push({.kind = Kind::Int, .integer = value});
  }

  void long_integer(int n) {
    std::string bytes = run_of(n);
    if (bytes.size() > 8) return push({.kind = Kind::LongInt, .text = std::move(bytes)});
    uint64_t bits = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
    push({.kind = Kind::Int, .integer = static_cast<int64_t>(bits)});
  }

  void floating(int) {  // big-endian
    push({.kind = Kind::Float, .number = std::bit_cast<double>(__builtin_bswap64(number(8)))});
  }

  void text(int n) { push({.kind = Kind::Text, .text = run_of(n)}); }
  void raw_bytes(int n) { push({.kind = Kind::Bytes, .text = run_of(n)}); }

  void global(int) {
    const std::string module = line();
    push({.kind = Kind::Global, .text = module + "." + line()});
  }

  void stack_global(int) {
    const PickleRef name = take(), module = take();
    if (values_[name].kind != Kind::Text || values_[module].kind != Kind::Text)
      fail("the name of a global is not a text");
    name_bytes_ += values_[module].text.size() + values_[name].text.size();
    if (name_bytes_ > kMaxNameBytes) fail("more than {} bytes of names of globals", kMaxNameBytes);
    push({.kind = Kind::Global, .text = values_[module].text + "." + values_[name].text});
  }

  void mark(int) { marks_.push_back(stack_.size()); }

  void pop(int) {
    // A mark right on top goes in the place of a value, as in Python.
    if (!marks_.empty() && marks_.back() == stack_.size()) return pop_mark(0);
    take();
  }

  void pop_mark(int) { take_marked(); }

  void duplicate(int) {
    const PickleRef top = take();
    stack_.insert(stack_.end(), {top, top});
  }

  void empty(int n) { push({.kind = n == kDict ? Kind::Dict : Kind::Sequence}); }

  void sequence(int) { push({.kind = Kind::Sequence, .items = take_marked()}); }

  void dict(int) {
    sequence(0);
    PickleValue& value = values_.back();
    if (value.items.size() % 2 != 0) fail("a key has no value");
    value.kind = Kind::Dict;
  }

  void short_tuple(int n) {
    std::vector<PickleRef> items(static_cast<size_t>(n));
    for (size_t i = items.size(); i-- > 0;) items[i] = take();
    push({.kind = Kind::Sequence, .items = std::move(items)});
  }

  void append(int n) {
    // The same as a mark below n values.
    if (stack_.size() - (marks_.empty() ? 0 : marks_.back()) < static_cast<size_t>(n))
      fail("the stack is empty");
    marks_.push_back(stack_.size() - static_cast<size_t>(n));
    extend(n == 2 ? kDict : 0);
  }

  void extend(int n) {
    const std::vector<PickleRef> items = take_marked();
    const PickleRef ref = take();
    stack_.push_back(ref);
    PickleValue& target = values_[ref];
    if (n == kDict && items.size() % 2 != 0) fail("a key has no value");
    if (target.kind != Kind::Object && target.kind != (n == kDict ? Kind::Dict : Kind::Sequence))
      fail("only lists, sets, dicts and objects have items");
    if (!target.entries.empty() && target.has_keys != (n == kDict))
      fail("an object is a list and a dict at once");
    target.has_keys = n == kDict;
    auto& to = target.kind == Kind::Object ? target.entries : target.items;
    to.insert(to.end(), items.begin(), items.end());
  }

  void call(int) {
    const PickleRef arguments = take(), callee = take();
    push({.kind = Kind::Object, .items = {callee, arguments}});
  }

  void call_with_names(int) {
    const PickleRef named = take();
    call(0);
    values_.back().items.push_back(named);  // beside the state, which is also a dict
  }

  void build(int) {
    const PickleRef state = take(), ref = take();
    stack_.push_back(ref);
    if (values_[ref].kind != Kind::Object) fail("only objects have a state");
    values_[ref].items.push_back(state);
  }

  void persistent(int) { push({.kind = Kind::Persistent, .items = {take()}}); }
  void put(int n) { remember(number(n)); }
  void memoize(int) { remember(memo_.size()); }

  void recall(int n) {
    const uint64_t key = number(n);
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("nothing is remembered as {}", key);
    stack_.push_back(found->second);
  }

 private:
  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, base_ + std::min(at_, bytes_.size()), format, std::forward<T>(args)...);
  }

  uint64_t number(int width) {
    const auto bytes = static_cast<size_t>(width);
    if (at_ > bytes_.size() || bytes_.size() - at_ < bytes) fail("the pickle is cut off");
    const uint64_t out = read_little_endian(bytes_, at_, bytes);
    at_ += bytes;
    return out;
  }

  // bytes after their number, which has `width` bytes
  std::string run_of(int width) {
    const auto length = number(width);
    if (length > bytes_.size() - at_)
      fail("{} bytes are announced, but only {} follow", length, bytes_.size() - at_);
    std::string out(text_of(bytes_.subspan(at_, static_cast<size_t>(length))));
    at_ += out.size();
    return out;
  }

  std::string line() {
    const std::string_view rest = text_of(bytes_.subspan(at_));
    if (rest.find('\n') == rest.npos) fail("a line has no end");
    std::string out(rest.substr(0, rest.find('\n')));
    at_ += out.size() + 1;
    return out;
  }

  void push(PickleValue value) {
    if (values_.size() == kMaxValues) fail("more than {} values", kMaxValues);
    value.at = base_ + at_;
    stack_.push_back(static_cast<PickleRef>(values_.size()));
    values_.push_back(std::move(value));
  }

  PickleRef take() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the stack is empty");
    const PickleRef out = stack_.back();
    stack_.pop_back();
    return out;
  }

  std::vector<PickleRef> take_marked() {
    if (marks_.empty()) fail("there is no mark");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleRef> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }

  void remember(uint64_t key) {
    const PickleRef top = take();
    stack_.push_back(top);
    if (memo_.size() == kMaxValues) fail("more than {} values are remembered", kMaxValues);
    memo_[key] = top;
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
  void (Unpickler::*run)(int n);
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

Pickle Unpickler::run() {
  for (;;) {
    const auto code = number(1);
    if (code == kStop) break;
    const Opcode* row = kRows[code];
    if (row == nullptr) {
      at_--;
      fail("opcode 0x{:02x} is not one that checkpoints are made of", code);
    }
    (this->*row->run)(row->n);
  }
  const PickleRef root = take();
  return {std::move(values_), root, base_ + at_};
}

}  // namespace

Pickle unpickle(std::span<const std::byte> bytes, size_t begin, std::string_view where, size_t base) {
  return Unpickler(bytes, begin, where, base).run();
}

}  // namespace lathe
