#include "uop/trace.h"

#include "base/knobs.h"
#include "base/log.h"
#include "uop/print.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace lathe {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr uint64_t kFlushNanoseconds = 10'000'000;  // a write this often costs nothing that shows

uint64_t nanoseconds() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// Small numbers, in the order in which threads first write.
uint64_t thread_number() {
  static std::atomic<uint64_t> count{0};
  thread_local const uint64_t number = count.fetch_add(1);
  return number;
}

}  // namespace

TraceWriter::TraceWriter(std::string path)
    : path_(std::move(path)), process_(::getpid()), buffer_(kTraceMagic), now_(nanoseconds()) {
  file_.emplace(path_);
}

// Runs `write` alone. A child of a fork has a copy of the buffer, but the file is its parent's.
template <class F>
void TraceWriter::record(F&& write) {
  std::lock_guard lock(mutex_);
  if (!file_ || ::getpid() != process_) return;
  try {
    write();
  } catch (const std::exception& error) {
    file_.reset();
    log_warn("the trace {} ends here: {}", path_, error.what());
  }
}

// LEB128: seven bits a byte, the lowest first; the top bit says that more follow.
void TraceWriter::put(uint64_t number) {
  for (; number >= 128; number >>= 7) buffer_ += static_cast<char>(number | 128);
  buffer_ += static_cast<char>(number);
}

uint64_t TraceWriter::text(std::string_view s) {
  const auto [it, fresh] = texts_.try_emplace(std::string(s), texts_.size());
  if (fresh) {
    put(TraceTag::Text);
    put(s.size());
    buffer_ += s;
  }
  return it->second;
}

// Sources come first; they lie close behind in most graphs, so their distance is written.
uint64_t TraceWriter::node(const UOp& root) {
  if (const auto it = nodes_.find(root.hash()); it != nodes_.end()) return it->second;
  struct Visit {
    const UOp* u;
    size_t next_src;
  };
  std::vector<Visit> open{{&root, 0}};
  while (!open.empty()) {
    auto& [u, next] = open.back();
    const std::span<const UOp> srcs = u->srcs();
    while (next < srcs.size() && nodes_.contains(srcs[next].hash())) next++;
    if (next < srcs.size()) {
      const UOp& s = srcs[next];
      open.push_back({&s, 0});
      continue;
    }
    const uint64_t op = text(op_name(u->op())), dtype = text(dtype_name(u->dtype())),
                   arg = text(print_arg(*u));
    put(TraceTag::Node);
    put(op);
    put(dtype);
    put(arg);
    put(srcs.size());
    for (const UOp& s : srcs) put(nodes_.size() - nodes_.at(s.hash()));
    nodes_.emplace(u->hash(), nodes_.size());
    open.pop_back();
  }
  return nodes_.size() - 1;
}

uint64_t TraceWriter::rule(const RulePlace& place) {
  const auto it = rules_.find(place);
  if (it != rules_.end()) return it->second;
  std::string_view path = place.file;  // as the compiler was given it, perhaps from a build folder
  while (path.starts_with("../")) path.remove_prefix(3);
  const uint64_t file = text(path), name = text(place.name);
  put(TraceTag::Rule);
  put(file);
  put(name);
  put(place.line);
  put(place.column);
  return rules_.emplace(place, rules_.size()).first->second;
}

// Starts a record of an event.
void TraceWriter::event(TraceTag tag) {
  if (const uint64_t thread = thread_number(); thread != thread_) {
    put(TraceTag::Thread);
    put(thread_ = thread);
  }
  put(tag);
}

void TraceWriter::clock() {
  const uint64_t before = std::exchange(now_, nanoseconds());
  put(now_ - before);
}

void TraceWriter::flush() {
  file_->out().write(buffer_);
  file_->out().flush();
  buffer_.clear();
  flushed_ = now_;
}

void TraceWriter::on_pass_begin(std::string_view pass, const UOp& root) {
  record([&] {
    const uint64_t name = text(pass), in = node(root);
    event(TraceTag::PassBegin);
    put(name);
    put(in);
    clock();
    open_passes_++;
  });
}

void TraceWriter::on_match(const RuleInfo& r, const UOp& before, const UOp& after, uint64_t ns) {
  record([&] {
    const uint64_t number = rule({r.file, r.name, r.line, r.column}), from = node(before), to = node(after);
    event(TraceTag::Match);
    put(number);
    put(from);
    put(to);
    put(ns);
    if (buffer_.size() > kBufferBytes) flush();
  });
}

void TraceWriter::on_pass_end(std::string_view, const UOp& result) {
  record([&] {
    const uint64_t out = result ? node(result) + 1 : 0;
    event(TraceTag::PassEnd);
    put(out);
    clock();
    open_passes_ -= open_passes_ > 0 ? 1 : 0;
    if (!result || buffer_.size() > kBufferBytes || (!open_passes_ && now_ - flushed_ > kFlushNanoseconds))
      flush();
  });
}

void TraceWriter::finish() {
  record([&] {
    for (const RuleStat& s : rule_stats()) rule({s.file, s.name, s.line, s.column});
    put(TraceTag::Done);
    flush();
    file_->commit();
    file_.reset();
  });
}

RewriteTracer* trace_writer_of_knob() {
  const std::string& path = knob_str(Knob::TRACE);
  if (path.empty()) return nullptr;
  // Never deleted: threads may still be rewriting while the process exits.
  static TraceWriter* const writer = new TraceWriter(path);
  std::atexit([] { writer->finish(); });
  return writer;
}

}  // namespace lathe
