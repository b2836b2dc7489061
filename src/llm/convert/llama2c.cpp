// Models of llama2.c (version 0): seven int32 sizes, then float32 arrays, each for all layers together.
#include "archive/little_endian.h"
#include "formats/file_data.h"
#include "formats/gguf/quantize.h"
#include "llm/convert/convert.h"

#include <cstring>
#include <filesystem>

namespace lathe {
namespace {

constexpr size_t kHeader = 28;
constexpr int64_t kMostSize = 1 << 20;

struct Sizes {
  int64_t dim, hidden, layers, heads, kv_heads, tokens, positions;
  bool is_tied;
  int64_t kv_dim() const { return dim / heads * kv_heads; }
};

Sizes read_sizes(const FileData& file) {
  if (file.bytes().size() < kHeader)
    value_error("{}: a file of {} bytes is no llama2.c model", file.name(), file.bytes().size());
  const auto number = [&](size_t i) {
    return int64_t{static_cast<int32_t>(read_little_endian(file.bytes(), 4 * i, 4))};
  };
  // A negative number of tokens says that the output matrix is one of its own.
  Sizes s{number(0), number(1),           number(2), number(3),
          number(4), std::abs(number(5)), number(6), number(5) > 0};
  for (const int64_t n : {s.dim, s.hidden, s.layers, s.heads, s.kv_heads, s.tokens, s.positions})
    if (n < 1 || n > kMostSize)
      value_error("{}: offset 0: a size of {} is not in 1 to {}; this is no llama2.c model", file.name(), n,
                  kMostSize);
  if (s.dim % s.heads || s.heads % s.kv_heads)
    value_error("{}: offset 12: {} heads and {} for keys do not go into {}", file.name(), s.heads, s.kv_heads,
                s.dim);
  return s;
}

// Arrays of all layers, in the order of the file.
struct Array {
  const char* name;       // of blk.N; whole names without layers
  int64_t rows, columns;  // rows 0: a vector
  bool has_layers = true;
};

}  // namespace

GgufWriter convert_llama2c(const std::string& path, const ConvertOptions& options) {
  const FileData file(path);
  const Sizes s = read_sizes(file);
  std::vector<Array> arrays = {
      {"token_embd", s.tokens, s.dim, false},
      {"attn_norm", 0, s.dim},
      {"attn_q", s.dim, s.dim},
      {"attn_k", s.kv_dim(), s.dim},
      {"attn_v", s.kv_dim(), s.dim},
      {"attn_output", s.dim, s.dim},
      {"ffn_norm", 0, s.dim},
      {"ffn_gate", s.hidden, s.dim},
      {"ffn_down", s.dim, s.hidden},
      {"ffn_up", s.hidden, s.dim},
      {"output_norm", 0, s.dim, false},
      {"", s.positions, s.dim / s.heads, false},  // cosines and sines of RoPE
  };
  if (!s.is_tied) arrays.push_back({"output", s.tokens, s.dim, false});

  GgufWriter out;
  out.set("general.architecture", "llama");
  out.set("general.name", std::filesystem::path(path).stem().string());
  const auto set = [&](const char* key, int64_t v) {
    out.set(std::string("llama.") + key, static_cast<uint32_t>(v));
  };
  set("context_length", s.positions);
  set("embedding_length", s.dim);
  set("feed_forward_length", s.hidden);
  set("block_count", s.layers);
  set("attention.head_count", s.heads);
  set("attention.head_count_kv", s.kv_heads);
  set("rope.dimension_count", s.dim / s.heads);
  out.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  out.set("llama.rope.freq_base", 10000.0f);
  const std::string beside = (std::filesystem::path(path).parent_path() / "tokenizer.bin").string();
  add_llama2c_tokenizer(options.tokenizer.empty() ? beside : options.tokenizer, s.tokens, out.metadata());

  size_t at = kHeader;
  for (const Array& a : arrays)
    for (int64_t layer = 0; layer < (a.has_layers ? s.layers : 1); layer++) {
      const auto bytes = static_cast<uint64_t>(std::max<int64_t>(a.rows, 1) * a.columns) * sizeof(float);
      if (bytes > file.bytes().size() - at)
        value_error("{}: offset {}: the file ends inside of array `{}`, which has {} bytes", path, at, a.name,
                    bytes);
      const std::string name =
          a.has_layers ? fmt::format("blk.{}.{}.weight", layer, a.name) : fmt::format("{}.weight", a.name);
      const GgmlType type = !a.rows || !options.type              ? GgmlType::F32
                            : row_bytes(*options.type, a.columns) ? *options.type
                                                                  : GgmlType::F16;
      const FileData part = file.part(at, static_cast<size_t>(bytes));
      if (*a.name)
        out.add(name, a.rows ? std::vector<int64_t>{a.rows, a.columns} : std::vector<int64_t>{a.columns},
                type, [part, type, columns = a.columns] {
                  std::vector<float> values(part.bytes().size() / sizeof(float));
                  std::memcpy(values.data(), part.bytes().data(), part.bytes().size());
                  return quantize(values, columns, type);
                });
      at += static_cast<size_t>(bytes);
    }
  if (at != file.bytes().size())
    value_error("{}: offset {}: {} bytes follow the last array; only version 0 of llama2.c can be read", path,
                at, file.bytes().size() - at);
  return out;
}

}  // namespace lathe
