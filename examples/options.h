// What the examples share: options of the command line, and the frame that reports errors.
#pragma once
#include <lathe/lathe.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace example {

constexpr int kSkipped = 77;  // what ctest takes for skipped

struct WrongUsage {
  std::string text;
};

// `name` below ../shared/data (or $LATHE_DATA); says so where it is not.
inline std::optional<std::string> data(std::string_view name) {
  const char* folder = std::getenv("LATHE_DATA");
  const std::string path =
      std::string(folder != nullptr ? folder : "../shared/data") + "/" + std::string(name);
  if (std::filesystem::exists(path)) return path;
  std::printf("skipped: ../shared/data not found\n");
  return std::nullopt;
}

// `--flag`, `--name value` and one file or folder. An option is known if a line of the help begins with it.
class Options {
 public:
  Options(int argc, char** argv, std::string_view help) : words_(argv + 1, argv + argc), help_(help) {
    for (const std::string& word : words_)
      if (word.starts_with("--") && word != "--help" && help.find("\n  " + word + " ") == help.npos)
        throw WrongUsage{"unknown option " + word};
  }
  bool has(std::string_view name) const {
    for (const std::string& word : words_)
      if (word == name) return true;
    return false;
  }
  int64_t number(std::string_view name, int64_t otherwise) const {
    for (size_t i = 0; i < words_.size(); i++) {
      if (words_[i] != name) continue;
      const std::string value = i + 1 < words_.size() ? words_[i + 1] : "";
      const char* end = value.data() + value.size();
      int64_t out = 0;
      const auto [stop, error] = std::from_chars(value.data(), end, out);
      if (error != std::errc() || stop != end || out < 0)
        throw WrongUsage{std::string(name) + " wants a number"};
      return out;
    }
    return otherwise;
  }
  std::string text(std::string_view name, std::string_view otherwise) const {
    for (size_t i = 0; i < words_.size(); i++) {
      if (words_[i] != name) continue;
      if (i + 1 == words_.size() || words_[i + 1].starts_with("--"))
        throw WrongUsage{std::string(name) + " wants a value"};
      return words_[i + 1];
    }
    return std::string(otherwise);
  }
  // The last word unless it is an option or the value of one.
  std::optional<std::string> path() const {
    if (words_.empty() || words_.back().starts_with("--")) return std::nullopt;
    if (words_.size() > 1 && takes_value(words_[words_.size() - 2])) return std::nullopt;
    if (!std::filesystem::exists(words_.back())) throw WrongUsage{words_.back() + " does not exist"};
    return words_.back();
  }
  // That, else data(name).
  std::optional<std::string> path_or_data(std::string_view name) const {
    if (auto given = path()) return given;
    return data(name);
  }

 private:
  // The help writes values in capitals: "--steps N".
  bool takes_value(const std::string& word) const {
    const size_t at = word.starts_with("--") ? help_.find("\n  " + word + " ") : help_.npos;
    const size_t value = at + 4 + word.size();
    return at != help_.npos && value < help_.size() && help_[value] >= 'A' && help_[value] <= 'Z' &&
           (help_[value + 1] == ' ' || help_[value + 1] < 'a');
  }

  std::vector<std::string> words_;
  std::string_view help_;  // a literal
};

// Says what does not hold and makes the program fail.
inline bool expect(bool holds, const char* what) {
  if (!holds) std::printf("NOT TRUE: %s\n", what);
  return holds;
}

// The main of an example: 0 done, 1 it failed, 2 wrong usage.
inline int run(int argc, char** argv, const char* help, const std::function<int(const Options&)>& example) {
  try {
    const Options options(argc, argv, help);
    if (options.has("--help")) {
      std::printf("%s", help);
      return 0;
    }
    return example(options);
  } catch (const WrongUsage& usage) {
    std::fprintf(stderr, "%s\n\n%s", usage.text.c_str(), help);
    return 2;
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace example
