#include "formats/torch_rebuild.h"

#include "archive/parsing.h"
#include "formats/dtype_names_table.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace lathe {
namespace {

using Kind = PickleValue::Kind;

// Storages of what is no element here, and of plain bytes.
constexpr TorchType kOtherStorages[] = {
    {"Untyped", 1, DType::UInt8},  {"ComplexFloat", 8, std::nullopt}, {"ComplexDouble", 16, std::nullopt},
    {"QInt8", 1, std::nullopt},    {"QUInt8", 1, std::nullopt},       {"QInt32", 4, std::nullopt},
    {"QUInt4x2", 1, std::nullopt}, {"QUInt2x4", 1, std::nullopt},
};

// How a function of PyTorch makes a tensor.
enum class Rebuild : uint8_t {
  View,       // (storage, offset, size, stride, …)
  TypedView,  // the same with a dtype at position 6
  First,      // (tensor, …)
  Call,       // (function, class, arguments, …)
};
struct RebuildRow {
  std::string_view name;
  Rebuild how;
};
constexpr RebuildRow kRebuilds[] = {
    {"torch._utils._rebuild_tensor", Rebuild::View},
    {"torch._utils._rebuild_tensor_v2", Rebuild::View},
    {"torch._utils._rebuild_tensor_v3", Rebuild::TypedView},
    {"torch._utils._rebuild_parameter", Rebuild::First},
    {"torch._utils._rebuild_parameter_with_state", Rebuild::First},
    {"torch.nn.parameter.Parameter", Rebuild::First},
    {"torch.nn.parameter.Buffer", Rebuild::First},
    {"torch.autograd.variable.Variable", Rebuild::First},
    {"torch._tensor._rebuild_from_type_v2", Rebuild::Call},
};
constexpr std::string_view kDicts[] = {"collections.OrderedDict", "collections.defaultdict"};
// Attributes of a module whose entries are its own.
constexpr std::string_view kModuleDicts[] = {"_parameters", "_buffers", "_modules"};

constexpr size_t kMaxDepth = 200, kMaxShownText = 1024;
// Shared values are met once for every way that leads to them, of which there may be exponentially many.
constexpr size_t kMaxVisits = size_t{1} << 20, kMaxNameBytes = size_t{1} << 25;
constexpr size_t kMaxPassed = size_t{1} << 26;  // values of lists that are passed over

bool is_one_of(std::string_view name, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

const RebuildRow* find_rebuild(std::string_view name) {
  const auto row = std::find_if(std::begin(kRebuilds), std::end(kRebuilds),
                                [&](const RebuildRow& r) { return r.name == name; });
  return row == std::end(kRebuilds) ? nullptr : row;
}

class Collector {
 public:
  Collector(const Pickle& pickle, const TorchResolver& resolve, std::string_view where, TorchCheckpoint& out)
      : pickle_(pickle), resolve_(resolve), where_(where), out_(out) {}

  void run() {
    enter(pickle_.root, {});
    while (!frames_.empty()) {
      Frame& top = frames_.back();
      if (top.children.empty()) {
        frames_.pop_back();
        continue;
      }
      Place child = std::move(top.children.back());
      top.children.pop_back();
      enter(child.ref, child);
    }
  }

 private:
  struct Place {
    PickleRef ref = 0;
    std::string name;
    bool is_state = false;               // of an object: entries are attributes
    bool is_shown = true;                // as metadata
    const PickleValue* maker = nullptr;  // the unknown callable whose argument this is
  };
  struct Frame {
    std::vector<Place> children;  // the next last
  };

  template <class... T>
  [[noreturn]] void fail(const PickleValue& v, fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, v.at, format, std::forward<T>(args)...);
  }
  template <class... T>
  [[noreturn]] void fail_in(const PickleValue& v, std::string_view name, fmt::format_string<T...> format,
                            T&&... args) const {
    fail(v, "tensor `{}`: {}", name, fmt::format(format, std::forward<T>(args)...));
  }

  void enter(PickleRef ref, const Place& place) {
    const PickleValue& v = pickle_[ref];
    if (frames_.size() > kMaxDepth) fail(v, "values nest deeper than {}", kMaxDepth);
    std::vector<Place> children;
    switch (v.kind) {
      case Kind::Sequence: add_sequence(v.items, place, children); break;
      case Kind::Dict: add_entries(v.items, place, children); break;
      case Kind::Object: enter_object(v, place, children); break;
      case Kind::Persistent: add_tensor([&] { return resolve_(v); }, v, place); break;
      default: add_metadata(v, place);
    }
    if (is_over_limit())
      fail(v, "more than {} values, {} bytes of their names or {} numbers in lists", kMaxVisits,
           kMaxNameBytes, kMaxPassed);
    if (children.empty()) return;
    std::reverse(children.begin(), children.end());
    frames_.push_back({std::move(children)});
  }

  void enter_object(const PickleValue& object, const Place& place, std::vector<Place>& children) {
    const std::string* callee = callee_name(object);
    if (callee && find_rebuild(*callee))
      return add_tensor([&] { return rebuild(object, place.name); }, object, place);
    const PickleValue& arguments = pickle_[object.items[1]];
    if (callee && is_one_of(*callee, kDicts)) {
      // Python 2 gave the entries as a list of pairs.
      if (arguments.kind == Kind::Sequence && arguments.items.size() == 1)
        for (PickleRef pair : pickle_[arguments.items[0]].items) {
          if (pickle_[pair].items.size() == 2) add_entries(pickle_[pair].items, place, children);
          passed_++;
          if (is_over_limit()) break;
        }
      return add_entries(object.entries, place, children);
    }
    Place inside = place;
    inside.is_shown = false;
    if (!inside.maker) {
      inside.maker = &pickle_[object.items[0]];
      inside.ref = object.items[1];
      add(inside, children);
      inside.maker = nullptr;
    }
    if (object.has_keys)
      add_entries(object.entries, inside, children);
    else
      add_sequence(object.entries, inside, children);
    inside.is_state = true;
    for (size_t i = 2; i < object.items.size() && !is_over_limit(); i++) {
      inside.ref = object.items[i];
      add(inside, children);
    }
  }

  void add(Place child, std::vector<Place>& children) {
    visits_++;
    name_bytes_ += child.name.size();
    if (!is_over_limit()) children.push_back(std::move(child));
  }
  bool is_over_limit() const {
    return visits_ > kMaxVisits || name_bytes_ > kMaxNameBytes || passed_ > kMaxPassed;
  }

  void add_sequence(std::span<const PickleRef> items, const Place& place, std::vector<Place>& children) {
    for (size_t i = 0; i < items.size() && !is_over_limit(); i++) {
      // Lists of numbers may be long, and say nothing that a user looks for.
      if (pickle_[items[i]].kind < Kind::Sequence) {
        passed_++;
        continue;
      }
      Place child = place;
      child.ref = items[i];
      // The state of an object with slots is a pair of dicts, and arguments have no names.
      if (!place.is_state && !place.maker) child.name += (child.name.empty() ? "" : ".") + std::to_string(i);
      add(std::move(child), children);
    }
  }

  void add_entries(std::span<const PickleRef> entries, const Place& place, std::vector<Place>& children) {
    for (size_t i = 0; i + 1 < entries.size() && !is_over_limit(); i += 2) {
      Place child = place;
      child.ref = entries[i + 1];
      child.is_state = false;
      const std::string key = key_text(entries[i], i / 2);
      if (!place.is_state || !is_one_of(key, kModuleDicts))
        child.name += (child.name.empty() ? "" : ".") + key;
      add(std::move(child), children);
    }
  }

  template <class F>
  void add_tensor(F make, const PickleValue& v, const Place& place) {
    if (place.maker)
      fail_in(v, place.name,
              "it is made by `{}`, which is not known here; save its state dict, or plain tensors",
              place.maker->kind == Kind::Global ? place.maker->text : "an object");
    TorchTensor made = make();
    if (!names_.insert(place.name).second) fail_in(v, place.name, "the name occurs twice");
    made.name = place.name;
    check_torch_view(made, v.at, where_);
    out_.tensors.push_back(std::move(made));
  }

  void add_metadata(const PickleValue& v, const Place& place) {
    if (!place.is_shown || place.maker || place.name.empty()) return;
    switch (v.kind) {
      case Kind::Bool: out_.metadata[place.name] = v.integer ? "true" : "false"; break;
      case Kind::Int: out_.metadata[place.name] = std::to_string(v.integer); break;
      case Kind::Float: out_.metadata[place.name] = fmt::format("{}", v.number); break;
      case Kind::Text:
        if (v.text.size() <= kMaxShownText) out_.metadata[place.name] = v.text;
        break;
      default: break;
    }
  }

  std::string key_text(PickleRef ref, size_t position) const {
    const PickleValue& key = pickle_[ref];
    if (key.kind == Kind::Text) return key.text;
    return std::to_string(key.kind == Kind::Int ? key.integer : static_cast<int64_t>(position));
  }

  const std::string* callee_name(const PickleValue& object) const {
    const PickleValue& callee = pickle_[object.items[0]];
    return callee.kind == Kind::Global ? &callee.text : nullptr;
  }

  TorchTensor rebuild(const PickleValue& object, std::string_view name) const {
    const PickleValue* at = &object;
    const PickleValue* callee = &pickle_[object.items[0]];
    const PickleValue* arguments = &pickle_[object.items[1]];
    for (size_t step = 0; step < kMaxDepth; step++) {
      const RebuildRow* row = callee->kind == Kind::Global ? find_rebuild(callee->text) : nullptr;
      if (!row || arguments->kind != Kind::Sequence) break;
      const auto& list = arguments->items;
      if (row->how == Rebuild::View || row->how == Rebuild::TypedView)
        return view(*at, list, row->how == Rebuild::TypedView, name);
      if (row->how == Rebuild::Call && list.size() >= 3) {
        callee = &pickle_[list[0]];
        arguments = &pickle_[list[2]];
        continue;
      }
      if (list.empty()) break;
      at = &pickle_[list[0]];
      if (at->kind == Kind::Persistent) return resolve_(*at);
      if (at->kind != Kind::Object) break;
      callee = &pickle_[at->items[0]];
      arguments = &pickle_[at->items[1]];
    }
    fail_in(*at, name, "the call that rebuilds it is not one that PyTorch writes");
  }

  TorchTensor view(const PickleValue& object, const std::vector<PickleRef>& arguments, bool is_typed,
                   std::string_view name) const {
    constexpr size_t kDTypeAt = 6;
    if (arguments.size() < (is_typed ? kDTypeAt + 1 : 4) || pickle_[arguments[0]].kind != Kind::Persistent ||
        pickle_[arguments[1]].kind != Kind::Int)
      fail_in(object, name, "a storage, an offset, a size and strides are missing");
    TorchTensor out = resolve_(pickle_[arguments[0]]);
    out.offset = pickle_[arguments[1]].integer;
    out.shape = numbers(object, arguments[2], name);
    out.strides = numbers(object, arguments[3], name);
    if (!is_typed) return out;
    std::string_view type = pickle_[arguments[kDTypeAt]].text;
    if (type.starts_with("torch.")) type.remove_prefix(6);
    for (const DTypeNames& row : kDTypeNames)
      if (row.torch == type) {
        out.dtype = row.dtype;
        return out;
      }
    fail_in(object, name, "there is no dtype for `{}`", type);
  }

  // Of a tuple or a torch.Size.
  std::vector<int64_t> numbers(const PickleValue& object, PickleRef ref, std::string_view name) const {
    const PickleValue* list = &pickle_[ref];
    if (list->kind == Kind::Object && pickle_[list->items[1]].items.size() == 1)
      list = &pickle_[pickle_[list->items[1]].items[0]];
    std::vector<int64_t> out;
    if (list->kind != Kind::Sequence) fail_in(object, name, "size and strides are not tuples");
    for (PickleRef item : list->items) {
      if (pickle_[item].kind != Kind::Int || pickle_[item].integer < 0)
        fail_in(object, name, "size and strides are not tuples of numbers from 0 on");
      out.push_back(pickle_[item].integer);
    }
    return out;
  }

  const Pickle& pickle_;
  const TorchResolver& resolve_;
  std::string_view where_;
  TorchCheckpoint& out_;
  std::vector<Frame> frames_;
  std::unordered_set<std::string> names_;
  size_t visits_ = 0, name_bytes_ = 0, passed_ = 0;
};

}  // namespace

std::optional<TorchType> torch_storage_type(const PickleValue& global) {
  constexpr std::string_view kSuffix = "Storage";
  std::string_view name = global.text;
  if (!name.starts_with("torch.") || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  name.remove_prefix(name.rfind('.') + 1);
  for (const TorchType& t : kOtherStorages)
    if (t.storage == name) return t;
  for (const DTypeNames& n : kDTypeNames)
    if (!name.empty() && n.torch_storage == name)
      return TorchType{n.torch_storage, static_cast<int>(item_size(n.dtype)), n.dtype};
  return std::nullopt;
}

void check_torch_view(const TorchTensor& t, size_t at, std::string_view where) {
  const auto fail = [&]<class... T>(fmt::format_string<T...> format, T&&... args) {
    throw_parse_error(where, at, "tensor `{}`: {}", t.name, fmt::format(format, std::forward<T>(args)...));
  };
  if (t.shape.size() > kMaxTorchAxes) fail("more than {} axes", kMaxTorchAxes);
  if (t.shape.size() != t.strides.size()) fail("{} sizes and {} strides", t.shape.size(), t.strides.size());
  const auto bytes = data_bytes(t.dtype, t.shape);
  if (!bytes || *bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail("the shape has more elements than fit in memory");
  if (*bytes == 0) return;
  const auto held = static_cast<int64_t>(t.storage.size()) / item_size(t.dtype);
  int64_t last = t.offset;
  bool is_outside = t.offset < 0;
  for (size_t i = 0; i < t.shape.size(); i++) {
    int64_t reach = 0;
    is_outside |= __builtin_mul_overflow(t.shape[i] - 1, t.strides[i], &reach);
    is_outside |= __builtin_add_overflow(last, reach, &last);
  }
  if (is_outside || last >= held)
    fail("shape {} with strides {} from {} leaves the storage of {} elements",
         to_string(Shape(t.shape.begin(), t.shape.end())),
         to_string(Shape(t.strides.begin(), t.strides.end())), t.offset, held);
}

void collect_tensors(const Pickle& pickle, const TorchResolver& resolve, std::string_view where,
                     TorchCheckpoint& out) {
  Collector(pickle, resolve, where, out).run();
}

}  // namespace lathe
