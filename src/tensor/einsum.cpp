// Sums of products by index letters.
#include "tensor/tensor.h"

#include <algorithm>
#include <cctype>

namespace lathe {
namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  for (char c : text) {
    if (c == separator)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

// "..." becomes one capital-free private letter for each axis it stands for: bytes 1, 2, … counted from the
// last.
std::string expand_ellipsis(const std::string& term, size_t rank) {
  const size_t at = term.find("...");
  if (at == std::string::npos) return term;
  const size_t letters = term.size() - 3;
  if (rank < letters) value_error("einsum term {} has more letters than a tensor of rank {}", term, rank);
  std::string axes;
  for (size_t i = rank - letters; i > 0; i--) axes += static_cast<char>(i);
  return term.substr(0, at) + axes + term.substr(at + 3);
}

void check_letters(const std::string& term) {
  for (char c : term)
    if (!std::isalpha(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) >= 23)
      value_error("einsum formula has the invalid index '{}'", c);
}

// One axis a letter: repeated letters take the diagonal.
Tensor take_diagonals(Tensor x, std::string& term) {
  for (size_t i = 0; i < term.size(); i++) {
    const size_t again = term.find(term[i], i + 1);
    if (again == std::string::npos) continue;
    const char letter = term[i];
    x = x.diagonal(0, static_cast<int64_t>(i), static_cast<int64_t>(again));  // the diagonal is the last axis
    term.erase(again, 1);
    term.erase(i, 1);
    term += letter;
    i = static_cast<size_t>(-1);
  }
  return x;
}

}  // namespace

Tensor Tensor::einsum(const std::string& formula, const std::vector<Tensor>& operands,
                      std::optional<DType> dtype) {
  std::string clean;
  for (char c : formula)
    if (c != ' ') clean += c;
  const size_t arrow = clean.find("->");
  std::vector<std::string> terms = split_at(clean.substr(0, arrow), ',');
  if (terms.size() != operands.size())
    value_error("number of inputs doesn't match number of operands in formula, expected {}, got {}",
                terms.size(), operands.size());
  std::string all, private_axes;
  std::vector<Tensor> factors;
  for (size_t i = 0; i < terms.size(); i++) {
    terms[i] = expand_ellipsis(terms[i], operands[i].shape().size());
    check_letters(terms[i]);
    if (static_cast<int64_t>(terms[i].size()) != operands[i].ndim())
      value_error("einsum term {} does not fit shape {}", split_at(clean.substr(0, arrow), ',')[i],
                  operands[i].shape());
    all += terms[i];
    factors.push_back(take_diagonals(operands[i], terms[i]));
  }
  std::string letters = all;
  std::ranges::sort(letters);
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  for (char c : letters)
    if (c < 23) private_axes.insert(private_axes.begin(), c);

  std::string output;
  if (arrow == std::string::npos) {
    output = private_axes;
    for (char c : letters)
      if (c >= 23 && std::count(all.begin(), all.end(), c) == 1) output += c;
  } else {
    output = clean.substr(arrow + 2);
    const size_t dots = output.find("...");
    if (dots != std::string::npos) output.replace(dots, 3, private_axes);
    for (char c : output)
      if (letters.find(c) == std::string::npos || std::count(output.begin(), output.end(), c) != 1)
        value_error("einsum output index '{}' must appear once, and in an input", c);
  }

  std::optional<Tensor> product;
  for (size_t i = 0; i < factors.size(); i++) {
    Ints order;
    Shape spread;
    for (char c : letters) {
      const size_t at = terms[i].find(c);
      if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
      spread.push_back(at == std::string::npos ? SInt(1) : factors[i].shape()[at]);
    }
    const Tensor factor = factors[i].permute(order).reshape(spread);
    product = product ? product->mul(factor) : factor;
  }
  Ints folded, order;
  std::string kept;
  for (size_t i = 0; i < letters.size(); i++) {
    if (output.find(letters[i]) == std::string::npos)
      folded.push_back(static_cast<int64_t>(i));
    else
      kept += letters[i];
  }
  for (char c : output) order.push_back(static_cast<int64_t>(kept.find(c)));
  DType result = operands[0].dtype();
  for (const Tensor& t : operands) result = join(result, t.dtype());
  return product->sum(folded, false, dtype).permute(order).cast(dtype.value_or(strong(result)));
}

}  // namespace lathe
