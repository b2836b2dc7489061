// Reordering by names of axes (Rogozhnikov, Einops: clear and reliable tensor manipulations with
// Einstein-like notation).
#include "tensor/tensor.h"

#include <algorithm>
#include <cctype>

namespace lathe {
namespace {

using Names = std::vector<std::string>;

// One side of a formula: the axes it names, and how many of them each axis of the tensor is made of.
struct Side {
  Names names;
  std::vector<int> groups;
};

bool is_identifier(const std::string& word) {
  return !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::ranges::all_of(word,
                             [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

// Words and parentheses of one side.
Names words_of(const std::string& text) {
  Names out;
  bool open = false;  // the last word goes on
  for (char c : text) {
    const bool is_space = std::isspace(static_cast<unsigned char>(c)), is_bracket = c == '(' || c == ')';
    if (is_bracket || (!is_space && !open))
      out.emplace_back(1, c);
    else if (!is_space)
      out.back() += c;
    open = !is_space && !is_bracket;
  }
  return out;
}

// `n_open` axes stand for an ellipsis; they get names that no formula can have. A 1 is a group of no axes.
Side parse_side(const std::string& text, int64_t n_open) {
  Side side;
  bool in_group = false;
  const auto add = [&](const std::string& name) {
    if (std::find(side.names.begin(), side.names.end(), name) != side.names.end())
      value_error("axis {} stands twice in \"{}\"", name, text);
    side.names.push_back(name);
    if (in_group)
      side.groups.back()++;
    else
      side.groups.push_back(1);
  };
  for (const std::string& word : words_of(text)) {
    if (word == "(" || word == ")") {
      if (in_group == (word == "(")) value_error("bracket mismatch in \"{}\"", text);
      in_group = word == "(";
      if (in_group) side.groups.push_back(0);
    } else if (word == "...") {
      for (int64_t i = 0; i < n_open; i++) add("." + std::to_string(i));
    } else if (word == "1") {
      if (!in_group) side.groups.push_back(0);
    } else if (is_identifier(word)) {
      add(word);
    } else {
      value_error("invalid axis name {} in \"{}\"", word, text);
    }
  }
  if (in_group) value_error("bracket mismatch in \"{}\"", text);
  return side;
}

// Sizes of the named axes of the left side: one in a group may be open.
std::vector<SInt> sizes_of(const Side& side, const Shape& shape, const AxisSizes& given) {
  std::vector<SInt> out;
  for (size_t i = 0, at = 0; i < side.groups.size(); i++) {
    SInt known = 1;
    std::optional<size_t> open;
    for (int n = side.groups[i]; n > 0; n--, at++) {
      const auto found = given.find(side.names[at]);
      if (found != given.end())
        known = known * SInt(found->second);
      else if (open)
        value_error("the sizes of {} and {} are both open", side.names[*open], side.names[at]);
      else
        open = at;
      out.push_back(found != given.end() ? SInt(found->second) : SInt(1));
    }
    if (open) {
      if (!(known == SInt(0))) out[*open] = floordiv(shape[i], known);
      known = known * out[*open];
    }
    if (!(known == shape[i]))
      value_error("axis {} of shape {} is not of the size that its names have", i, shape);
  }
  return out;
}

}  // namespace

Tensor Tensor::rearrange(const std::string& formula, const AxisSizes& sizes) const {
  const size_t arrow = formula.find("->");
  if (arrow == std::string::npos || formula.find("->", arrow + 2) != std::string::npos)
    value_error("need exactly one \"->\" in formula, got \"{}\"", formula);
  const std::string from = formula.substr(0, arrow), to = formula.substr(arrow + 2);
  const auto n_open = ndim() - static_cast<int64_t>(parse_side(from, 0).groups.size());
  const bool has_open = from.find("...") != std::string::npos;
  if (n_open < 0 || (n_open > 0 && !has_open))
    value_error("\"{}\" has not as many axes as shape {}", from, shape());
  const Side left = parse_side(from, n_open), right = parse_side(to, n_open);
  if (!std::is_permutation(left.names.begin(), left.names.end(), right.names.begin(), right.names.end()) ||
      has_open != (to.find("...") != std::string::npos))
    value_error("name mismatch between the sides of \"{}\"", formula);
  for (const auto& [name, size] : sizes)
    if (std::find(left.names.begin(), left.names.end(), name) == left.names.end())
      value_error("\"{}\" has no axis {}", formula, name);

  const std::vector<SInt> split = sizes_of(left, shape(), sizes);
  Ints order;
  Shape merged;
  for (const std::string& name : right.names)
    order.push_back(std::find(left.names.begin(), left.names.end(), name) - left.names.begin());
  for (size_t i = 0, at = 0; i < right.groups.size(); i++) {
    merged.push_back(SInt(1));
    for (int n = right.groups[i]; n > 0; n--, at++)
      merged.back() = merged.back() * split[static_cast<size_t>(order[at])];
  }
  return reshape(Shape(split.begin(), split.end())).permute(order).reshape(merged);
}

}  // namespace lathe
