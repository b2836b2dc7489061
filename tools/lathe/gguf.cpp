#include "formats/gguf/gguf.h"

#include "base/progress.h"
#include "formats/gguf/check.h"
#include "formats/gguf/quantize_file.h"
#include "lathe/command.h"
#include "llm/convert/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

void print_json(const Json& document) {
  std::printf("%s\n", document.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int64_t total_bytes(const GgufFile& file) {
  uint64_t bytes = 0;
  for (const GgufTensor& t : file.tensors()) bytes += t.bytes;
  return static_cast<int64_t>(bytes);
}

// A bar over the bytes of tensors that are done.
class TensorBar {
 public:
  TensorBar(const char* name, const GgufFile& file) : bar_(name, total_bytes(file)) {}
  void operator()(const GgufTensor& t) { bar_.update(done_ += static_cast<int64_t>(t.bytes), t.name); }

 private:
  Progress bar_;
  int64_t done_ = 0;
};

// ---- show

struct TypeTotal {
  int64_t tensors = 0, elements = 0, bytes = 0;
};
std::map<std::string_view, TypeTotal> totals(const GgufFile& file) {
  std::map<std::string_view, TypeTotal> out;
  for (const GgufTensor& t : file.tensors()) {
    TypeTotal& total = out[type_info(t.type).name];
    total.tensors++, total.elements += t.elements(), total.bytes += static_cast<int64_t>(t.bytes);
  }
  return out;
}

Json value_json(const GgufValue& value, size_t most) {
  return std::visit(
      [&](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          if (value.type() == GgufValueType::Bool) return held != 0;
          if (value.type() == GgufValueType::UInt64) return static_cast<uint64_t>(held);
          return held;
        } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
          return held;
        } else {
          Json out = Json::array();
          for (size_t i = 0; i < held.size() && i < most; i++) {
            if constexpr (std::is_same_v<T, std::vector<GgufValue>>)
              out.push_back(value_json(held[i], most));
            else
              out.push_back(value_json(GgufValue(value.element_type(), {}, held[i]), most));
          }
          return out;
        }
      },
      value.held());
}

Json show_json(const GgufFile& file, size_t most) {
  Json keys = Json::object(), tensors = Json::array(), types = Json::object();
  for (const auto& [key, value] : file.metadata().entries()) {
    keys[key] = {{"type", gguf_type_name(value.type())}};
    if (value.is_array())
      keys[key]["of"] = gguf_type_name(value.element_type()), keys[key]["size"] = value.size();
    keys[key]["value"] = value_json(value, most);
  }
  for (const GgufTensor& t : file.tensors())
    tensors.push_back({{"name", t.name},
                       {"type", type_info(t.type).name},
                       {"shape", t.shape},
                       {"file", t.part},
                       {"offset", t.offset},
                       {"bytes", t.bytes}});
  for (const auto& [name, total] : totals(file))
    types[std::string(name)] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  return {{"version", file.version()}, {"files", file.parts()}, {"bytes", total_bytes(file)},
          {"metadata", keys},          {"tensors", tensors},    {"types", types}};
}

// On one line of a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '\n' ? "\\n" : static_cast<unsigned char>(c) < 32 || c == 127 ? "?" : std::string(1, c);
  return out;
}

void show(const std::string& path, bool as_json, bool in_full) {
  const GgufFile file = GgufFile::open(path).or_throw();
  const size_t most = in_full ? std::string::npos : 8;
  if (as_json) return print_json(show_json(file, most));
  fmt::print("GGUF version {}, {} key{}, {} tensor{}{}\n", file.version(), file.metadata().entries().size(),
             file.metadata().entries().size() == 1 ? "" : "s", file.tensors().size(),
             file.tensors().size() == 1 ? "" : "s",
             file.parts() > 1 ? fmt::format(" in {} files", file.parts()) : "");
  for (const auto& [key, value] : file.metadata().entries()) {
    std::string text = value.to_text(most);
    constexpr size_t kMostText = 160;
    if (!in_full && text.size() > kMostText) text = text.substr(0, kMostText) + "…";
    fmt::print("{} ({}) = {}\n", printable(key), value.type_text(), printable(text));
  }
  size_t width = 0;
  for (const GgufTensor& t : file.tensors()) width = std::max(width, t.name.size());
  for (const GgufTensor& t : file.tensors())
    fmt::print("{:<{}}  {:<7} {:<20} at {}{}\n", printable(t.name), width, type_info(t.type).name,
               fmt::format("[{}]", fmt::join(t.shape, ", ")), t.offset,
               file.parts() > 1 ? fmt::format(" of file {}", t.part + 1) : "");
  int64_t elements = 0;
  for (const auto& [name, total] : totals(file)) {
    fmt::print("{:<7} {:>4} tensor{}, {} weights, {} bytes\n", name, total.tensors,
               total.tensors == 1 ? " " : "s", total.elements, total.bytes);
    elements += total.elements;
  }
  if (elements)
    fmt::print("{:.2f} bits a weight\n",
               8 * static_cast<double>(total_bytes(file)) / static_cast<double>(elements));
}

void add_show(CLI::App& app) {
  CLI::App* command = app.add_subcommand("show", "Lists the keys and tensors of a file.");
  struct Options {
    std::string path;
    bool as_json = false, in_full = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->path, "GGUF file, the first one of a split model")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_flag("--full", options->in_full, "All elements of arrays, and whole texts");
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe gguf show model.gguf\n"
      "  lathe gguf show model.gguf --json --full | jq '.metadata[\"tokenizer.ggml.tokens\"].value'");
  command->callback([options] { show(options->path, options->as_json, options->in_full); });
}

// ---- check

void check(const std::string& path, bool as_json) {
  const GgufFile file = GgufFile::open(path).or_throw();
  std::vector<GgufFault> faults;
  {
    TensorBar bar("checking", file);
    faults = check_tensors(file, std::ref(bar));
  }
  if (as_json) {
    Json list = Json::array();
    for (const GgufFault& f : faults)
      list.push_back(
          {{"tensor", f.tensor}, {"text", f.text}, {"first_block", f.block}, {"blocks", f.blocks}});
    print_json({{"tensors", file.tensors().size()}, {"bytes", total_bytes(file)}, {"faults", list}});
  } else {
    for (const GgufFault& f : faults)
      fmt::print("tensor `{}`: {}: first in block {}, in {} altogether\n", printable(f.tensor), f.text,
                 f.block, f.blocks);
    if (faults.empty())
      fmt::print("{} tensors of {} bytes, nothing is wrong\n", file.tensors().size(), total_bytes(file));
  }
  if (!faults.empty())
    value_error("{}: {} tensor{} with numbers that are none", path, faults.size(),
                faults.size() == 1 ? "" : "s");
}

void add_check(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("check", "Checks a file: its structure, and scales that are infinite or no number.");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("FILE", *path, "GGUF file, the first one of a split model")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_flag("--json", *as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe gguf check model.gguf && echo fine\n"
      "  lathe gguf check model-00001-of-00003.gguf --json");
  command->callback([path, as_json] { check(*path, *as_json); });
}

// ---- quantize

struct QuantizeCommand {
  std::string in, out, output_type, embedding_type;
  std::vector<std::string> tensor_types;
  QuantizeOptions options;
  bool is_dry = false, as_json = false;
};

GgmlType type_named(const std::string& name) {
  const auto type = ggml_type(std::string_view(name));
  if (!type) value_error("there is no type `{}`", name);
  return *type;
}

void quantize_command(QuantizeCommand c) {
  if (!c.output_type.empty()) c.options.output = type_named(c.output_type);
  if (!c.embedding_type.empty()) c.options.token_embedding = type_named(c.embedding_type);
  for (const std::string& text : c.tensor_types) {
    const size_t equals = text.rfind('=');
    if (equals == text.npos) value_error("`{}` is not PATTERN=TYPE", text);
    c.options.overrides.emplace_back(text.substr(0, equals), type_named(text.substr(equals + 1)));
  }
  const GgufFile file = GgufFile::open(c.in).or_throw();
  const std::vector<GgmlType> types = plan_quantize(file, c.options);
  int64_t bytes = 0, elements = 0;
  Json tensors = Json::array();
  for (size_t i = 0; i < types.size(); i++) {
    const GgufTensor& t = file.tensors()[i];
    const int64_t rows = t.row_bytes() ? static_cast<int64_t>(t.bytes) / t.row_bytes() : 0;
    bytes += rows * *row_bytes(types[i], t.shape.empty() ? 1 : t.shape.back());
    elements += t.elements();
    tensors.push_back({{"name", t.name}, {"from", type_info(t.type).name}, {"to", type_info(types[i]).name}});
    if (c.is_dry && !c.as_json)
      fmt::print("{}  {} to {}\n", t.name, type_info(t.type).name, type_info(types[i]).name);
  }
  if (!c.is_dry) {
    TensorBar bar("quantising", file);
    quantize_file(file, c.options, std::ref(bar)).write(c.out);
  }
  const double bits = elements ? 8 * static_cast<double>(bytes) / static_cast<double>(elements) : 0;
  if (c.as_json)
    return print_json({{"out", c.is_dry ? Json() : Json(c.out)},
                       {"bytes_before", total_bytes(file)},
                       {"bytes", bytes},
                       {"bits_per_weight", bits},
                       {"tensors", tensors}});
  fmt::print("{} bytes of tensors become {}, {:.2f} bits a weight\n", total_bytes(file), bytes, bits);
}

void add_quantize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Writes a file with weights of other types.");
  auto c = std::make_shared<QuantizeCommand>();
  command->add_option("IN", c->in, "GGUF file, the first one of a split model")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("OUT", c->out, "File to write")->required();
  command->add_option("TYPE", c->options.mix, fmt::format("One of {}", fmt::join(quantize_mixes(), ", ")))
      ->required();
  command->add_option("--output-tensor-type", c->output_type, "Type of the output matrix");
  command->add_option("--token-embedding-type", c->embedding_type, "Type of the token embedding");
  command->add_option("--tensor-type", c->tensor_types,
                      "PATTERN=TYPE: type of weights whose name has a match of the regular expression");
  command->add_flag("--pure", c->options.is_pure, "One type for all weights");
  command->add_flag("--leave-output-tensor", c->options.leaves_output, "Keep the output matrix as it is");
  command->add_flag("--allow-requantize", c->options.allows_requantize, "Also from types that are quantised");
  command->add_flag("--dry-run", c->is_dry, "Only tell what would become of each tensor");
  command->add_flag("--json", c->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe gguf quantize model-f16.gguf model-q4.gguf Q4_K_M\n"
      "  lathe gguf quantize model-f16.gguf model.gguf Q8_0 --tensor-type 'ffn_(up|gate)=Q5_K' --dry-run");
  command->callback([c] { quantize_command(*c); });
}

// ---- convert

struct ConvertCommand {
  std::string in, out, type;
  ConvertOptions options;
  bool as_json = false;
};

void convert_command(ConvertCommand c) {
  if (!c.type.empty()) c.options.type = type_named(c.type);
  convert_model(c.in, c.options).write(c.out);
  const GgufFile file = GgufFile::open(c.out).or_throw();
  const std::string architecture = file.metadata().at<std::string>("general.architecture");
  if (c.as_json)
    return print_json({{"out", c.out},
                       {"architecture", architecture},
                       {"tensors", file.tensors().size()},
                       {"bytes", total_bytes(file)}});
  fmt::print("{} model with {} tensors of {} bytes\n", architecture, file.tensors().size(),
             total_bytes(file));
}

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Makes a GGUF file of a checkpoint of another program.");
  auto c = std::make_shared<ConvertCommand>();
  command
      ->add_option("IN", c->in,
                   "Folder with config.json, tokenizer.json and safetensors, or .bin file of llama2.c")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("OUT", c->out, "File to write")->required();
  command->add_option("--type", c->type,
                      "Type of matrices, such as F16 or Q8_0; the one they have if not given");
  command->add_option("--tokenizer", c->options.tokenizer,
                      "Tokenizer of a llama2.c model; tokenizer.bin beside it");
  command->add_option("--pre", c->options.pre,
                      "How byte BPE cuts texts, by the name in GGUF: llama-bpe, qwen2, …");
  command->add_flag("--json", c->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe gguf convert Qwen3-0.6B model.gguf --type Q8_0\n"
      "  lathe gguf convert stories260K.bin stories.gguf --tokenizer tok512.bin");
  command->callback([c] { convert_command(*c); });
}

}  // namespace

void add_gguf(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gguf", "Shows, checks and makes GGUF files.");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  lathe gguf show model.gguf\n"
      "  lathe gguf check model.gguf\n"
      "  lathe gguf quantize model-f16.gguf model-q4.gguf Q4_K_M\n"
      "  lathe gguf convert Qwen3-0.6B model.gguf --type Q8_0\n"
      "`lathe gguf COMMAND --help` has more of each.");
  add_show(*command);
  add_check(*command);
  add_quantize(*command);
  add_convert(*command);
}

}  // namespace lathe::command
