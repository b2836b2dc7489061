#include "base/mmap.h"

#include <stdexcept>

#include "support/test.h"

using namespace lathe;
using test::contains;
using test::user_error;

namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("what is written is read and mapped") {
  test::TempDir dir;
  std::string path = dir.file("data");
  std::string large(300'000, 'x');
  write_file_atomically(path, [&](FileWriter& out) {
    out.write("head ");
    out.write(large);
    CHECK(out.offset() == large.size() + 5);
    out.write(" tail");
  });
  CHECK(read_file(path) == "head " + large + " tail");
  MappedFile file(path);
  CHECK(file.size() == large.size() + 10);
  CHECK(file.text().substr(0, 6) == "head x");
  MappedFile moved = std::move(file);
  CHECK(file.size() == 0);
  std::filesystem::remove(path);
  CHECK(moved.text().ends_with(" tail"));
  moved = MappedFile();
  CHECK(moved.bytes().empty());
}

TEST_CASE("an empty file maps to no bytes") {
  test::TempDir dir;
  write_file_atomically(dir.file("empty"), std::string_view());
  CHECK(MappedFile(dir.file("empty")).size() == 0);
  CHECK(read_file(dir.file("empty")).empty());
}

TEST_CASE("a file survives a writer that throws") {
  test::TempDir dir;
  std::string path = dir.file("state");
  write_file_atomically(path, std::string_view("old"));
  auto broken = [](FileWriter& out) {
    out.write("new and incomplete");
    throw std::runtime_error("out of ideas");
  };
  CHECK_THROWS_WITH_AS(write_file_atomically(path, broken), "out of ideas", std::runtime_error);
  CHECK(read_file(path) == "old");
  CHECK(files_in(dir.path()) == 1);
  write_file_atomically(path, std::string_view("new"));
  CHECK(read_file(path) == "new");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("errors name the path and the reason") {
  test::TempDir dir;
  std::string missing = dir.file("missing");
  auto error = user_error([&] { MappedFile file(missing); });
  CHECK(error.kind() == UserError::Kind::Runtime);
  CHECK(std::string(error.what()) == "cannot open " + missing + ": No such file or directory");
  CHECK(contains(user_error([&] { read_file(dir.path().string()); }).what(), "Is a directory"));
  CHECK(contains(user_error([&] { MappedFile file(dir.path().string()); }).what(), "Is a directory"));
  std::string nowhere = dir.file("no/such/folder");
  CHECK(contains(user_error([&] { write_file_atomically(nowhere, std::string_view("x")); }).what(), nowhere));
}

TEST_CASE("files without a size are read to their end") {
  if (!std::filesystem::exists("/proc/self/status")) return test::skip("no /proc");
  CHECK(contains(read_file("/proc/self/status"), "Pid:"));
  CHECK_THROWS_AS(MappedFile("/dev/null"), UserError);
}
