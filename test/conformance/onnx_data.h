#pragma once

// The conformance data of ONNX: an archive in the data folder, unpacked for the life of this object.

#include "formats/onnx/check.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "support/data.h"
#include "support/test.h"

namespace lathe::test {

class OnnxData {
 public:
  explicit OnnxData(const std::filesystem::path& archive_folder) {
    const auto archive = archive_folder / "onnx-1.22.0-backend-testdata.tar.xz";
    const std::string command = fmt::format("tar -xJf '{}' -C '{}'", archive.string(), dir_.path().string());
    REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
  }
  std::filesystem::path root() const { return dir_.path() / "onnx/backend/test/data"; }

 private:
  TempDir dir_;
};

// The cases that are known to fail: a line "set/name: reason" each; # starts a comment.
inline std::map<std::string, std::string> known_failures() {
  std::map<std::string, std::string> out;
  std::ifstream in("test/conformance/onnx_known_failures.txt");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("#") || colon == std::string::npos) continue;
    out[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return out;
}

// Runs the cases of one set; each must pass exactly if it is not among the known failures.
inline void check_set(const OnnxData& data, const std::string& set, size_t expected_cases) {
  const auto known = known_failures();
  const auto cases = onnx::find_cases((data.root() / set).string());
  CHECK(cases.size() == expected_cases);
  size_t passed = 0, listed = 0;
  for (const auto& [name, reason] : known) listed += name.starts_with(set + "/");
  for (const std::string& folder : cases) {
    const onnx::CheckedCase c = onnx::check_case(folder);
    const std::string name = set + "/" + c.name;
    const bool ok = c.outcome == onnx::CheckedCase::Outcome::Passed;
    passed += ok;
    if (known.count(name)) {
      CHECK_MESSAGE(!ok, name << " passes: take it off the list of known failures");
    } else {
      CHECK_MESSAGE(ok, name << ": " << c.reason);
    }
  }
  MESSAGE(set << ": " << passed << " of " << cases.size() << " pass, " << listed << " are known to fail");
  CHECK(passed + listed == cases.size());  // no line of the list names a case that is not there
}

}  // namespace lathe::test
