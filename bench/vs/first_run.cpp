// The first forward pass of a process, with an empty kernel cache (cold) and with what that run left there
// (warm): seconds from weights and input in memory to the result. Every run is a process of this program.
#include "base/clock.h"
#include "models.h"
#include "workload.h"

#include <fmt/ranges.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace bench {
namespace {

constexpr int kTries = 3;

// Seconds of the forward pass and of the whole process, from what the process prints and takes.
std::array<double, 2> run_process(const std::string& model, const std::string& cache, int threads) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("CACHEDB='{}' CPU_COUNT={} '{}' --first-run {}", cache, threads, program, model);
  const double start = lathe::now_seconds();
  FILE* out = popen(command.c_str(), "r");
  require(out != nullptr, "cannot start {}", program);
  double seconds = 0;
  const bool is_read = std::fscanf(out, "%lf", &seconds) == 1;
  require(pclose(out) == 0 && is_read, "{} failed", command);
  return {seconds, lathe::now_seconds() - start};
}

void first_run(const Request& request, const std::string& name, const std::string& model) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  std::array<std::vector<double>, 2> first, whole;  // cold, warm
  for (int i = 0; i < kTries; i++) {
    const std::filesystem::path cache = folder / fmt::format("lathe_first_run_{}.db", getpid());
    for (const size_t is_warm : {0, 1}) {
      const auto [seconds, process] = run_process(model, cache, request.threads);
      first[is_warm].push_back(seconds);
      whole[is_warm].push_back(process);
    }
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(cache.string() + part);
  }
  for (const size_t is_warm : {0, 1})
    report(request, name + (is_warm ? "_warm" : "_cold"), first[is_warm],
           fmt::format(R"(,"process_s":[{:.4g}])", fmt::join(whole[is_warm], ",")));
}

template <class Model>
int time_first(const Model& model, const lathe::Shape& shape) {
  Tensor::realize(nn::parameters(model));
  const Tensor input = random_values(shape);
  const double start = lathe::now_seconds();
  const std::vector<float> result = model(input).template to_vector<float>();
  const double seconds = lathe::now_seconds() - start;
  for (const float value : result)
    if (!std::isfinite(value)) return 1;
  fmt::print("{:.6f}\n", seconds);
  return 0;
}

}  // namespace

std::vector<Workload> first_runs() {
  std::vector<Workload> out;
  for (const char* model : {"resnet18", "llama_block"})
    out.push_back({fmt::format("first_run_{}", model),
                   [model](const Request& r, const std::string& name) { first_run(r, name, model); }});
  return out;
}

int first_run_in_this_process(const std::string& model) {
  return model == "resnet18" ? time_first(ResNet18(), {1, 3, 224, 224})
                             : time_first(LlamaBlock(LlamaShape()), {1, 128, 2048});
}

}  // namespace bench
