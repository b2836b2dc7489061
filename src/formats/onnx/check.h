// Checks models against folders of expected results in the layout of the ONNX project.
#pragma once
#include "formats/onnx/value.h"

#include <string>
#include <vector>

namespace lathe::onnx {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-5;
  // Of types with fewer bits of mantissa than float32.
  double narrow_rtol = 1e-2, narrow_atol = 1e-2;
};

// Where and how two values differ; "" when shapes and types are the same and every number lies within
// atol + rtol * |expected|. NaN equals NaN.
std::string difference(const Value& actual, const Value& expected, const Tolerance& tolerance = {});

// A value file: a TensorProto, SequenceProto or OptionalProto, as the type says.
Value load_value(const std::string& path, const TypeInfo& type);

struct CheckedCase {
  enum class Outcome : uint8_t { Passed, Failed, Skipped };
  std::string name;  // the folder's
  Outcome outcome = Outcome::Passed;
  std::string reason;  // unless it passed
};

// Runs model.onnx on the inputs of every test_data_set_N and compares the outputs. Nothing is thrown: an
// error is the reason of a failure. A folder without data sets is skipped.
CheckedCase check_case(const std::string& folder, const Tolerance& tolerance = {});

// The folders at or below `folder` that hold a model.onnx, sorted.
std::vector<std::string> find_cases(const std::string& folder);

}  // namespace lathe::onnx
