// The graph of tensors that a model became, kept to run again on other values.
#pragma once
#include "formats/onnx/read_log.h"
#include "formats/onnx/value.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lathe::onnx {

using Inputs = std::map<std::string, Value>;

// A model's outputs as functions of Buffers without memory of their own, which take that of the inputs for
// the time of a run. It holds for inputs of the same types and shapes; where numbers of an input decided how
// the graph looks, for the same numbers. Runs of one plan wait for each other.
class Plan {
 public:
  // Inputs without memory get it on `device`.
  Plan(const Inputs& inputs, std::string device);
  // The inputs that the graph is to be built from; they have the values of this plan's inputs.
  const Inputs& stand_ins() const { return stand_ins_; }
  std::vector<UOp> placeholders() const;
  // Takes the outputs of the graph. False when they cannot be had again without building it anew: they are
  // not tensors all of them, or follow from values that were read.
  bool keep(const Values& outputs, const ReadLog& log);

  bool fits(const Inputs& inputs) const;
  Values run(const Inputs& inputs);

 private:
  struct Slot {
    std::string name;
    ElementType type;
    std::vector<int64_t> shape;
    UOp placeholder;              // none for a constant
    std::vector<Scalar> numbers;  // that the graph holds for, if any
  };
  struct Output {
    UOp root;  // contiguous, or a view of memory that is there
    ElementType type;
  };
  std::string device_;
  std::vector<Slot> slots_;
  std::vector<Output> outputs_;
  Inputs stand_ins_;
  std::mutex mutex_;
};

}  // namespace lathe::onnx
