#include "formats/onnx/check.h"

#include "formats/onnx/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace lathe::onnx {
namespace {

namespace fs = std::filesystem;

bool is_narrow(DType d) { return d == DType::Float16 || d == DType::BFloat16 || is_fp8(d); }

std::string differing_tensors(const Value& actual, const Value& expected, const Tolerance& tolerance) {
  const std::vector<Scalar> a = elements(actual.tensor()), e = elements(expected.tensor());
  const bool narrow = is_narrow(expected.tensor().dtype());
  const double rtol = narrow ? tolerance.narrow_rtol : tolerance.rtol,
               atol = narrow ? tolerance.narrow_atol : tolerance.atol;
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < e.size(); i++) {
    if (a[i].equals(e[i])) continue;
    if (e[i].is_float() &&
        std::abs(a[i].as_double() - e[i].as_double()) <= atol + rtol * std::abs(e[i].as_double()))
      continue;
    if (wrong++ == 0) first = i;
  }
  if (!wrong) return "";
  return fmt::format("{} of {} elements differ, the first at {}: {} instead of {}", wrong, e.size(), first,
                     a[first].to_string(), e[first].to_string());
}

// stem0.ext, stem1.ext, … as far as they exist.
std::vector<std::string> numbered(const fs::path& folder, const std::string& stem,
                                  const std::string& extension) {
  std::vector<std::string> out;
  while (true) {
    const fs::path next = folder / fmt::format("{}{}{}", stem, out.size(), extension);
    if (!fs::exists(next)) return out;
    out.push_back(next.string());
  }
}

std::string check_data_set(const Session& session, const fs::path& folder, const Tolerance& tolerance) {
  const std::vector<std::string> inputs = numbered(folder, "input_", ".pb"),
                                 outputs = numbered(folder, "output_", ".pb");
  // Data is given for the inputs in order, those with an initializer included where there is enough of it.
  const std::vector<ValueInfo>& all = session.model().graph.inputs;
  const std::vector<ValueInfo> names = inputs.size() == all.size() ? all : session.inputs();
  if (inputs.size() > names.size() || outputs.size() > session.outputs().size())
    return fmt::format("{} inputs and {} outputs for a model with {} and {}", inputs.size(), outputs.size(),
                       names.size(), session.outputs().size());
  std::map<std::string, Value> given;
  for (size_t i = 0; i < inputs.size(); i++) given[names[i].name] = load_value(inputs[i], names[i].type);
  const Values results = session.run(given);
  for (size_t i = 0; i < outputs.size(); i++) {
    const ValueInfo& info = session.outputs()[i];
    const std::string problem = difference(results[i], load_value(outputs[i], info.type), tolerance);
    if (!problem.empty()) return fmt::format("output `{}`: {}", info.name, problem);
  }
  return "";
}

}  // namespace

std::string difference(const Value& actual, const Value& expected, const Tolerance& tolerance) {
  if (!expected.has_value() && !actual.has_value()) return "";
  if (expected.is_sequence() && actual.is_sequence() && expected.items().size() == actual.items().size()) {
    for (size_t i = 0; i < expected.items().size(); i++)
      if (const auto d = difference(actual.items()[i], expected.items()[i], tolerance); !d.empty())
        return fmt::format("item {}: {}", i, d);
    return "";
  }
  const bool alike = expected.has_value() && actual.has_value() && !expected.is_sequence() &&
                     !actual.is_sequence() && actual.type() == expected.type() &&
                     actual.shape() == expected.shape();
  if (!alike) return fmt::format("{} instead of {}", actual.to_string(), expected.to_string());
  if (expected.is_tensor()) return differing_tensors(actual, expected, tolerance);
  for (size_t i = 0; i < expected.strings().items.size(); i++)
    if (actual.strings().items[i] != expected.strings().items[i])
      return fmt::format("text {}: `{}` instead of `{}`", i, actual.strings().items[i],
                         expected.strings().items[i]);
  return "";
}

Value load_value(const std::string& path, const TypeInfo& type) {
  const MappedFile file(path);
  ErrorContext context([&] { return fmt::format("loading {}", path); });
  if (type.kind == TypeInfo::Kind::Sequence) return to_value(parse_sequence(file.bytes(), path).or_throw());
  if (type.kind == TypeInfo::Kind::Optional) return to_value(parse_optional(file.bytes(), path).or_throw());
  DataFiles files(fs::path(path).parent_path().string());
  return to_value(parse_tensor(file.bytes(), path).or_throw(), files);
}

CheckedCase check_case(const std::string& folder, const Tolerance& tolerance) {
  CheckedCase out{fs::path(folder).filename().string(), CheckedCase::Outcome::Passed, ""};
  try {
    const std::vector<std::string> sets = numbered(folder, "test_data_set_", "");
    if (sets.empty()) return {out.name, CheckedCase::Outcome::Skipped, "no test_data_set_0"};
    const Session session((fs::path(folder) / "model.onnx").string());
    for (const std::string& set : sets) {
      out.reason = check_data_set(session, set, tolerance);
      if (!out.reason.empty()) break;
    }
  } catch (const std::exception& error) {
    out.reason = error.what();
  }
  if (!out.reason.empty()) out.outcome = CheckedCase::Outcome::Failed;
  return out;
}

std::vector<std::string> find_cases(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename() == "model.onnx") out.push_back(entry.path().parent_path().string());
  std::ranges::sort(out);
  return out;
}

}  // namespace lathe::onnx
