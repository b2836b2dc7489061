#include "formats/safetensors.h"

#include "archive/little_endian.h"
#include "base/mmap.h"
#include "formats/safetensors_header.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace lathe {
namespace {

constexpr size_t kLengthBytes = 8;
// The limit of the format's own implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string shape_text(const std::vector<int64_t>& shape) {
  return to_string(Shape(shape.begin(), shape.end()));
}

// Why the byte range is not what dtype and shape need; "" when it is.
std::string size_problem(const SafetensorsEntry& e) {
  if (e.end < e.begin) return fmt::format("data_offsets {} and {} are not in order", e.begin, e.end);
  if (const auto bytes = data_bytes(e.dtype, e.shape); bytes != e.end - e.begin)
    return fmt::format("{} of shape {} needs {} bytes, its data_offsets hold {}", dtype_full_name(e.dtype),
                       shape_text(e.shape), bytes ? std::to_string(*bytes) : "2^64 or more", e.end - e.begin);
  return "";
}

// Ranges must follow one another from 0 to the end of the data. Turns them into bytes of the file.
Result<void> check_ranges(SafetensorsHeader& header, uint64_t data_at, uint64_t file_bytes,
                          std::string_view where) {
  std::vector<size_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const SafetensorsEntry &x = header.tensors[a], &y = header.tensors[b];
    return std::tie(x.begin, x.end, a) < std::tie(y.begin, y.end, b);
  });
  const uint64_t data_bytes = file_bytes - data_at;
  auto error = [&](uint64_t at, std::string text) {
    return ParseError{std::move(text), static_cast<size_t>(data_at + std::min(at, data_bytes)),
                      std::string(where)};
  };
  uint64_t reached = 0;
  for (size_t i : order) {
    SafetensorsEntry& e = header.tensors[i];
    if (const std::string problem = size_problem(e); !problem.empty())
      return error(e.begin, fmt::format("tensor `{}`: {}", e.name, problem));
    if (e.end > data_bytes)
      return error(e.begin,
                   fmt::format("tensor `{}`: data_offsets {} to {}, but the file has {} bytes of data",
                               e.name, e.begin, e.end, data_bytes));
    if (e.begin != reached)
      return error(e.begin,
                   fmt::format("tensor `{}`: its data {} that of the tensor before, which ends at {}", e.name,
                               e.begin < reached ? "overlaps" : "leaves a gap after", reached));
    reached = e.end;
    e.begin += data_at;
    e.end += data_at;
  }
  if (reached != data_bytes)
    return error(reached, fmt::format("{} bytes of data belong to no tensor", data_bytes - reached));
  return {};
}

std::string json_text(const nlohmann::json& text) {
  try {
    return text.dump();
  } catch (const nlohmann::json::type_error&) {
    value_error("a name or a metadata text is not valid UTF-8");
  }
}

std::vector<int64_t> saved_shape(const std::string& name, const Tensor& t) {
  std::vector<int64_t> out;
  for (const SInt& size : t.shape()) {
    if (!size.is_const())
      value_error("tensor `{}`: cannot save the symbolic shape {}", name, to_string(t.shape()));
    out.push_back(size.value());
  }
  return out;
}

std::string make_header(const NamedTensors& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += R"("__metadata__":)" + json_text(metadata);
  std::unordered_set<std::string_view> names;
  int64_t reached = 0;
  for (const auto& [name, t] : tensors) {
    if (name == "__metadata__" || !names.insert(name).second)
      value_error("cannot save {} as `{}`", name == "__metadata__" ? "a tensor" : "two tensors", name);
    if (is_weak(t.dtype()))
      value_error("safe_save requires concrete dtypes, tensor `{}` has dtypes.{}", name,
                  dtype_name(t.dtype()));
    const auto dtype = safetensors_dtype_name(t.dtype());
    if (!dtype) value_error("tensor `{}`: safetensors has no dtype for {}", name, dtype_full_name(t.dtype()));
    const std::vector<int64_t> shape = saved_shape(name, t);
    const int64_t end = reached + t.nbytes().value();
    text +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "",
                    json_text(name), *dtype, nlohmann::json(shape).dump(), reached, end);
    reached = end;
  }
  text += "}";
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file, std::string_view where) {
  auto error = [&](size_t at, std::string text) {
    return ParseError{std::move(text), at, std::string(where)};
  };
  if (file.size() < kLengthBytes)
    return error(file.size(), fmt::format("a file of {} bytes has no safetensors header", file.size()));
  const uint64_t length = read_little_endian(file, 0, kLengthBytes);
  if (length > file.size() - kLengthBytes)
    return error(0, fmt::format("the header's length is {}, but only {} bytes follow", length,
                                file.size() - kLengthBytes));
  if (length > kMaxHeaderBytes)
    return error(0, fmt::format("the header's length is {}, more than {}", length, kMaxHeaderBytes));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  if (text.empty() || text[0] != '{') return error(kLengthBytes, "the header does not start with '{'");
  LATHE_TRY(header, parse_safetensors_json(text, kLengthBytes, where));
  LATHE_TRY_DO(check_ranges(header, kLengthBytes + length, file.size(), where));
  return std::move(header);
}

NamedTensors safe_load(const FileData& file, const SafetensorsHeader& header, const std::string& device) {
  NamedTensors out;
  for (const SafetensorsEntry& e : header.tensors)
    out.emplace_back(e.name, file.tensor(file.bytes().subspan(static_cast<size_t>(e.begin),
                                                              static_cast<size_t>(e.end - e.begin)),
                                         e.shape, e.dtype, device, e.name));
  return out;
}

NamedTensors safe_load(const std::string& path, const std::string& device) {
  const FileData file(path);
  return safe_load(file, parse_safetensors_header(file.bytes(), path).or_throw(), device);
}

Metadata safe_load_metadata(const std::string& path) {
  return parse_safetensors_header(FileData(path).bytes(), path).or_throw().metadata;
}

void safe_save(const NamedTensors& tensors, const std::string& path, const Metadata& metadata) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  const std::string header = make_header(tensors, metadata);
  std::vector<Tensor> all;
  for (const auto& [name, t] : tensors) all.push_back(t);
  Tensor::realize(all);
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(little_endian(header.size(), kLengthBytes));
    out.write(header);
    for (const Tensor& t : all) out.write(t.bytes());
  });
}

}  // namespace lathe
