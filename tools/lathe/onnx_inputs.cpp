#include "lathe/onnx_inputs.h"

#include "formats/npy.h"
#include "lathe/number_check.h"

#include <algorithm>
#include <map>

namespace lathe::command {
namespace {

// "NAME=VALUE" as its halves.
std::pair<std::string, std::string> halves(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == text.npos || at == 0) throw CLI::ValidationError("`" + text + "` is not of the form NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

// Sizes that the model leaves open are 1, or what --dim says.
Shape shape_of(const onnx::ValueInfo& info, const std::map<std::string, int64_t>& dims) {
  Shape out;
  for (const std::string& d : info.type.dims) {
    const auto it = dims.find(d);
    const bool is_number = !d.empty() && d.find_first_not_of("0123456789") == d.npos;
    out.push_back(SInt(it != dims.end() ? it->second : is_number ? int64_t{std::stoll(d)} : int64_t{1}));
  }
  return out;
}

onnx::Value made_up(const onnx::ValueInfo& info, const std::string& how,
                    const std::map<std::string, int64_t>& dims) {
  const onnx::ElementInfo* element = onnx::element_info(info.type.element);
  if (info.type.kind != onnx::TypeInfo::Kind::Tensor || !element || element->bits < 8)
    value_error("input `{}` of type {} has to come from a file", info.name, onnx::to_string(info.type));
  const Shape shape = shape_of(info, dims);
  if (how == "ones") return {Tensor::full(shape, 1, {element->dtype}), info.type.element};
  const Tensor random = is_float(element->dtype) ? Tensor::rand(shape) : Tensor::randint(shape, 0, 2);
  return {random.cast(element->dtype).realize(), info.type.element};
}

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
  command.add_option("MODEL", options.model, "ONNX file")->required()->check(CLI::ExistingFile);
  command.add_option("--input", options.inputs,
                     "NAME=FILE.npy, NAME=ones or NAME=random, as often as needed");
  command.add_option("--dim", options.dims, "NAME=N: the size of an axis that the model names, else 1");
  command.add_option("--seed", options.seed, "Of random inputs")->capture_default_str();
}

void add_repeats(CLI::App& command, InputOptions& options) {
  options.repeats = 20;
  command.add_option("-n", options.repeats, "Timed runs")->check(positive())->capture_default_str();
}

onnx::Inputs make_inputs(const onnx::Session& session, const InputOptions& options) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : options.dims) {
    const auto [name, value] = halves(text);
    if (value.empty() || value.size() > 9 || value.find_first_not_of("0123456789") != value.npos)
      throw CLI::ValidationError("`" + value + "` is no size");
    dims[name] = std::stoll(value);
  }
  onnx::Inputs out;
  for (const std::string& text : options.inputs) {
    const auto [name, source] = halves(text);
    const auto& all = session.model().graph.inputs;
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const onnx::ValueInfo& i) { return i.name == name; });
    if (it == all.end()) value_error("the model has no input `{}`", name);
    out[name] =
        source == "ones" || source == "random" ? made_up(*it, source, dims) : onnx::Value(load_npy(source));
  }
  if (options.repeats)
    for (const onnx::ValueInfo& i : session.inputs())
      if (!out.count(i.name)) out[i.name] = made_up(i, "ones", dims);
  return out;
}

}  // namespace lathe::command
