#include "engine/profile.h"

#include "base/knobs.h"
#include "base/log.h"
#include "base/mmap.h"
#include "base/thread_pool.h"
#include "runtime/cpu/cpu_id.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace lathe {
namespace {

constexpr int kHost = 1, kDevices = 2;  // lanes are threads of these two processes of the viewer
constexpr double kFlushSeconds = 0.1;

// Never destroyed: threads may still run kernels while the process exits.
struct Profile {
  std::atomic<bool> is_open{false};
  std::mutex mutex;  // guards the rest
  std::string path;
  std::optional<AtomicFile> file;
  pid_t process = 0;
  double start = 0, flushed = 0;
  std::set<int> threads;
  std::map<std::string, int, std::less<>> devices;

  // Runs `write`. A child of a fork has a copy of the file's buffer, but the file is its parent's.
  template <class F>
  void record(F&& write) {
    std::lock_guard lock(mutex);
    if (!file || ::getpid() != process) return;
    try {
      write();
    } catch (const std::exception& error) {
      is_open = false;
      file.reset();
      log_warn("the profile {} ends here: {}", path, error.what());
    }
  }
  void name_lane(int group, int lane, std::string_view name) {
    file->out().write(
        fmt::format(",\n"
                    R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                    group, lane, json_quoted(name)));
  }
  int thread_lane() {
    static std::atomic<int> count{0};
    thread_local const int number = count.fetch_add(1);
    if (threads.insert(number).second) {
      char name[16] = "";
      pthread_getname_np(pthread_self(), name, sizeof name);
      name_lane(kHost, number, name);
    }
    return number;
  }
  int device_lane(std::string_view device) {
    if (const auto it = devices.find(device); it != devices.end()) return it->second;
    const int number = static_cast<int>(devices.size());
    devices.emplace(device, number);
    name_lane(kDevices, number, device);
    return number;
  }
};

Profile& profile() {
  static auto* const one = new Profile;
  return *one;
}

void open_profile(const std::string& path) {
  stop_profile();
  Profile& p = profile();
  std::lock_guard lock(p.mutex);
  p.file.emplace(path);
  p.path = path;
  p.process = ::getpid();
  p.start = p.flushed = now_seconds();
  p.threads.clear();
  p.devices.clear();
  p.file->out().write(fmt::format(R"([
{{"ph":"M","pid":{},"name":"machine","args":{{"cpu":{},"threads":{}}}}},
{{"ph":"M","pid":{},"name":"process_name","args":{{"name":"host"}}}},
{{"ph":"M","pid":{},"name":"process_name","args":{{"name":"devices"}}}})",
                                  kHost, json_quoted(cpu_name()), cpu_count(), kHost, kDevices));
  [[maybe_unused]] static const int at_exit = std::atexit(stop_profile);
  p.is_open = true;
}

}  // namespace

void start_profile(const std::string& path) {
  is_profiling();  // what the knob names comes first
  open_profile(path);
}

bool is_profiling() {
  static const bool is_read = [] {
    if (const std::string& path = knob_str(Knob::PROFILE); !path.empty()) open_profile(path);
    return true;
  }();
  return is_read && profile().is_open.load(std::memory_order_relaxed);
}

void stop_profile() {
  Profile& p = profile();
  p.record([&] {
    p.is_open = false;
    p.file->out().write("\n]\n");
    p.file->commit();
    p.file.reset();
  });
}

void profile_event(std::string_view kind, std::string_view name, double start, double seconds,
                   std::string_view args, std::string_view device) {
  Profile& p = profile();
  p.record([&] {
    const int lane = device.empty() ? p.thread_lane() : p.device_lane(device);
    p.file->out().write(fmt::format(
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":{},"name":{},"args":{{{}}}}})",
        device.empty() ? kHost : kDevices, lane, (start - p.start) * 1e6, seconds * 1e6, json_quoted(kind),
        json_quoted(name), args));
    if (const double end = start + seconds; end - p.flushed > kFlushSeconds) {
      p.file->out().flush();
      p.flushed = end;
    }
  });
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out += c;
  }
  return out + '"';
}

}  // namespace lathe
