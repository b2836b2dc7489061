#pragma once

#include "base/result.h"
#include "llm/jinja/value.h"

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::jinja {

struct Node;

// The template called raise_exception; `reason` is what it said.
class RaisedError : public UserError {
 public:
  RaisedError(const std::string& text, std::string reason)
      : UserError(Kind::Value, text), reason(std::move(reason)) {}
  std::string reason;
};

struct Limits {
  // Nodes evaluated, elements made, written or compared, and blocks of 16 bytes read or written: seconds of
  // work, and at most some gigabytes at a time.
  int64_t steps = 50'000'000;
  int64_t output_bytes = 64 << 20;
};

// A Jinja template: the language of chat templates, as docs/chat.md lists it, with trim_blocks and
// lstrip_blocks on. Upper and lower case are those of ASCII. Immutable, so that threads may share it.
class Template {
 public:
  // `name` is that of errors.
  static Result<Template> parse(std::string_view source, std::string name = "chat template");

  // The text for these variables. RaisedError where the template refuses them, UserError with the line for
  // whatever else is wrong. `now` is the local time that strftime_now tells, that of the clock where there is
  // none.
  Text render(const Dict& variables, const std::optional<std::tm>& now = {}, const Limits& limits = {}) const;

 private:
  Template() = default;
  std::string name_;
  std::shared_ptr<const Node> root_;
};

}  // namespace lathe::jinja
