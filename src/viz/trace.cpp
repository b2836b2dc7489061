#include "viz/trace.h"

#include "uop/trace.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace lathe {
namespace {

// Numbers of texts, nodes, … fit 32 bits, as a record has two bytes at least.
constexpr size_t kMaxBytes = size_t{1} << 32;

class TraceReader {
 public:
  TraceReader(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name_(name) {}

  Result<Trace> run() {
    try {
      read();
    } catch (const Cut&) {
      out_.cut_at = start_;
    } catch (ParseError& error) {
      return std::move(error);
    }
    return std::move(out_);
  }

 private:
  struct Cut {};  // the bytes end too early

  [[noreturn]] void fail(std::string text) const {
    throw ParseError{std::move(text), start_, std::string(name_)};
  }

  void read() {
    if (bytes_.size() > kMaxBytes) fail("a trace of more than 4 GiB");
    if (!bytes_.starts_with(kTraceMagic)) {
      if (!kTraceMagic.starts_with(bytes_)) fail("this is no trace of lathe");
      throw Cut();
    }
    at_ = kTraceMagic.size();
    for (bool done = false; !done;) {
      start_ = at_;
      const uint64_t tag = number();
      done = tag == static_cast<uint64_t>(TraceTag::Done);
      if (!done) record(tag);
    }
    if (at_ != bytes_.size()) fail("bytes after the end of the trace");
  }

  uint64_t number() {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
      if (at_ == bytes_.size()) throw Cut();
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) fail("a number of more than 64 bits");
      v |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return v;
    }
  }

  // A number below `count`, of the things that `what` names.
  uint32_t reference(size_t count, std::string_view what) {
    const uint64_t v = number();
    if (v >= count) fail(fmt::format("there is no {} {} yet", what, v));
    return static_cast<uint32_t>(v);
  }
  uint32_t text() { return reference(out_.texts.size(), "text"); }
  uint32_t node() { return reference(out_.nodes.size(), "node"); }
  uint32_t small(std::string_view what) {
    const uint64_t v = number();
    if (v > UINT32_MAX) fail(fmt::format("{} {}", what, v));
    return static_cast<uint32_t>(v);
  }

  void record(uint64_t tag) {
    switch (static_cast<TraceTag>(tag > 255 ? 0 : tag)) {
      case TraceTag::Text: return read_text();
      case TraceTag::Node: return read_node();
      case TraceTag::Rule: {
        out_.rules.push_back({text(), text(), small("line"), small("column")});
        return;
      }
      case TraceTag::Thread: thread_ = small("thread"); return;
      case TraceTag::PassBegin: {
        TraceEvent e{
            .kind = TraceEvent::Kind::PassBegin, .thread = thread_, .what = text(), .before = node()};
        e.ns = time_ += number();
        out_.events.push_back(e);
        return;
      }
      case TraceTag::PassEnd: {
        const uint32_t result = reference(out_.nodes.size() + 1, "node");
        TraceEvent e{.kind = TraceEvent::Kind::PassEnd, .thread = thread_, .failed = result == 0};
        if (result) e.after = result - 1;
        e.ns = time_ += number();
        out_.events.push_back(e);
        return;
      }
      case TraceTag::Match: {
        TraceEvent e{.kind = TraceEvent::Kind::Match, .thread = thread_};
        e.what = reference(out_.rules.size(), "rule");
        e.before = node();
        e.after = node();
        e.ns = number();
        out_.events.push_back(e);
        return;
      }
      case TraceTag::Done: break;
    }
    fail(fmt::format("there is no record of kind {}", tag));
  }

  void read_text() {
    const uint64_t size = number();
    if (size > bytes_.size() - at_) throw Cut();
    out_.texts.push_back(bytes_.substr(at_, size));
    at_ += size;
  }

  void read_node() {
    TraceNode n{text(), text(), text(), static_cast<uint32_t>(out_.srcs.size()), 0};
    const uint64_t count = number();
    if (count > bytes_.size() - at_) throw Cut();  // a source has a byte at least
    std::vector<uint32_t> srcs;
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t distance = number();
      if (distance == 0 || distance > out_.nodes.size())
        fail(fmt::format("a source {} nodes back", distance));
      srcs.push_back(static_cast<uint32_t>(out_.nodes.size() - distance));
    }
    out_.srcs.insert(out_.srcs.end(), srcs.begin(), srcs.end());
    n.n_srcs = static_cast<uint32_t>(count);
    out_.nodes.push_back(n);
  }

  std::string_view bytes_, name_;
  size_t at_ = 0, start_ = 0;  // start_: of the record being read
  uint32_t thread_ = 0;
  uint64_t time_ = 0;
  Trace out_;
};

// Nodes below a node, itself included.
class NodeCounter {
 public:
  explicit NodeCounter(const Trace& trace) : trace_(trace), seen_(trace.nodes.size()) {}
  uint64_t count(uint32_t root) {
    const auto [it, fresh] = counts_.try_emplace(root, 0);
    if (!fresh) return it->second;
    round_++;
    seen_[root] = round_;
    std::vector<uint32_t> todo{root};
    uint64_t n = 0;
    for (; !todo.empty(); n++) {
      const TraceNode& node = trace_.nodes[todo.back()];
      todo.pop_back();
      for (uint32_t k = 0; k < node.n_srcs; k++)
        if (const uint32_t s = trace_.srcs[node.first_src + k]; std::exchange(seen_[s], round_) != round_)
          todo.push_back(s);
    }
    return it->second = n;
  }

 private:
  const Trace& trace_;
  std::vector<uint32_t> seen_;  // the round that met the node last
  uint32_t round_ = 0;
  std::unordered_map<uint32_t, uint64_t> counts_;
};

struct OpenPass {
  size_t pass;  // in TraceTotals::passes
  uint64_t start, inner_ns = 0, rewrites = 0;
};

}  // namespace

Result<Trace> read_trace(std::span<const std::byte> bytes, std::string_view name) {
  return TraceReader(bytes, name).run();
}

std::string Trace::rule_place(uint32_t rule) const {
  const TraceRule& r = rules[rule];
  return fmt::format("{}:{}:{}", texts[r.file], r.line, r.column);
}

std::string Trace::graph_text(uint32_t node, size_t limit) const {
  std::vector<uint32_t> found{node};
  std::vector<bool> seen(node + size_t{1});
  seen[node] = true;
  for (size_t i = 0; i < found.size() && found.size() <= limit; i++) {
    const TraceNode& n = nodes[found[i]];
    for (uint32_t k = 0; k < n.n_srcs; k++)
      if (const uint32_t s = srcs[n.first_src + k]; !seen[s]) {
        seen[s] = true;
        found.push_back(s);
      }
  }
  if (found.size() > limit) return {};
  std::sort(found.begin(), found.end());  // sources have smaller numbers
  std::string text;
  for (const uint32_t i : found) {
    const TraceNode& n = nodes[i];
    text += fmt::format("%{} = {}", i, texts[n.op]);
    if (texts[n.dtype] != dtype_name(DType::Void)) (text += ' ') += texts[n.dtype];
    for (uint32_t k = 0; k < n.n_srcs; k++) text += fmt::format(" %{}", srcs[n.first_src + k]);
    (text += texts[n.arg]) += '\n';
  }
  return text;
}

TraceTotals total(const Trace& trace) {
  TraceTotals out;
  NodeCounter counter(trace);
  std::unordered_map<uint32_t, size_t> pass_of_name;
  std::unordered_map<uint32_t, std::vector<OpenPass>> open;  // by thread
  for (size_t i = 0; i < trace.rules.size(); i++) out.rules.push_back({static_cast<uint32_t>(i)});
  for (const TraceEvent& e : trace.events) {
    std::vector<OpenPass>& stack = open[e.thread];
    if (e.kind == TraceEvent::Kind::Match) {
      out.rules[e.what].matches++;
      out.rules[e.what].ns += e.ns;
      out.rewrites++;
      if (!stack.empty()) stack.back().rewrites++;
    } else if (e.kind == TraceEvent::Kind::PassBegin) {
      const auto [it, fresh] = pass_of_name.try_emplace(e.what, out.passes.size());
      if (fresh) out.passes.push_back({.name = trace.texts[e.what]});
      PassTotal& p = out.passes[it->second];
      p.runs++;
      p.nodes_in += counter.count(e.before);
      stack.push_back({it->second, e.ns});
    } else if (!stack.empty()) {
      const OpenPass done = stack.back();
      stack.pop_back();
      PassTotal& p = out.passes[done.pass];
      const uint64_t ns = e.ns - done.start;
      p.failed += e.failed;
      p.nodes_out += e.failed ? 0 : counter.count(e.after);
      p.own_ns += ns - std::min(ns, done.inner_ns);
      // What a pass inside one of its own name does is counted with that one.
      if (std::none_of(stack.begin(), stack.end(), [&](const OpenPass& o) { return o.pass == done.pass; })) {
        p.ns += ns;
        p.rewrites += done.rewrites;
      }
      if (stack.empty()) {
        out.ns += ns;
      } else {
        stack.back().inner_ns += ns;
        stack.back().rewrites += done.rewrites;
      }
    }
  }
  std::sort(out.passes.begin(), out.passes.end(), [](const PassTotal& a, const PassTotal& b) {
    return std::tie(b.ns, a.name) < std::tie(a.ns, b.name);
  });
  std::sort(out.rules.begin(), out.rules.end(), [&](const RuleTotal& a, const RuleTotal& b) {
    if (a.matches == 0 || b.matches == 0) {
      if ((a.matches == 0) != (b.matches == 0)) return b.matches == 0;
      return trace.rule_place(a.rule) < trace.rule_place(b.rule);
    }
    return std::tie(b.ns, a.rule) < std::tie(a.ns, b.rule);
  });
  return out;
}

}  // namespace lathe
