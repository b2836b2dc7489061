// Strings.
#include "formats/onnx/call.h"
#include "formats/regex.h"

#include <algorithm>
#include <map>
#include <set>

namespace lathe::onnx {
namespace {

Value string_concat(const Call& c) {
  const Shape shapes[] = {to_shape(c.strings(0).shape), to_shape(c.strings(1).shape)};
  const Shape to = broadcast_shapes(shapes);
  const auto expanded = [&](size_t i) {
    return moved(c.value(i), [&](const Tensor& x) { return x.expand(to); }).strings();
  };
  Strings out = expanded(0);
  const Strings b = expanded(1);
  for (size_t i = 0; i < out.items.size(); i++) out.items[i] += b.items[i];
  return out;
}

// Pieces between delimiters, or between runs of spaces where the delimiter is empty; at most `limit` cuts.
std::vector<std::string> pieces_of(std::string text, const std::string& delimiter, int64_t limit) {
  std::vector<std::string> out;
  const auto spaces = [](const std::string& s, size_t from) {
    return std::min(s.find_first_not_of(" \t\n\r\f\v", from), s.size());
  };
  if (delimiter.empty()) text.erase(0, spaces(text, 0));
  while (!text.empty() || !delimiter.empty()) {
    const bool may_cut = static_cast<int64_t>(out.size()) < limit;
    const size_t at = !may_cut            ? text.npos
                      : delimiter.empty() ? text.find_first_of(" \t\n\r\f\v")
                                          : text.find(delimiter);
    if (at == text.npos) {
      if (delimiter.empty()) text.erase(text.find_last_not_of(" \t\n\r\f\v") + 1);
      out.push_back(text);
      break;
    }
    out.push_back(text.substr(0, at));
    text.erase(0, delimiter.empty() ? spaces(text, at) : at + delimiter.size());
  }
  return out;
}

Values string_split(const Call& c) {
  const Strings& s = c.strings(0);
  const std::string delimiter = c.attr_text("delimiter", "");
  const int64_t limit = c.attr_int("maxsplit", std::numeric_limits<int64_t>::max());
  std::vector<std::vector<std::string>> all;
  std::vector<int64_t> counts;
  size_t most = 0;
  for (const std::string& item : s.items) {
    all.push_back(item.empty() ? std::vector<std::string>() : pieces_of(item, delimiter, limit));
    counts.push_back(static_cast<int64_t>(all.back().size()));
    most = std::max(most, all.back().size());
  }
  Strings out{s.shape, {}};
  out.shape.push_back(static_cast<int64_t>(most));
  for (std::vector<std::string>& pieces : all) {
    pieces.resize(most);
    out.items.insert(out.items.end(), pieces.begin(), pieces.end());
  }
  return {out, Tensor::from(counts, to_shape(s.shape))};
}

// Of ASCII letters: other scripts would need the tables of a locale.
std::string in_case(std::string s, const std::string& action) {
  for (char& ch : s) {
    if (action == "LOWER" && ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
    if (action == "UPPER" && ch >= 'a' && ch <= 'z') ch = static_cast<char>(ch - 'a' + 'A');
  }
  return s;
}

Value string_normalizer(const Call& c) {
  const Strings& s = c.strings(0);
  const std::string action = c.attr_text("case_change_action", "NONE");
  const std::string compared = c.attr_flag("is_case_sensitive") ? "NONE" : "LOWER";
  std::set<std::string> stops;
  for (const std::string& word : c.attr_texts("stopwords")) stops.insert(in_case(word, compared));
  Strings out{s.shape, {}};
  for (const std::string& item : s.items)
    if (!stops.count(in_case(item, compared))) out.items.push_back(in_case(item, action));
  if (out.items.empty()) out.items.emplace_back();
  if (out.shape.empty()) value_error("the strings have to be a list, or one row of them");
  out.shape.back() = static_cast<int64_t>(out.items.size());
  return out;
}

Tensor regex_full_match(const Call& c) {
  const Strings& s = c.strings(0);
  const Regex pattern(c.attr_text("pattern"));
  std::vector<bool> out;
  for (const std::string& item : s.items) out.push_back(pattern.matches_all(item));
  return Tensor::from(out, to_shape(s.shape));
}

// Tokens as text, whatever they are.
std::vector<std::string> tokens_of(const Value& v) {
  if (v.is_strings()) return v.strings().items;
  std::vector<std::string> out;
  for (int64_t i : integers(v.tensor())) out.push_back(std::to_string(i));
  return out;
}

struct Pool {
  std::map<std::vector<std::string>, size_t> columns;  // of each n-gram, by its place in the pool
  size_t width = 0;
};

Pool pool_of(const Call& c) {
  std::vector<std::string> pool = c.attr_texts("pool_strings");
  for (int64_t i : c.attr_ints("pool_int64s")) pool.push_back(std::to_string(i));
  const std::vector<int64_t> starts = c.attr_ints("ngram_counts"), columns = c.attr_ints("ngram_indexes");
  Pool out;
  size_t next = 0;
  for (size_t n = 1; n <= starts.size(); n++) {
    const auto first = static_cast<size_t>(starts[n - 1]);
    const size_t end = n < starts.size() ? static_cast<size_t>(starts[n]) : pool.size();
    if (end > pool.size() || first > end) value_error("ngram_counts do not fit a pool of {}", pool.size());
    for (size_t i = first; i + n <= end; i += n)
      out.columns.emplace(std::vector<std::string>(pool.begin() + static_cast<std::ptrdiff_t>(i),
                                                   pool.begin() + static_cast<std::ptrdiff_t>(i + n)),
                          next++);
  }
  for (int64_t column : columns) {
    if (column < 0 || column > (1 << 24)) value_error("column {} of the result", column);
    out.width = std::max(out.width, static_cast<size_t>(column + 1));
  }
  if (columns.size() < next) value_error("{} ngram_indexes for {} n-grams", columns.size(), next);
  return out;
}

Tensor tf_idf_vectorizer(const Call& c) {
  const std::vector<int64_t> shape = c.value(0).shape();
  const std::vector<std::string> tokens = tokens_of(c.value(0));
  const Pool pool = pool_of(c);
  const std::vector<int64_t> columns = c.attr_ints("ngram_indexes");
  const std::vector<float> weights = c.attr_reals("weights");
  const std::string mode = c.attr_text("mode");
  const auto length = static_cast<size_t>(shape.empty() ? 1 : shape.back());
  const size_t rows = length ? tokens.size() / length : 0;
  const auto shortest = static_cast<size_t>(c.attr_int("min_gram_length")),
             longest = static_cast<size_t>(c.attr_int("max_gram_length")),
             skips = static_cast<size_t>(c.attr_int("max_skip_count"));
  if (shortest < 1 || longest > c.attr_ints("ngram_counts").size() || skips > length)
    value_error("n-grams from {} to {} with {} skips", shortest, longest, skips);
  std::vector<float> out(rows * pool.width, 0.0F);
  for (size_t row = 0; row < rows; row++)
    for (size_t n = shortest; n <= longest; n++)
      for (size_t step = 1; step <= (n == 1 ? 1 : skips + 1); step++)
        for (size_t i = 0; i + (n - 1) * step < length; i++) {
          std::vector<std::string> gram;
          for (size_t k = 0; k < n; k++) gram.push_back(tokens[row * length + i + k * step]);
          const auto it = pool.columns.find(gram);
          if (it == pool.columns.end()) continue;
          float& cell = out[row * pool.width + static_cast<size_t>(columns[it->second])];
          const float weight = it->second < weights.size() ? weights[it->second] : 1.0F;
          cell = mode == "TF" ? cell + 1 : mode == "IDF" ? weight : cell + weight;
        }
  Shape to;
  if (shape.size() > 1) to.push_back(SInt(static_cast<int64_t>(rows)));
  to.push_back(SInt(static_cast<int64_t>(pool.width)));
  return Tensor::from(out, to);
}

constexpr OpRow kRows[] = {
    {"RegexFullMatch", of<regex_full_match>},    {"StringConcat", of<string_concat>},
    {"StringNormalizer", of<string_normalizer>}, {"StringSplit", of<string_split>},
    {"TfIdfVectorizer", of<tf_idf_vectorizer>},
};

}  // namespace

std::span<const OpRow> text_ops() { return kRows; }

}  // namespace lathe::onnx
