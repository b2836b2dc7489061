#include "uop/arg.h"

#include "base/error.h"
#include "base/small_vec.h"
#include "uop/arg_fields.h"

#include <iterator>
#include <type_traits>

namespace lathe {
namespace {

struct AxisRow {
  std::string_view name;
  char letter;
};

constexpr AxisRow kAxisRows[] = {
#define AXIS(name, letter) {#name, letter},
#include "uop/axes.def"
};

template <class T>
bool same_payload(const T& a, const T& b) {
  return a == b;
}
template <class T>
bool same_payload(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) {
  return a == b || (a && b && *a == *b);
}

// Numbers are hashed together, behind the texts, whose lengths are among them.
class ArgHasher {
 public:
  ArgHasher(Hash128 seed, size_t index) : hash_(seed), words_{index} {}
  Hash128 hash() const { return hash_bytes(words_.data(), words_.size() * sizeof(uint64_t), hash_); }

  void operator()(const Scalar& v) {
    words_.push_back(v.hash().lo);
    words_.push_back(v.hash().hi);
  }
  void operator()(const AxesArg& a) { bytes(a.v.data(), a.span().size()); }
  void operator()(const TextArg& a) { (*this)(*a.text); }
  void operator()(const DeviceArg& a) { (*this)(*a.device); }
  void operator()(const std::string& s) { bytes(s.data(), s.size()); }
  void operator()(const std::pair<int64_t, int64_t>& p) {
    (*this)(p.first);
    (*this)(p.second);
  }
  void operator()(const Action& a) {
    (*this)(a.kind);
    (*this)(std::pair<int64_t, int64_t>(a.axis, a.amount));
  }
  void operator()(const std::vector<Action>& list) {
    words_.push_back(list.size());
    for (const Action& a : list) (*this)(a);
  }
  template <class T>
  void operator()(const std::optional<T>& o) {
    words_.push_back(o.has_value());
    if (o) (*this)(*o);
  }
  template <class T>
  void operator()(const std::shared_ptr<T>& p) {
    words_.push_back(p != nullptr);
    if (p) (*this)(*p);
  }
  template <class T>
  void operator()(const T& v) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
      words_.push_back(static_cast<uint64_t>(v));
    else
      std::apply([&](const auto&... f) { ((*this)(v.*f.member), ...); }, kFields<T>);
  }

 private:
  void bytes(const void* data, size_t size) {
    words_.push_back(size);
    hash_ = hash_bytes(data, size, hash_);
  }

  Hash128 hash_;
  SmallVec<uint64_t, 16> words_;
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
  if (std::holds_alternative<std::monostate>(a)) return seed;
  ArgHasher hasher(seed, a.index());
  std::visit(std::ref(hasher), a);
  return hasher.hash();
}

}  // namespace lathe
