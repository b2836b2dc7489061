#include "formats/onnx/read_log.h"

#include "engine/counters.h"

#include <algorithm>

namespace lathe::onnx {
namespace {

thread_local ReadLog* current = nullptr;

}  // namespace

ReadLog::ReadLog(const std::vector<UOp>& watched) : schedules_(counters().schedules), outer_(current) {
  for (const UOp& u : watched) watched_.insert(u.node());
  current = this;
}
ReadLog::~ReadLog() { current = outer_; }

void ReadLog::note_elements(const UOp& buffer) {
  if (current && current->watched_.count(buffer.node())) current->read_.insert(buffer.node());
}

void ReadLog::note_run(const UOp& graph) {
  if (!current || current->has_run_) return;
  const auto all = toposort(graph);
  current->has_run_ =
      std::ranges::any_of(all, [](const UOp& u) { return current->watched_.count(u.node()) != 0; });
}

bool ReadLog::has_run() const { return has_run_ || counters().schedules != schedules_; }

}  // namespace lathe::onnx
