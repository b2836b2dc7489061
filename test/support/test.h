#pragma once

// The header of a doctest file; include it after all others, because it redefines CHECK.

#include "base/error.h"

#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace lathe::test {

// Says why the rest of this test case cannot run here; the caller returns. A ctest of which every test case
// was skipped counts as skipped.
void skip(std::string_view reason);

// A fresh folder, removed with what is in it at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The error that `f` throws, for the kind and the text of it; fails the test when it throws none or another.
template <class E, class F>
E thrown(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error;
  }
  FAIL("no error was thrown");
  throw 0;  // FAIL has left already
}

inline UserError user_error(auto&& f) { return thrown<UserError>(f); }

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace lathe::test
