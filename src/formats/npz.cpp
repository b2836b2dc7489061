#include "formats/npz.h"

#include "base/mmap.h"
#include "formats/npy.h"

#include <memory>
#include <unordered_set>

namespace lathe {
namespace {

constexpr std::string_view kSuffix = ".npy";

}  // namespace

NamedTensors load_npz(const FileData& file, const std::vector<ZipEntry>& entries, const std::string& device) {
  NamedTensors out;
  for (const ZipEntry& e : entries) {
    if (!e.name.ends_with(kSuffix)) continue;
    const std::string name = e.name.substr(0, e.name.size() - kSuffix.size());
    ErrorContext context([&] { return fmt::format("loading `{}` of {}", e.name, file.name()); });
    if (e.is_deflated) {
      auto content = std::make_shared<std::string>(unzip(file.bytes(), e, file.name()).or_throw());
      out.emplace_back(name, load_npy(file.with(std::move(content)), name, device));
    } else {
      check_crc(e, e.data(file.bytes()), file.name()).or_throw();
      out.emplace_back(name, load_npy(file.part(e.data_at, e.data_bytes), name, device));
    }
  }
  return out;
}

NamedTensors load_npz(const std::string& path, const std::string& device) {
  const FileData file(path);
  return load_npz(file, parse_zip(file.bytes(), path).or_throw(), device);
}

void save_npz(const NamedTensors& tensors, const std::string& path, const NpzOptions& options) {
  ErrorContext context([&] { return fmt::format("saving {}", path); });
  std::vector<Tensor> all;
  std::vector<std::string> headers;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, t] : tensors) {
    if (!names.insert(name).second) value_error("cannot save two tensors as `{}`", name);
    ErrorContext tensor([&] { return fmt::format("saving tensor `{}`", name); });
    headers.push_back(npy_header(t));
    all.push_back(t);
  }
  Tensor::realize(all);
  write_file_atomically(path, [&](FileWriter& out) {
    ZipWriter zip(out);
    for (size_t i = 0; i < all.size(); i++) {
      const std::vector<std::byte> data = all[i].bytes();
      std::string content = std::move(headers[i]);
      content.append(reinterpret_cast<const char*>(data.data()), data.size());
      zip.add(tensors[i].first + std::string(kSuffix), std::as_bytes(std::span(content)), options.compressed);
    }
    zip.finish();
  });
}

}  // namespace lathe
