#include "runtime/device.h"

#include "base/error.h"
#include "base/knobs.h"
#include "runtime/backends.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>

namespace lathe {
namespace {

using MakeDevice = std::unique_ptr<Device> (*)(std::string name, std::string_view renderer);

// Adding a back end is one folder and one row. The first renderer is the default; none: programs run as they
// are.
struct DeviceKind {
  std::string_view name;
  std::vector<std::string_view> renderers;
  MakeDevice make;
  bool is_real;  // ALLOW_DEVICE_USAGE guards it
};

std::span<const DeviceKind> device_kinds() {
  static const std::vector<DeviceKind> kKinds = {
      {"CPU", {"LLVM", "C"}, make_cpu_device, true},
      {"CL", {"OPENCL"}, make_opencl_device, true},
      {"INTERP", {}, make_interp_device, false},
      {"NULL", {"LLVM", "C", "OPENCL"}, make_null_device, true},
  };
  return kKinds;
}

constexpr std::string_view kDisk = "DISK:";

struct ParsedName {
  const DeviceKind* kind;
  std::string_view renderer;  // "" where the kind has none
  int index;
  std::string canonical;
};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

[[noreturn]] void unknown_device(std::string_view name) {
  std::string known;
  for (const std::string& one : known_devices()) known += (known.empty() ? "" : ", ") + one;
  value_error("unknown device \"{}\"; known: {}, each also with an index, as in CPU:1, and DISK:PATH", name,
              known);
}

std::optional<int> parse_index(std::string_view text) {
  constexpr size_t kMaxDigits = 6;
  unsigned value = 0;  // has no sign in text
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && text.size() <= kMaxDigits ? std::optional(static_cast<int>(value)) : std::nullopt;
}

ParsedName parse_name(std::string_view name) {
  if (upper(name.substr(0, kDisk.size())) == kDisk && name.size() > kDisk.size()) {
    const auto path = std::filesystem::absolute(name.substr(kDisk.size())).lexically_normal();
    return {&device_kinds()[0], "LLVM", 0, std::string(kDisk) + path.string()};
  }
  std::vector<std::string> parts;
  for (size_t at = 0; at <= name.size();) {
    size_t end = std::min(name.find(':', at), name.size());
    parts.push_back(upper(name.substr(at, end - at)));
    at = end + 1;
  }
  auto kinds = device_kinds();
  auto kind = std::ranges::find(kinds, std::string_view(parts[0]), &DeviceKind::name);
  if (kind == kinds.end()) unknown_device(name);
  ParsedName out{&*kind, kind->renderers.empty() ? "" : kind->renderers[0], 0, parts[0]};
  bool has_renderer = false, has_index = false;
  for (size_t i = 1; i < parts.size(); i++) {
    auto renderer = std::ranges::find(kind->renderers, std::string_view(parts[i]));
    std::optional<int> index = parse_index(parts[i]);
    if (renderer != kind->renderers.end() && !has_renderer) {
      has_renderer = true;
      out.renderer = *renderer;
    } else if (index && !has_index) {
      has_index = true;
      out.index = *index;
    } else {
      unknown_device(name);
    }
  }
  if (!out.renderer.empty() && out.renderer != kind->renderers[0])
    out.canonical += fmt::format(":{}", out.renderer);
  if (out.index) out.canonical += fmt::format(":{}", out.index);
  return out;
}

// Devices live as long as the process: buffers in static storage may outlive any destructor of ours.
struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, Device*, std::less<>> by_name;  // canonical names and every spelling asked for
};
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace

std::string canonical_device_name(std::string_view name) { return parse_name(name).canonical; }

Device& device(std::string_view name) {
  Registry& all = registry();
  {
    std::shared_lock lock(all.mutex);
    auto found = all.by_name.find(name);
    if (found != all.by_name.end()) return *found->second;
  }
  ParsedName parsed = parse_name(name);
  if (parsed.kind->is_real && !is_disk(parsed.canonical) && knob(Knob::ALLOW_DEVICE_USAGE) == 0)
    user_runtime_error("usage of device {} disallowed (ALLOW_DEVICE_USAGE is 0)", parsed.canonical);
  std::unique_lock lock(all.mutex);
  auto found = all.by_name.find(parsed.canonical);
  if (found == all.by_name.end())
    found =
        all.by_name.emplace(parsed.canonical, parsed.kind->make(parsed.canonical, parsed.renderer).release())
            .first;
  return *all.by_name.emplace(name, found->second).first->second;
}

bool is_disk(std::string_view name) { return name.starts_with(kDisk); }

Device& default_device() {
  std::string_view wanted = knob_str(Knob::DEV);
  wanted = wanted.substr(0, wanted.find(';'));
  return device(wanted.empty() ? "CPU" : wanted);
}

std::vector<std::string> known_devices() {
  std::vector<std::string> names;
  for (const DeviceKind& kind : device_kinds()) {
    names.emplace_back(kind.name);
    for (size_t i = 1; i < kind.renderers.size(); i++)
      names.push_back(fmt::format("{}:{}", kind.name, kind.renderers[i]));
  }
  return names;
}

}  // namespace lathe
