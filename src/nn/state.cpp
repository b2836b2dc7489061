#include "nn/state.h"

#include "base/log.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe::nn {
namespace {

constexpr size_t kShown = 5;  // of a kind

// "`a`, `b` and 7 more"
std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShown; i++) out += (i > 0 ? ", `" : "`") + names[i] + "`";
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

// "\n  missing: `a`, `b`", or nothing.
std::string listed(std::string_view title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("\n  {}: {}", title, quoted_list(names));
}

bool is_one_element(const Shape& s) { return s.empty() || (s.size() == 1 && s[0] == SInt(1)); }

bool fits(const Tensor& target, const Tensor& value) {
  return target.shape() == value.shape() || (is_one_element(target.shape()) && is_one_element(value.shape()));
}

std::string type_text(const Tensor& t) { return fmt::format("{} of {}", t.shape(), t.dtype()); }

}  // namespace

void load_state(const NamedTensors& state, const NamedTensors& values, const LoadOptions& options) {
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, value] : values) by_name.emplace(name, &value);

  std::vector<std::string> missing, unexpected;
  std::string mismatched;  // a sentence each
  size_t mismatches = 0;
  std::vector<std::pair<Tensor, Tensor>> changes;  // tensor of the model, new value
  std::unordered_set<std::string_view> used;
  for (const auto& [name, target] : state) {
    auto found = by_name.find(name);
    if (found == by_name.end()) {
      missing.push_back(name);
      continue;
    }
    used.insert(found->first);
    const Tensor& value = *found->second;
    if (fits(target, value))
      changes.emplace_back(target, value);
    else if (mismatches++ < kShown)
      mismatched +=
          fmt::format("Shape mismatch in layer `{}`: Expected shape {}, but found {} in state dict.\n", name,
                      type_text(target), type_text(value));
  }
  for (const auto& [name, value] : values)
    if (!used.contains(name)) unexpected.push_back(name);

  const std::string others = listed("missing", missing) + listed("unexpected", unexpected);
  const std::string text = fmt::format("a state dict of {} tensors does not fit a model of {}{}",
                                       values.size(), state.size(), others);
  if (mismatches > kShown) mismatched += fmt::format("{} more do not match.\n", mismatches - kShown);
  if (mismatches > 0) value_error("{}{}", mismatched, text);
  if (!others.empty() && options.strict) index_error("{}", text);
  if (!others.empty()) log_warn("{}", text);

  std::vector<Tensor> targets;
  for (auto& [target, value] : changes)
    targets.push_back(target.replace(value.reshape(target.shape()).shard_like(target)));
  if (options.realize) Tensor::realize(targets);
}

}  // namespace lathe::nn
