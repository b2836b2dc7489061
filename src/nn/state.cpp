#include "nn/state.h"

#include "base/log.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe::nn {
namespace {

// "`a`, `b` and 7 more"
std::string quoted_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShown; i++) out += (i > 0 ? ", `" : "`") + names[i] + "`";
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

bool is_one_element(const Shape& s) { return s.empty() || (s.size() == 1 && s[0] == SInt(1)); }

// The value as the tensor wants it, or an error that names the key and both shapes.
Tensor fitted(const std::string& name, const Tensor& target, const Tensor& value) {
  if (target.shape() == value.shape()) return value.to(target.device());
  if (is_one_element(target.shape()) && is_one_element(value.shape()))
    return value.reshape(target.shape()).to(target.device());
  value_error("Shape mismatch in layer `{}`: Expected shape {}, but found {} in state dict.", name,
              to_string(target.shape()), to_string(value.shape()));
}

}  // namespace

void load_state(const NamedTensors& state, const NamedTensors& values, const LoadOptions& options) {
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, value] : values) by_name.emplace(name, &value);

  NamedTensors fitting;  // what to change, with the new value
  std::vector<Tensor> targets;
  std::vector<std::string> missing;
  std::unordered_set<std::string_view> used;
  for (const auto& [name, target] : state) {
    auto found = by_name.find(name);
    if (found == by_name.end()) {
      missing.push_back(name);
      continue;
    }
    used.insert(found->first);
    targets.push_back(target);
    fitting.emplace_back(name, fitted(name, target, *found->second));
  }
  if (options.strict && !missing.empty())
    index_error("the state dict has no value for {}; it holds {} tensors", quoted_list(missing),
                values.size());
  std::vector<std::string> unused;
  for (const auto& [name, value] : values)
    if (!used.contains(name)) unused.push_back(name);
  if (!unused.empty()) log_warn("unused in the state dict: {}", quoted_list(unused));

  for (size_t i = 0; i < targets.size(); i++) targets[i].replace(fitting[i].second);
  if (options.realize) Tensor::realize(targets);
}

}  // namespace lathe::nn
