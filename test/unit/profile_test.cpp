// Profiles: what a run leaves in one, and the limits that it is held against.
#include "engine/profile.h"

#include "base/knobs.h"
#include "base/mmap.h"
#include "engine/counters.h"
#include "lathe/cpu_limits.h"
#include "renderer/target.h"
#include "runtime/cpu/cpu_id.h"
#include "runtime/device.h"
#include "tensor/jit.h"
#include "unit/tensor_check.h"

#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

using namespace lathe;
using namespace lathe::test;

namespace {

using Json = nlohmann::json;

std::vector<Json> of_kind(const Json& events, std::string_view kind) {
  std::vector<Json> out;
  for (const Json& e : events)
    if (e.at("ph") == "X" && e.at("cat") == kind) out.push_back(e);
  return out;
}
double end_of(const Json& e) { return e.at("ts").get<double>() + e.at("dur").get<double>(); }

// The name of the lane that an event is in.
std::string lane(const Json& events, const Json& event) {
  for (const Json& e : events)
    if (e.at("name") == "thread_name" && e.at("pid") == event.at("pid") && e.at("tid") == event.at("tid"))
      return e.at("args").at("name");
  return "no lane";
}

}  // namespace

TEST_CASE("a profile has what was scheduled, compiled, launched and copied") {
  TempDir dir;
  const std::string file = dir.file("profile.json");
  const Tensor x = Tensor::from(std::vector<float>(3 * 61, 2), {3, 61}).realize();
  CHECK(!is_profiling());
  start_profile(file);
  CHECK(is_profiling());
  CHECK(!std::filesystem::exists(file));
  reset_counters();
  CHECK((x * 7).sum(1).to_vector<float>() == std::vector<float>{854, 854, 854});
  check_values((x + 1).contiguous().to("CPU:1").sum(), {549});
  auto f = jit([](const Tensor& a) { return (a * 3).contiguous().sum(0); });
  for (int i = 0; i < 3; i++) f(x);
  std::thread([&] { (x * 5).contiguous().realize(); }).join();
  const Counters ran = counters();
  stop_profile();
  CHECK(!is_profiling());
  (x * 9).contiguous().realize();

  const Json events = Json::parse(read_file(file));
  CHECK(events.at(0).at("args").at("cpu") == cpu_name());
  const auto kernels = of_kind(events, "kernel"), launches = of_kind(events, "launch"),
             compiles = of_kind(events, "compile"), copies = of_kind(events, "copy");
  CHECK(kernels.size() == ran.kernels);
  CHECK(compiles.size() == ran.compiled);
  CHECK(of_kind(events, "schedule").size() == ran.schedules);
  double flops = 0;
  double free_at = 0;
  for (const Json& k : kernels) {
    CHECK(lane(events, k).starts_with("CPU"));
    CHECK(k.at("ts").get<double>() >= free_at - 0.002);  // one after the other; times have three digits
    free_at = end_of(k);
    flops += k.at("args").at("flops").get<double>();
    const bool is_launched = std::ranges::any_of(launches, [&](const Json& l) {
      return l.at("ts").get<double>() <= k.at("ts").get<double>() + 0.002 && end_of(l) >= end_of(k) - 0.002;
    });
    CHECK(is_launched);
  }
  CHECK(flops == ran.flops);
  const Json& first = kernels.at(0).at("args");
  CHECK(first.at("buffers") == Json{"float (3,)", "float (3, 61)"});
  CHECK(first.at("flops").get<double>() >= 3 * 61);
  CHECK(first.at("bytes") == 4 * (3 * 61 + 3));
  CHECK(first.at("actions").is_string());
  REQUIRE(copies.size() == 1);
  CHECK(lane(events, copies[0]) == "CPU:1");
  CHECK(copies[0].at("args").at("bytes") == 4 * 3 * 61);
  CHECK(copies[0].at("args").at("from") == "CPU");
  // The capture and the replay; each kernel of theirs is there by itself.
  CHECK(std::ranges::count_if(launches, [](const Json& l) { return l.at("name") == "replay"; }) == 2);
  std::set<int> threads;
  for (const Json& c : compiles) {
    CHECK(c.at("args").at("device").get<std::string>().starts_with("CPU"));
    CHECK(lane(events, c) != "no lane");
    threads.insert(c.at("tid").get<int>());
  }
  CHECK(threads.size() >= 2);  // the other thread, and those that compile side by side
}

TEST_CASE("names are quoted") {
  CHECK(json_quoted("a\"b\\c\n\x01 \xc3\xa4") == "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa4\"");
}

TEST_CASE("another profile ends the one before, and one that cannot be written is an error") {
  TempDir dir;
  start_profile(dir.file("a"));
  start_profile(dir.file("b"));
  profile_event("kernel", "k", now_seconds(), 1e-3, "", "DEVICE");
  stop_profile();
  stop_profile();
  CHECK(of_kind(Json::parse(read_file(dir.file("a"))), "kernel").empty());
  const Json events = Json::parse(read_file(dir.file("b")));
  REQUIRE(of_kind(events, "kernel").size() == 1);
  CHECK(lane(events, of_kind(events, "kernel")[0]) == "DEVICE");
  CHECK(contains(user_error([] { start_profile("/no/such/folder/p"); }).what(), "/no/such/folder/p"));
  CHECK(!is_profiling());
}

TEST_CASE("a child process leaves the profile to its parent") {
  TempDir dir;
  start_profile(dir.file("p"));
  const pid_t child = fork();
  if (child == 0) {
    profile_event("kernel", "of the child", now_seconds(), 0, "");
    stop_profile();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(!std::filesystem::exists(dir.file("p")));
  profile_event("kernel", "of the parent", now_seconds(), 0, "");
  stop_profile();
  const auto kernels = of_kind(Json::parse(read_file(dir.file("p"))), "kernel");
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].at("name") == "of the parent");
}

TEST_CASE("the limits of the processor are measured once and kept") {
  TempDir dir;
  KnobScope level(Knob::CACHELEVEL, 2), file(Knob::CACHEDB, dir.file("kernels.db"));
  KnobScope threads(Knob::CPU_COUNT, 1);
  const double start = now_seconds();
  const CpuLimits measured = cpu_limits();
  const double took = now_seconds() - start;
  CHECK(measured.threads == 1);
  const bool has_fma = device("CPU").target().has_fma;
  CHECK((measured.peaks[0].flops > 1e8) == has_fma);
  CHECK((measured.peaks[1].flops > 1e8) == has_fma);
  CHECK(measured.read_bytes > 1e8);
  const double again = now_seconds();
  const CpuLimits kept = cpu_limits();
  CHECK(now_seconds() - again < took);
  CHECK(kept.read_bytes == measured.read_bytes);
  for (size_t i = 0; i < kept.peaks.size(); i++) CHECK(kept.peaks[i].flops == measured.peaks[i].flops);
  CHECK(cpu_limits(true).read_bytes != measured.read_bytes);
}
