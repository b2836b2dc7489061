#include "llm/grammar/net_builder.h"

#include "formats/utf8.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {

std::vector<CodePointRange> normalized_ranges(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<CodePointRange> merged, out;
  for (const auto& [low, high] : ranges)
    if (low > high)
      continue;
    else if (!merged.empty() && low <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, high);
    else
      merged.emplace_back(low, high);
  for (auto [low, high] : merged) {
    high = std::min<char32_t>(high, 0x10FFFF);
    if (low < 0xD800) out.emplace_back(low, std::min<char32_t>(high, 0xD7FF));
    if (high >= 0xE000) out.emplace_back(std::max<char32_t>(low, 0xE000), high);
  }
  return out;
}

std::vector<CodePointRange> complement(std::vector<CodePointRange> ranges) {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const auto& [low, high] : normalized_ranges(std::move(ranges))) {
    if (low > next) out.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= 0x10FFFF) out.emplace_back(next, 0x10FFFF);
  return normalized_ranges(std::move(out));
}

uint32_t NetBuilder::node() {
  if (!is_full()) net_.nodes.emplace_back();
  return static_cast<uint32_t>(net_.nodes.size() - 1);
}

NetBuilder::Fragment NetBuilder::empty() {
  const uint32_t n = node();
  return {n, n};
}

NetBuilder::Fragment NetBuilder::bytes(std::string_view text) {
  Fragment out = empty();
  for (const char c : text) {
    const uint32_t next = node();
    const auto b = static_cast<uint8_t>(c);
    net_.nodes[out.end].edges.push_back({b, b, next});
    out.end = next;
  }
  return out;
}

NetBuilder::Fragment NetBuilder::code_points(std::vector<CodePointRange> ranges) {
  const uint32_t start = node(), end = node();
  for (const auto& [low, high] : normalized_ranges(std::move(ranges))) range(start, end, low, high);
  return {start, end};
}

// Cut where encodings become longer.
void NetBuilder::range(uint32_t from, uint32_t to, char32_t low, char32_t high) {
  for (const char32_t last : {0x7Fu, 0x7FFu, 0xFFFFu, 0x10FFFFu})
    if (low <= last && low <= high) {
      byte_range(from, to, to_utf8(low), to_utf8(std::min(high, last)));
      low = last + 1;
    }
}

// All encodings of one length between two: those that begin as the lowest, as the highest, and between them
// with any continuation. At most four levels deep.
void NetBuilder::byte_range(uint32_t from, uint32_t to, std::string_view low, std::string_view high) {
  const int l = static_cast<uint8_t>(low[0]), h = static_cast<uint8_t>(high[0]);
  const auto lead = [&](int first, int last) {
    const uint32_t next = low.size() == 1 ? to : node();
    net_.nodes[from].edges.push_back({static_cast<uint8_t>(first), static_cast<uint8_t>(last), next});
    return next;
  };
  if (low.size() == 1) return (void)lead(l, h);
  const std::string least(low.size() - 1, '\x80'), most(low.size() - 1, '\xBF');
  if (l == h) return byte_range(lead(l, l), to, low.substr(1), high.substr(1));
  const bool cut_low = low.substr(1) != least, cut_high = high.substr(1) != most;
  if (cut_low) byte_range(lead(l, l), to, low.substr(1), most);
  if (cut_high) byte_range(lead(h, h), to, least, high.substr(1));
  if (l + cut_low <= h - cut_high) byte_range(lead(l + cut_low, h - cut_high), to, least, most);
}

NetBuilder::Fragment NetBuilder::call(uint32_t rule) {
  const uint32_t start = node(), end = node();
  net_.nodes[start].calls.push_back({rule, end});
  return {start, end};
}

NetBuilder::Fragment NetBuilder::sequence(Fragment first, Fragment second) {
  jump(first.end, second.start);
  return {first.start, second.end};
}

NetBuilder::Fragment NetBuilder::choice(std::span<const Fragment> options) {
  if (options.size() == 1) return options[0];
  const uint32_t start = node(), end = node();
  for (const Fragment& option : options) {
    jump(start, option.start);
    jump(option.end, end);
  }
  return {start, end};
}

NetBuilder::Fragment NetBuilder::repeat(Fragment what, uint32_t least, uint32_t most) {
  if (least == 1 && most == 1) return what;
  if (most == 0) return empty();
  if (least <= 1 && (most == 1 || most == kUnbounded)) {
    const uint32_t start = node(), end = node();
    jump(start, what.start);
    jump(what.end, end);
    if (least == 0) jump(start, end);
    if (most == kUnbounded) jump(end, start);
    return {start, end};
  }
  // A rule of its own, so that each further time is one node.
  const uint32_t item = unnamed_rule(what), end = node(), start = node();
  const uint32_t times = most == kUnbounded ? least : most;
  uint32_t at = start;
  repetitions_.push_back({item, start, least, times});
  for (uint32_t i = 0; i < times && !is_full(); i++) {
    if (i >= least) jump(at, end);
    const uint32_t next = node();
    net_.nodes[at].calls.push_back({item, next});
    at = next;
  }
  if (most == kUnbounded) net_.nodes[at].calls.push_back({item, at});
  jump(at, end);
  return {start, end};
}

uint32_t NetBuilder::rule(const std::string& name) {
  const auto fresh = static_cast<uint32_t>(net_.rules.size());
  const auto [at, is_new] = by_name_.try_emplace(name, fresh);
  if (is_new) {
    net_.rules.push_back({name, 0, false});
    defined_.push_back(false);
  }
  return at->second;
}

uint32_t NetBuilder::unnamed_rule(Fragment body) {
  net_.rules.push_back({});
  defined_.push_back(false);
  const auto out = static_cast<uint32_t>(net_.rules.size() - 1);
  define(out, body);
  return out;
}

void NetBuilder::define(uint32_t rule, Fragment body) {
  const uint32_t end = node();  // of its own: the body's may have ways on, those of loops
  jump(body.end, end);
  net_.nodes[end].returns = true;
  net_.rules[rule].start = body.start;
  defined_[rule] = true;
}

std::vector<uint32_t> NetBuilder::first_calls(uint32_t rule, bool& returns) const {
  std::vector<uint32_t> out, todo = {net_.rules[rule].start};
  std::unordered_set<uint32_t> seen(todo.begin(), todo.end());
  returns = false;
  const auto reach = [&](uint32_t n) {
    if (seen.insert(n).second) todo.push_back(n);
  };
  while (!todo.empty()) {
    const GrammarNet::Node& n = net_.nodes[todo.back()];
    todo.pop_back();
    returns = returns || n.returns;
    for (const uint32_t next : n.jumps) reach(next);
    for (const auto& [called, target] : n.calls) {
      out.push_back(called);
      if (net_.rules[called].is_nullable) reach(target);
    }
  }
  return out;
}

// Each node is a place in one rule. What a rule reaches without a byte goes on behind calls when the rules
// called turn out to be nullable, so that every node and call is looked at once.
void NetBuilder::find_nullable() {
  struct Place {
    uint32_t node, rule;
  };
  std::vector<std::vector<Place>> waiting(net_.rules.size());  // behind calls of a rule
  std::vector<char> seen(net_.nodes.size());
  std::vector<Place> todo;
  const auto reach = [&](Place place) {
    if (!std::exchange(seen[place.node], true)) todo.push_back(place);
  };
  for (uint32_t r = 0; r < net_.rules.size(); r++) reach({net_.rules[r].start, r});
  while (!todo.empty()) {
    const auto [at, rule] = todo.back();
    todo.pop_back();
    const GrammarNet::Node& n = net_.nodes[at];
    for (const uint32_t next : n.jumps) reach({next, rule});
    for (const auto& [called, target] : n.calls)
      if (net_.rules[called].is_nullable)
        reach({target, rule});
      else
        waiting[called].push_back({target, rule});
    if (!n.returns || std::exchange(net_.rules[rule].is_nullable, true)) continue;
    for (const Place& place : std::exchange(waiting[rule], {})) reach(place);
  }
}

void NetBuilder::find_tails() {
  const auto is_plain = [](const GrammarNet::Node& n) { return n.edges.empty() && n.calls.empty(); };
  for (GrammarNet::Node& n : net_.nodes) {
    const GrammarNet::Node* at = &n;
    for (int i = 0; i < 64 && is_plain(*at) && !at->returns && at->jumps.size() == 1; i++)
      at = &net_.nodes[at->jumps[0]];
    n.is_tail = at->returns && is_plain(*at) && at->jumps.empty();
  }
}

void NetBuilder::find_runs() {
  for (const auto& [item, first, least, times] : repetitions_) {
    if (net_.rules[item].is_nullable) continue;
    net_.has_runs = true;
    for (uint32_t i = 0; i < times; i++) net_.nodes[first + i].run_end = first + (i < least ? least : times);
  }
}

std::optional<std::string> NetBuilder::finish() {
  find_nullable();
  find_tails();
  find_runs();
  // Depth first over calls without a byte before them; a rule that is met while it is open calls itself.
  enum Mark : char { New, Open, Done };
  std::vector<Mark> marks(net_.rules.size(), New);
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> calls;
  };
  std::vector<Visit> path;
  const auto enter = [&](uint32_t rule) {
    bool returns = false;
    marks[rule] = Open;
    path.push_back({rule, first_calls(rule, returns)});
  };
  for (uint32_t first = 0; first < net_.rules.size(); first++) {
    if (marks[first] == New) enter(first);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.calls.empty()) {
        marks[visit.rule] = Done;
        path.pop_back();
        continue;
      }
      const uint32_t next = visit.calls.back();
      visit.calls.pop_back();
      if (marks[next] == New)
        enter(next);
      else if (marks[next] == Open)  // one of the circle has a name: parts are called by their rule only
        for (auto at = path.rbegin(); at != path.rend(); ++at)
          if (!net_.rules[at->rule].name.empty()) return net_.rules[at->rule].name;
    }
  }
  return std::nullopt;
}

}  // namespace lathe
