// Containers of bytes; gzip is tested with the data sets that use it.
#include "archive/deflate.h"
#include "archive/tar.h"
#include "archive/zip.h"
#include "base/mmap.h"

#include "support/test.h"
#include "support/zip_of.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::string corpus(std::string_view name) {
  return std::string(LATHE_SOURCE_DIR) + "/test/fuzz/corpus/" + std::string(name);
}

}  // namespace

TEST_CASE("zip archives, stored, deflated and of 64 bits") {
  const std::string text(100'000, 'x');
  for (bool deflated : {false, true})
    for (uint64_t from : {uint64_t{0}, uint64_t{0xffffffff}}) {
      const std::string file = zip_of({{"a", text}, {"b/c", ""}}, deflated, from);
      CHECK((file.size() < text.size()) == deflated);
      const auto entries = parse_zip(bytes_of(file), "z");
      REQUIRE(entries.ok());
      REQUIRE(entries.value().size() == 2);
      CHECK(entries.value()[1].name == "b/c");
      CHECK(unzip(bytes_of(file), entries.value()[0], "z").value() == text);
      CHECK(unzip(bytes_of(file), entries.value()[1], "z").value().empty());
    }
}

TEST_CASE("zip archives of others, and what is wrong with them") {
  const auto problem = [](std::string_view name) {
    const std::string file = read_file(corpus(name));
    const auto entries = parse_zip(bytes_of(file), "z");
    if (!entries.ok()) return entries.error().text;
    for (const ZipEntry& e : entries.value())
      if (const auto content = unzip(bytes_of(file), e, "z"); !content.ok()) return content.error().text;
    return std::to_string(entries.value().size());
  };
  CHECK(problem("zip/npz_stored") == "2");
  CHECK(problem("zip/npz_deflated") == "2");
  CHECK(problem("zip/zip64") == "1");
  CHECK(problem("zip/commented") == "2");
  CHECK(problem("zip/folder") == "1");
  CHECK(problem("zip/none") == "0");
  CHECK(problem("zip/bzip2") ==
        "`a.npy` is packed by method 12; only stored and deflated entries can be read");
  CHECK(problem("zip/encrypted") == "`a.npy` is encrypted");
  CHECK(problem("zip/bad_crc") == "the content of `a.npy` does not match its CRC");
  CHECK(problem("zip/twice") == "the name `a` occurs twice");
  CHECK(problem("zip/cut") == "no zip archive: the record at its end is missing or cut off");
}

TEST_CASE("tar archives") {
  const auto names = [](std::string_view name) {
    const std::string file = read_file(corpus(name));
    const auto entries = parse_tar(bytes_of(file), "t");
    if (!entries.ok()) return std::vector<std::string>{entries.error().text};
    std::vector<std::string> out;
    for (const TarEntry& e : entries.value()) out.push_back(e.name + "=" + file.substr(e.data_at, e.size));
    return out;
  };
  using List = std::vector<std::string>;
  std::string folders, umlauts;
  for (int i = 0; i < 60; i++) folders += "d/";
  for (int i = 0; i < 80; i++) umlauts += "ü";
  CHECK(names("tar/ustar") == List{"d/a=abc", folders + "file=x"});
  CHECK(names("tar/pax") == List{umlauts + "=abc"});
  CHECK(names("tar/gnu") == List{std::string(150, 'n') + "=abc"});
  CHECK(names("tar/base256") == List{"a=abc"});
  CHECK(names("tar/checksum") == List{"the checksum of a tar header is wrong"});
  CHECK(test::contains(names("tar/cut").at(0), "is longer than"));
}

TEST_CASE("raw deflate data that lies about its length") {
  const std::string packed = deflate_raw(bytes_of("abc"));
  const auto problem = [&](const std::string& data, uint64_t size) {
    return inflate_raw(bytes_of(data), size, "d").error().text;
  };
  CHECK(inflate_raw(bytes_of(packed), 3, "d").value() == "abc");
  CHECK(problem(packed, 2) == "more than 2 bytes of content");
  CHECK(problem(packed, 4) == "3 bytes of content, not 4");
  CHECK(problem(packed + "x", 3) == "1 bytes follow the deflate data");
  CHECK(problem(packed.substr(0, 2), 3) == "the deflate data is cut off");
}
