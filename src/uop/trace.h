// Writes every rewrite of the process to a file: docs/trace.md has the format, viz/trace.h the reader.
#pragma once
#include "base/mmap.h"
#include "uop/rewrite.h"

#include <mutex>
#include <optional>
#include <unordered_map>

namespace lathe {

// Starts the file, and numbers each kind of thing that its records refer to.
inline constexpr std::string_view kTraceMagic = "lathe trace 1\n";
enum class TraceTag : uint8_t { Text = 1, Node, Rule, Thread, PassBegin, PassEnd, Match, Done };

// The file has a temporary name until `finish`, and keeps it when the process dies; what was flushed can be
// read. A full disk ends the trace with a warning, not the program.
class TraceWriter final : public RewriteTracer {
 public:
  explicit TraceWriter(std::string path);  // UserError where the file cannot be created
  ~TraceWriter() override { finish(); }
  void on_pass_begin(std::string_view pass, const UOp& root) override;
  void on_match(const RuleInfo& rule, const UOp& before, const UOp& after, uint64_t nanoseconds) override;
  void on_pass_end(std::string_view pass, const UOp& result) override;
  // Adds the rules that never applied and gives the file its name. Later events are dropped.
  void finish();

 private:
  struct RulePlace {
    std::string_view file, name;
    uint32_t line, column;
    bool operator==(const RulePlace&) const = default;
  };
  struct HashPlace {
    size_t operator()(const RulePlace& p) const {
      return std::hash<std::string_view>()(p.file) ^ (size_t{p.line} << 16 | p.column);
    }
  };

  template <class F>
  void record(F&& write);
  void put(TraceTag tag) { buffer_ += static_cast<char>(tag); }
  void put(uint64_t number);
  uint64_t text(std::string_view s);
  uint64_t node(const UOp& u);
  uint64_t rule(const RulePlace& place);
  void event(TraceTag tag);
  void clock();
  void flush();

  std::mutex mutex_;
  std::string path_;
  std::optional<AtomicFile> file_;
  const int process_;
  std::string buffer_;  // records not yet given to the file
  std::unordered_map<std::string, uint64_t> texts_;
  std::unordered_map<Hash128, uint64_t> nodes_;
  std::unordered_map<RulePlace, uint64_t, HashPlace> rules_;
  uint64_t thread_ = 0;   // whose records are being written
  uint64_t now_ = 0;      // nanoseconds; records hold differences
  uint64_t flushed_ = 0;  // when
  uint64_t open_passes_ = 0;
};

// The writer of the file that the knob TRACE names, finished when the process exits; null without a name.
RewriteTracer* trace_writer_of_knob();

}  // namespace lathe
