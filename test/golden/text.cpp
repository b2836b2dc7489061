#include "golden/golden.h"
#include "uop/print.h"

namespace lathe::test {
namespace {

constexpr size_t kMaxDiffLines = 3000;  // beyond, the table of the comparison would be too large
constexpr size_t kContext = 3;

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct DiffLine {
  char mark;
  std::string_view text;
};

// Longest common subsequence.
std::vector<DiffLine> compare(const std::vector<std::string_view>& a,
                              const std::vector<std::string_view>& b) {
  std::vector<std::vector<uint16_t>> common(a.size() + 1, std::vector<uint16_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? static_cast<uint16_t>(common[i + 1][j + 1] + 1)
                                  : std::max(common[i + 1][j], common[i][j + 1]);
  std::vector<DiffLine> out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out.push_back({' ', a[i++]});
      j++;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[j++]});
    }
  }
  return out;
}

}  // namespace

std::string to_text(const GoldenValue& v) {
  const PrintOptions options{.renumber = true, .shapes = false};
  if (const auto* u = std::get_if<UOp>(&v)) return print(*u, options);
  if (const auto* list = std::get_if<std::vector<UOp>>(&v)) return print_list(*list, options);
  return std::get<std::string>(v);
}

std::string diff(std::string_view expected, std::string_view actual) {
  const auto a = split_lines(expected), b = split_lines(actual);
  if (a.size() > kMaxDiffLines || b.size() > kMaxDiffLines) {
    size_t i = 0;
    while (i < a.size() && i < b.size() && a[i] == b[i]) i++;
    return fmt::format("line {} is the first of {} and {} that differs", i + 1, a.size(), b.size());
  }
  const std::vector<DiffLine> lines = compare(a, b);
  std::string out;
  size_t last = SIZE_MAX;  // last line written
  for (size_t i = 0; i < lines.size(); i++) {
    bool near = false;
    for (size_t k = i < kContext ? 0 : i - kContext; k <= i + kContext && k < lines.size(); k++)
      near = near || lines[k].mark != ' ';
    if (!near) continue;
    if (last != i - 1) out += "  ...\n";
    out += fmt::format("{} {}\n", lines[i].mark, lines[i].text);
    last = i;
  }
  return out;
}

}  // namespace lathe::test
