#include "uop/arg.h"

#include "base/error.h"

#include <iterator>
#include <type_traits>

namespace lathe {
namespace {

struct AxisRow {
  std::string_view name;
  char letter;
};

// In the order of AxisType.
constexpr AxisRow kAxisRows[] = {
    {"Outer", 'O'},  {"Global", 'g'}, {"Thread", 't'}, {"Loop", 'L'},   {"Local", 'l'}, {"GroupReduce", 'G'},
    {"Reduce", 'R'}, {"Upcast", 'u'}, {"Unroll", 'r'}, {"Vector", 'v'}, {"Dot", 'd'},
};
static_assert(std::size(kAxisRows) == static_cast<size_t>(AxisType::Dot) + 1);

template <class T>
bool same_payload(const T& a, const T& b) {
  return a == b;
}
template <class T>
bool same_payload(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) {
  return a == b || (a && b && *a == *b);
}

uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }
uint64_t pair_bits(int32_t high, int32_t low) {
  return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
}

// Each piece's hash seeds the next. Pieces of variable length are preceded by their count or presence.
class ArgHasher {
 public:
  ArgHasher(Hash128 seed, size_t index) : hash_(seed), index_(index) {}
  Hash128 hash() const { return hash_; }

  void operator()(std::monostate) {}
  void operator()(const Scalar& v) {
    const Hash128 h = v.hash();
    words({index_, h.lo, h.hi});
  }
  void operator()(const RangeArg& a) { words({index_, pair_bits(a.id, static_cast<int32_t>(a.type))}); }
  void operator()(const ReduceArg& a) { words({index_, pair_bits(a.n_axes, static_cast<int32_t>(a.op))}); }
  void operator()(const AxesArg& a) {
    words({index_, bits(a.n)});
    bytes(a.v.data(), a.span().size());
  }
  void operator()(const ParamPtr& p) {
    words({index_, p != nullptr});
    if (!p) return;
    const auto [lo, hi] = p->bounds.value_or(std::pair<int64_t, int64_t>{0, 0});
    words({bits(p->slot), static_cast<uint64_t>(p->dtype), static_cast<uint64_t>(p->space),
           p->bounds.has_value(), bits(lo), bits(hi), bits(p->multiple_of)});
    text(p->name);
    text(p->device);
  }
  void operator()(const KernelPtr& k) {
    words({index_, k != nullptr});
    if (!k) return;
    text(k->name);
    actions(k->actions);
    words({k->given.has_value()});
    if (k->given) actions(*k->given);
    if (k->source.empty()) return;
    words({k->source.size(), k->is_binary, bits(k->n_cores)});
    text(k->source);
  }
  void operator()(const CallPtr& c) {
    words({index_, c != nullptr});
    if (!c) return;
    text(c->name);
    words({bits(c->n_written), c->precompile, c->recompute, bits(c->gradient_id)});
  }
  void operator()(const TextArg& a) {
    words({index_});
    text(*a.text);
  }
  void operator()(const DeviceArg& a) {
    words({index_});
    text(*a.device);
  }
  void operator()(const StageArg& a) { words({index_, static_cast<uint64_t>(a.space), a.removable}); }

 private:
  void words(std::initializer_list<uint64_t> w) { bytes(w.begin(), w.size() * sizeof(uint64_t)); }
  void bytes(const void* data, size_t size) { hash_ = hash_bytes(data, size, hash_); }
  void text(std::string_view t) { bytes(t.data(), t.size()); }
  void actions(const std::vector<Action>& list) {
    words({list.size()});
    for (const Action& a : list) words({static_cast<uint64_t>(a.kind), pair_bits(a.axis, a.amount)});
  }

  Hash128 hash_;
  uint64_t index_;
};

}  // namespace

std::string_view axis_name(AxisType t) { return kAxisRows[static_cast<int>(t)].name; }

char axis_letter(AxisType t) { return kAxisRows[static_cast<int>(t)].letter; }

std::optional<AxisType> parse_axis_type(std::string_view name) {
  for (size_t i = 0; i < std::size(kAxisRows); i++)
    if (kAxisRows[i].name == name) return static_cast<AxisType>(i);
  return std::nullopt;
}

std::optional<Op> parse_op(std::string_view name) {
  for (int i = 0; i < kNumOps; i++)
    if (kOpTable[i].name == name) return static_cast<Op>(i);
  return std::nullopt;
}

AxesArg::AxesArg(std::span<const int> axes) {
  if (axes.size() > kMaxRank)
    value_error("rank {} is above the largest supported rank {}", axes.size(), kMaxRank);
  n = static_cast<int8_t>(axes.size());
  for (size_t i = 0; i < axes.size(); i++) {
    CHECK(axes[i] >= INT8_MIN && axes[i] <= INT8_MAX, "axis {}", axes[i]);
    v[i] = static_cast<int8_t>(axes[i]);
  }
}

bool same_arg(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) { return same_payload(x, *std::get_if<std::remove_cvref_t<decltype(x)>>(&b)); }, a);
}

Hash128 hash_arg(const Arg& a, Hash128 seed) {
  ArgHasher hasher(seed, a.index());
  std::visit([&](const auto& x) { hasher(x); }, a);
  return hasher.hash();
}

}  // namespace lathe
