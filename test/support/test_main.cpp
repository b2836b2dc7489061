#define DOCTEST_CONFIG_IMPLEMENT
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "support/data.h"
#include "support/test.h"

namespace lathe::test {
namespace {

constexpr int kSkipped = 77;  // what ctest takes for skipped

std::string g_case;
std::set<std::string> g_skipped;
unsigned g_cases = 0;

// Watches which test case runs, so that skip() knows its name.
struct CaseListener : doctest::IReporter {
  explicit CaseListener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    g_cases = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& data) override { g_case = data.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("case", 1, CaseListener);

}  // namespace

void skip(std::string_view reason) {
  g_skipped.insert(g_case);
  std::printf("skipped: %s: %.*s\n", g_case.c_str(), static_cast<int>(reason.size()), reason.data());
}

std::optional<std::filesystem::path> data_folder(std::string_view name) {
  const char* given = std::getenv("LATHE_DATA");
  // Tests run in the root of the source tree.
  const std::filesystem::path folder =
      std::filesystem::path(given != nullptr ? given : "../shared/data") / name;
  if (std::filesystem::is_directory(folder)) return folder;
  skip("../shared/data not found");
  return std::nullopt;
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "lathe-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) user_runtime_error("cannot create {}", name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lathe::test

int main(int argc, char** argv) {
  using namespace lathe::test;
  for (int i = 1; i < argc; i++)
    if (std::string_view(argv[i]) == "--update")
      ::setenv("GOLDEN_UPDATE", "1", 1);  // golden files are rewritten
  doctest::Context context(argc, argv);
  int code = context.run();
  if (context.shouldExit() || code != 0) return code;
  return g_cases > 0 && g_skipped.size() == g_cases ? kSkipped : code;
}
