// What is read of values while a graph is built from them.
#pragma once
#include "uop/uop.h"

#include <cstdint>
#include <unordered_set>
#include <vector>

namespace lathe::onnx {

// While it lives, notes what this thread reads on the host of the memory of some Buffers.
class ReadLog {
 public:
  explicit ReadLog(const std::vector<UOp>& watched);
  ~ReadLog();
  ReadLog(const ReadLog&) = delete;
  ReadLog& operator=(const ReadLog&) = delete;

  // Some of the elements of a Buffer are read; all that a graph reads is read, by running it.
  static void note_elements(const UOp& buffer);
  static void note_run(const UOp& graph);

  bool has_read(const UOp& buffer) const { return read_.count(buffer.node()) != 0; }
  // Whether a graph that was built meanwhile may hold results of one run.
  bool has_run() const;

 private:
  std::unordered_set<const lathe::Node*> watched_, read_;
  bool has_run_ = false;
  uint64_t schedules_;
  ReadLog* outer_;
};

}  // namespace lathe::onnx
