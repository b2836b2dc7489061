// Optimisers and gradients (ai.onnx.preview.training), and the classic models of ai.onnx.ml.
#include "formats/onnx/call.h"
#include "formats/onnx/session.h"

#include <algorithm>
#include <cmath>

namespace lathe::onnx {
namespace {

constexpr std::string_view kTraining = "ai.onnx.preview.training", kMl = "ai.onnx.ml";

// Optimisers take the rate, the number of updates so far, then all parameters, all gradients and so on: input
// `kind` of parameter i of n.
const Tensor& state(const Call& c, size_t kind, size_t i, size_t n) { return c[2 + kind * n + i]; }

Tensor regularised(const Call& c, const Tensor& x, const Tensor& g) {
  return g.add(x.mul(c.attr_real("norm_coefficient", 0)));
}

// Outputs stand kind by kind as the inputs do.
template <class F>
Values updated(const Call& c, size_t kinds, F update) {
  const size_t n = (c.size() - 2) / kinds;
  std::vector<Values> by_kind;
  for (size_t i = 0; i < n; i++) {
    const Values out = update(i, n);
    by_kind.resize(out.size());
    for (size_t k = 0; k < out.size(); k++) by_kind[k].push_back(out[k]);
  }
  Values all;
  for (const Values& list : by_kind) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Values momentum(const Call& c) {
  const double alpha = c.attr_real("alpha"), rate = c.real(0);
  const double beta = c.integer(1) > 0 ? c.attr_real("beta") : 1;
  return updated(c, 3, [&](size_t i, size_t n) -> Values {
    const Tensor &x = state(c, 0, i, n), g = regularised(c, x, state(c, 1, i, n));
    const Tensor v = state(c, 2, i, n).mul(alpha).add(g.mul(beta));
    const Tensor step = c.attr_text("mode") == "nesterov" ? g.add(v.mul(alpha)) : v;
    return {x.sub(step.mul(rate)), v};
  });
}

Values adagrad(const Call& c) {
  const double rate = c.real(0) / (1 + static_cast<double>(c.integer(1)) * c.attr_real("decay_factor", 0));
  return updated(c, 3, [&](size_t i, size_t n) -> Values {
    const Tensor &x = state(c, 0, i, n), g = regularised(c, x, state(c, 1, i, n));
    const Tensor h = state(c, 2, i, n).add(g.square());
    return {x.sub(g.mul(rate).div(h.sqrt().add(c.attr_real("epsilon", 1e-6)))), h};
  });
}

Values adam(const Call& c) {
  const double alpha = c.attr_real("alpha", 0.9), beta = c.attr_real("beta", 0.999);
  const auto t = static_cast<double>(c.integer(1));
  const double rate =
      t > 0 ? c.real(0) * std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : c.real(0);
  return updated(c, 4, [&](size_t i, size_t n) -> Values {
    const Tensor &x = state(c, 0, i, n), g = regularised(c, x, state(c, 1, i, n));
    const Tensor v = state(c, 2, i, n).mul(alpha).add(g.mul(1 - alpha));
    const Tensor h = state(c, 3, i, n).mul(beta).add(g.square().mul(1 - beta));
    const Tensor next = x.sub(v.mul(rate).div(h.sqrt().add(c.attr_real("epsilon", 1e-6))));
    return {next.mul(1 - c.attr_real("norm_coefficient_post", 0)), v, h};
  });
}

// Of a value that the graph has computed by now, with respect to the inputs named by `xs`.
Values gradient(const Call& c) {
  const Value* y = c.scope().find(c.attr_text("y"));
  if (!y || !y->is_tensor()) value_error("there is no value `{}` to differentiate", c.attr_text("y"));
  std::vector<Tensor> xs;
  for (size_t i = 0; i < c.attr_texts("xs").size(); i++) xs.push_back(c[i]);
  return as_values(y->tensor().sum().gradient(xs));
}

// ---- ai.onnx.ml

Tensor array_feature_extractor(const Call& c) { return c[0].at(ellipsis, c[1].flatten()); }

// Keys and values of an encoder: lists for one type each, or tensors.
std::optional<Value> listed(const Call& c, const std::string& stem, const std::string& plural) {
  if (c.attribute(stem + "_tensor")) return c.attr_value(stem + "_tensor");
  const std::string name = stem + "_";
  if (const auto texts = c.attr_texts(name + "string" + plural); !texts.empty())
    return Strings{{static_cast<int64_t>(texts.size())}, texts};
  if (const auto numbers = c.attr_ints(name + "int64" + plural); !numbers.empty())
    return Tensor::from(numbers);
  if (const auto numbers = c.attr_reals(name + "float" + plural); !numbers.empty())
    return Tensor::from(numbers);
  return std::nullopt;
}

std::vector<std::string> as_texts(const Value& v) {
  return cast_value(v, ElementType::String).strings().items;
}

Value label_encoder(const Call& c) {
  const auto keys = listed(c, "keys", "s"), values = listed(c, "values", "s");
  if (!keys || !values) value_error("an encoder without keys or values");
  const std::vector<std::string> from = as_texts(*keys), to = as_texts(*values), given = as_texts(c.value(0));
  if (from.size() != to.size()) value_error("{} keys and {} values", from.size(), to.size());
  std::string otherwise = values->is_strings() ? c.attr_text("default_string", "_Unused")
                          : is_int(values->tensor().dtype())
                              ? std::to_string(c.attr_int("default_int64", -1))
                              : fmt::format("{}", c.attr_real("default_float", 0));
  if (c.attribute("default_tensor")) otherwise = as_texts(c.attr_value("default_tensor")).at(0);
  Strings out{c.value(0).shape(), {}};
  for (const std::string& item : given) {
    const auto it = std::find(from.begin(), from.end(), item);
    out.items.push_back(it == from.end() ? otherwise : to[static_cast<size_t>(it - from.begin())]);
  }
  return cast_value(out, values->type());
}

// Trees as parallel lists, one entry a node.
class Trees {
 public:
  explicit Trees(const Call& c)
      : features_(c.attr_ints("nodes_featureids")),
        true_nodes_(c.attr_ints("nodes_truenodeids")),
        false_nodes_(c.attr_ints("nodes_falsenodeids")),
        true_leaves_(c.attr_ints("nodes_trueleafs")),
        false_leaves_(c.attr_ints("nodes_falseleafs")),
        modes_(integers(c.attr_value("nodes_modes").tensor())),
        splits_(c.attr_value("nodes_splits").tensor().to_vector<double>()) {
    const size_t n = features_.size();
    for (size_t size : {true_nodes_.size(), false_nodes_.size(), true_leaves_.size(), false_leaves_.size(),
                        modes_.size(), splits_.size()})
      if (size != n) value_error("{} nodes with {} entries of another list", n, size);
    if (!c.attribute("membership_values")) return;
    // The members of each set end in a NaN.
    members_.emplace_back();
    for (double v : c.attr_value("membership_values").tensor().to_vector<double>()) {
      if (std::isnan(v))
        members_.emplace_back();
      else
        members_.back().push_back(v);
    }
  }

  // The leaf that a row of features ends in.
  size_t leaf(size_t node, std::span<const double> row) const {
    // A walk longer than there are nodes goes round in circles.
    for (size_t steps = 0; steps <= features_.size(); steps++) {
      if (node >= features_.size()) value_error("a tree has no node {}", node);
      const auto feature = static_cast<size_t>(features_[node]);
      if (feature >= row.size()) value_error("a tree asks for feature {} of {}", feature, row.size());
      const bool is_true = holds(node, row[feature]);
      const auto next = static_cast<size_t>((is_true ? true_nodes_ : false_nodes_)[node]);
      if ((is_true ? true_leaves_ : false_leaves_)[node]) return next;
      node = next;
    }
    value_error("a tree has a cycle");
  }

 private:
  bool holds(size_t node, double x) const {
    const double split = splits_[node];
    switch (modes_[node]) {
      case 0: return x <= split;
      case 1: return x < split;
      case 2: return x >= split;
      case 3: return x > split;
      case 4: return x == split;
      case 5: return x != split;
      default: {
        // The sets stand in the order of the nodes that use them.
        size_t set = 0;
        for (size_t i = 0; i < node; i++) set += modes_[i] == 6;
        if (set >= members_.size()) value_error("node {} has no set of members", node);
        return std::find(members_[set].begin(), members_[set].end(), x) != members_[set].end();
      }
    }
  }

  std::vector<int64_t> features_, true_nodes_, false_nodes_, true_leaves_, false_leaves_, modes_;
  std::vector<double> splits_;
  std::vector<std::vector<double>> members_;
};

// Walks on the host: a tree is nothing but branches.
Tensor tree_ensemble(const Call& c) {
  const Trees trees(c);
  if (c.attr_int("post_transform", 0) != 0) value_error("post_transform is not supported");
  const std::vector<double> x = onnx::numbers<double>(c[0]),
                            weights = c.attr_value("leaf_weights").tensor().to_vector<double>();
  const std::vector<int64_t> targets = c.attr_ints("leaf_targetids"), roots = c.attr_ints("tree_roots");
  const auto rows = static_cast<size_t>(c[0].size(0).value()),
             width = static_cast<size_t>(c[0].size(1).value()),
             n = static_cast<size_t>(c.attr_int("n_targets"));
  const int64_t how = c.attr_int("aggregate_function", 1);  // average, sum, min, max
  std::vector<double> out;
  for (size_t r = 0; r < rows; r++) {
    std::vector<std::vector<double>> hits(n);
    for (int64_t root : roots) {
      const size_t leaf = trees.leaf(static_cast<size_t>(root), std::span(x).subspan(r * width, width));
      hits.at(static_cast<size_t>(targets.at(leaf))).push_back(weights.at(leaf));
    }
    for (const std::vector<double>& list : hits) {
      double v = 0;
      for (size_t i = 0; i < list.size(); i++)
        v = i == 0     ? list[0]
            : how == 2 ? std::min(v, list[i])
            : how == 3 ? std::max(v, list[i])
                       : v + list[i];
      out.push_back(how == 0 && !roots.empty() ? v / static_cast<double>(roots.size()) : v);
    }
  }
  return Tensor::from(out, {c[0].size(0), SInt(static_cast<int64_t>(n))}).cast(c[0].dtype());
}

constexpr OpRow kRows[] = {
    {"Adagrad", of<adagrad>, kTraining},
    {"Adam", of<adam>, kTraining},
    {"Gradient", of<gradient>, kTraining},
    {"Momentum", of<momentum>, kTraining},
    {"ArrayFeatureExtractor", of<array_feature_extractor>, kMl},
    {"Binarizer", [](const Call& c) { return c[0].gt(c.attr_real("threshold", 0)).cast(c[0].dtype()); }, kMl},
    OpRow{"LabelEncoder", of<label_encoder>, kMl}.by_values(),
    OpRow{"TreeEnsemble", of<tree_ensemble>, kMl}.by_values(),
};

}  // namespace

std::span<const OpRow> learning_ops() { return kRows; }

}  // namespace lathe::onnx
