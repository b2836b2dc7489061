#include "viz/trace.h"

#include "uop/trace.h"

#include <algorithm>

namespace lathe {
namespace {

// Numbers of texts, nodes, … fit 32 bits, as a record has two bytes at least.
constexpr size_t kMaxBytes = size_t{1} << 32;

class TraceReader {
 public:
  TraceReader(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name_(name) {}

  Result<Trace> run() {
    if (bytes_.size() > kMaxBytes) return fail("a trace of more than 4 GiB");
    if (!bytes_.starts_with(kTraceMagic)) {
      if (!kTraceMagic.starts_with(bytes_)) return fail("this is no trace of lathe");
      out_.cut_at = 0;
      return std::move(out_);
    }
    at_ = kTraceMagic.size();
    for (bool done = false; !done;) {
      start_ = at_;
      const uint64_t tag = number();
      done = tag == static_cast<uint64_t>(TraceTag::Done);
      if (!done) record(tag);
      if (!error_.empty()) return fail(std::move(error_));
      if (cut_) {
        out_.cut_at = start_;
        return std::move(out_);
      }
    }
    if (at_ != bytes_.size()) return fail("bytes after the end of the trace");
    return std::move(out_);
  }

 private:
  ParseError fail(std::string text) const { return {std::move(text), start_, std::string(name_)}; }
  // Whether all of a record was there and made sense; only then it is filed.
  bool good() const { return !cut_ && error_.empty(); }
  void wrong(std::string text) {
    if (good()) error_ = std::move(text);
  }

  uint64_t number() {
    uint64_t v = 0;
    for (int shift = 0; !cut_; shift += 7) {
      if (at_ == bytes_.size()) {
        cut_ = true;
        return 0;
      }
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) wrong("a number of more than 64 bits");
      v |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128 || shift == 63) break;
    }
    return v;
  }
  // A number below `count`, of the things that `what` names.
  uint32_t reference(size_t count, std::string_view what) {
    const uint64_t v = number();
    if (v < count) return static_cast<uint32_t>(v);
    wrong(fmt::format("there is no {} {} yet", what, v));
    return 0;
  }
  uint32_t text() { return reference(out_.texts.size(), "text"); }
  uint32_t node() { return reference(out_.nodes.size(), "node"); }
  uint32_t small(std::string_view what) {
    const uint64_t v = number();
    if (v > UINT32_MAX) wrong(fmt::format("{} {}", what, v));
    return static_cast<uint32_t>(v);
  }

  void record(uint64_t tag) {
    switch (static_cast<TraceTag>(tag > 255 ? 0 : tag)) {
      case TraceTag::Text: return read_text();
      case TraceTag::Node: return read_node();
      case TraceTag::Rule: {
        const TraceRule rule{text(), text(), small("line"), small("column")};
        if (good()) out_.rules.push_back(rule);
        return;
      }
      case TraceTag::Thread: thread_ = small("thread"); return;
      case TraceTag::PassBegin: {
        TraceEvent e{
            .kind = TraceEvent::Kind::PassBegin, .thread = thread_, .what = text(), .before = node()};
        e.ns = time_ += number();
        if (good()) out_.events.push_back(e);
        return;
      }
      case TraceTag::PassEnd: {
        const uint32_t result = reference(out_.nodes.size() + 1, "node");
        TraceEvent e{.kind = TraceEvent::Kind::PassEnd, .thread = thread_, .failed = result == 0};
        if (result) e.after = result - 1;
        e.ns = time_ += number();
        if (good()) out_.events.push_back(e);
        return;
      }
      case TraceTag::Match: {
        TraceEvent e{.kind = TraceEvent::Kind::Match, .thread = thread_};
        e.what = reference(out_.rules.size(), "rule");
        e.before = node();
        e.after = node();
        e.ns = number();
        if (good()) out_.events.push_back(e);
        return;
      }
      case TraceTag::Done: break;
    }
    wrong(fmt::format("there is no record of kind {}", tag));
  }

  void read_text() {
    const uint64_t size = number();
    if (size > bytes_.size() - at_) cut_ = true;
    if (!good()) return;
    out_.texts.push_back(bytes_.substr(at_, size));
    at_ += size;
  }

  void read_node() {
    TraceNode n{text(), text(), text(), static_cast<uint32_t>(out_.srcs.size()), 0};
    const uint64_t count = number();
    if (count > bytes_.size() - at_) cut_ = true;  // a source has a byte at least
    for (uint64_t i = 0; i < count && good(); i++) {
      const uint64_t distance = number();
      if (distance == 0 || distance > out_.nodes.size())
        wrong(fmt::format("a source {} nodes back", distance));
      if (good()) out_.srcs.push_back(static_cast<uint32_t>(out_.nodes.size() - distance));
    }
    n.n_srcs = static_cast<uint32_t>(count);
    if (good())
      out_.nodes.push_back(n);
    else
      out_.srcs.resize(n.first_src);
  }

  std::string_view bytes_, name_;
  size_t at_ = 0, start_ = 0;  // start_: of the record being read
  bool cut_ = false;
  std::string error_;
  uint32_t thread_ = 0;
  uint64_t time_ = 0;
  Trace out_;
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

}  // namespace lathe
