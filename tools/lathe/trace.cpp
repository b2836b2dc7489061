#include "viz/trace.h"

#include "base/error.h"
#include "base/mmap.h"
#include "lathe/command.h"
#include "uop/expression.h"
#include "uop/parse.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <vector>

namespace lathe::command {
namespace {

struct Request {
  std::string file, rule, pass;
  bool as_json = false;
  size_t top = 20;
};

// A request for rewrites, as text: what they are, and how often they were made.
class Listing {
 public:
  explicit Listing(const Trace& trace) : trace_(trace) {}

  // The node as an expression where it is a small one, else its op and its size.
  const std::string& text(uint32_t node) {
    constexpr size_t kMostNodes = 500;
    const auto [it, fresh] = texts_.try_emplace(node);
    if (!fresh) return it->second;
    const TraceNode& n = trace_.nodes[node];
    it->second = fmt::format("{} {}{}", trace_.texts[n.op], trace_.texts[n.dtype], trace_.texts[n.arg]);
    const std::string graph = trace_.graph_text(node, kMostNodes);
    if (graph.empty()) return it->second += fmt::format(" of more than {} nodes", kMostNodes);
    if (auto parsed = parse(graph); parsed.ok() && parsed.value().dtype() != DType::Void)
      it->second = expression(parsed.value(), {.characters = 200, .depth = 12});
    return it->second;
  }

 private:
  const Trace& trace_;
  std::map<uint32_t, std::string> texts_;
};

// "simplify.cpp:120" means the rule of that line of the file whose path ends so; a name means itself.
bool is_rule(const Trace& trace, uint32_t rule, std::string_view wanted) {
  const TraceRule& r = trace.rules[rule];
  if (trace.texts[r.name] == wanted && !wanted.empty()) return true;
  for (const std::string& place : {fmt::format("{}:{}", trace.texts[r.file], r.line), trace.rule_place(rule)})
    if (place == wanted || place.ends_with("/" + std::string(wanted))) return true;
  return false;
}

struct Rewrite {
  uint32_t rule, before, after;
  uint64_t times = 0, first = 0;
};
// Distinct rewrites in the order of their first, of a rule or of a pass and what it starts inside.
std::vector<Rewrite> rewrites_of(const Trace& trace, const Request& request) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Rewrite> found;
  std::map<uint32_t, std::vector<bool>>
      inside;  // by thread: whether each open pass is or is in the wanted one
  bool known = false;
  for (uint32_t r = 0; r < trace.rules.size(); r++)
    known |= !request.rule.empty() && is_rule(trace, r, request.rule);
  for (const TraceEvent& e : trace.events) {
    std::vector<bool>& stack = inside[e.thread];
    if (e.kind == TraceEvent::Kind::PassBegin) {
      const bool wanted = !request.pass.empty() && trace.texts[e.what] == request.pass;
      known |= wanted;
      stack.push_back(wanted || (!stack.empty() && stack.back()));
    } else if (e.kind == TraceEvent::Kind::PassEnd) {
      if (!stack.empty()) stack.pop_back();
    } else if (request.rule.empty() ? !stack.empty() && stack.back() : is_rule(trace, e.what, request.rule)) {
      Rewrite& r = found[{e.what, e.before, e.after}];
      if (!r.times++) r = {e.what, e.before, e.after, 1, found.size()};
    }
  }
  if (!known && !request.rule.empty()) value_error("the trace knows no rule {}", request.rule);
  if (!known) value_error("the trace has no pass {}", request.pass);
  std::vector<Rewrite> out;
  for (const auto& [key, r] : found) out.push_back(r);
  std::sort(out.begin(), out.end(), [](const Rewrite& a, const Rewrite& b) { return a.first < b.first; });
  return out;
}

void print_rewrites(const Trace& trace, const Request& request) {
  const std::vector<Rewrite> rewrites = rewrites_of(trace, request);
  Listing listing(trace);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < rewrites.size() && i < request.top; i++) {
    const Rewrite& r = rewrites[i];
    if (request.as_json)
      list.push_back({{"rule", trace.rule_place(r.rule)},
                      {"before", listing.text(r.before)},
                      {"after", listing.text(r.after)},
                      {"times", r.times}});
    else
      std::printf("%s%s\n    %s\n -> %s\n", trace.rule_place(r.rule).c_str(),
                  r.times > 1 ? fmt::format(", {} times", r.times).c_str() : "",
                  listing.text(r.before).c_str(), listing.text(r.after).c_str());
  }
  if (request.as_json)
    std::printf("%s\n",
                nlohmann::ordered_json{{"rewrites", list}, {"distinct", rewrites.size()}}.dump(2).c_str());
  else if (rewrites.size() > request.top)
    std::printf("%zu more; --top %zu shows all\n", rewrites.size() - request.top, rewrites.size());
}

double milliseconds(uint64_t ns) { return static_cast<double>(ns) * 1e-6; }
std::string_view pass_name(const PassTotal& p) { return p.name.empty() ? "(no name)" : p.name; }
std::string rule_text(const Trace& trace, uint32_t rule) {
  const std::string_view name = trace.texts[trace.rules[rule].name];
  return trace.rule_place(rule) + (name.empty() ? "" : fmt::format(" ({})", name));
}

nlohmann::ordered_json to_json(const Trace& trace, const TraceTotals& totals) {
  nlohmann::ordered_json passes = nlohmann::ordered_json::array(), rules = passes;
  for (const PassTotal& p : totals.passes)
    passes.push_back({{"name", p.name},
                      {"runs", p.runs},
                      {"failed", p.failed},
                      {"nodes_in", p.nodes_in},
                      {"nodes_out", p.nodes_out},
                      {"rewrites", p.rewrites},
                      {"ms", milliseconds(p.ns)},
                      {"own_ms", milliseconds(p.own_ns)}});
  for (const RuleTotal& r : totals.rules) {
    const TraceRule& rule = trace.rules[r.rule];
    rules.push_back({{"file", trace.texts[rule.file]},
                     {"line", rule.line},
                     {"column", rule.column},
                     {"name", trace.texts[rule.name]},
                     {"rewrites", r.matches},
                     {"ms", milliseconds(r.ns)}});
  }
  return {{"complete", !trace.cut_at},     {"rewrites", totals.rewrites}, {"nodes", trace.nodes.size()},
          {"ms", milliseconds(totals.ns)}, {"passes", std::move(passes)}, {"rules", std::move(rules)}};
}

void print_totals(const Trace& trace, const TraceTotals& totals, size_t top) {
  std::printf("%llu rewrites in %.1f ms of passes, %zu distinct nodes\n\n",
              static_cast<unsigned long long>(totals.rewrites), milliseconds(totals.ns), trace.nodes.size());
  fmt::print("{:>10} {:>10} {:>8} {:>10} {:>10} {:>10}  pass\n", "ms", "own ms", "runs", "nodes in",
             "nodes out", "rewrites");
  for (const PassTotal& p : totals.passes)
    fmt::print("{:>10.2f} {:>10.2f} {:>8} {:>10} {:>10} {:>10}  {}{}\n", milliseconds(p.ns),
               milliseconds(p.own_ns), p.runs, p.nodes_in, p.nodes_out, p.rewrites, pass_name(p),
               p.failed ? fmt::format(", {} ended by an error", p.failed) : "");
  size_t used = 0;
  while (used < totals.rules.size() && totals.rules[used].matches) used++;
  fmt::print("\n{:>10} {:>10} {:>10}  rule, by time\n", "ms", "rewrites", "ns each");
  for (size_t i = 0; i < std::min(used, top); i++) {
    const RuleTotal& r = totals.rules[i];
    fmt::print("{:>10.2f} {:>10} {:>10}  {}\n", milliseconds(r.ns), r.matches, r.ns / r.matches,
               rule_text(trace, r.rule));
  }
  if (used > top) fmt::print("{} more rules applied; --top {} shows all\n", used - top, used);
  const size_t unused = totals.rules.size() - used;
  fmt::print("\n{} of {} rules never applied{}\n", unused, totals.rules.size(), unused ? ":" : "");
  for (size_t i = used; i < used + std::min(unused, top); i++)
    fmt::print("  {}\n", rule_text(trace, totals.rules[i].rule));
  if (unused > top) fmt::print("  and {} more\n", unused - top);
}

void print_trace(const Request& request) {
  const MappedFile file(request.file);
  const Trace trace = read_trace(file.bytes(), request.file).or_throw();
  if (trace.cut_at)
    fmt::print(
        stderr,
        "lathe: {} ends at byte {}, where it should go on: the program that wrote it did not come to its "
        "end. What follows is what it did so far.\n",
        request.file, *trace.cut_at);
  if (!request.rule.empty() || !request.pass.empty()) return print_rewrites(trace, request);
  const TraceTotals totals = total(trace);
  if (request.as_json)
    std::printf("%s\n", to_json(trace, totals).dump(2).c_str());
  else
    print_totals(trace, totals, request.top);
}

}  // namespace

void add_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("trace", "Shows what the rewrite rules did in a run with TRACE=FILE.");
  auto request = std::make_shared<Request>();
  command->add_option("FILE", request->file, "A trace")->required();
  command->add_flag("--json", request->as_json, "Print one JSON document");
  command->add_option("--top", request->top, "Lines of each list")->capture_default_str();
  CLI::Option* rule = command->add_option("--rule", request->rule,
                                          "List what the rule at FILE:LINE, or of that name, replaced");
  command->add_option("--pass", request->pass, "List the rewrites of a pass and of the passes inside it")
      ->excludes(rule);
  command->footer(
      "Examples:\n"
      "  lathe trace demo.trace                            after TRACE=demo.trace lathe demo\n"
      "  lathe trace demo.trace --rule simplify.cpp:123    what the rule there did\n"
      "  lathe trace demo.trace --pass move_gates --top 50\n"
      "  lathe trace demo.trace --json | jq '.rules[] | select(.rewrites == 0)'");
  command->callback([request] { print_trace(*request); });
}

}  // namespace lathe::command
