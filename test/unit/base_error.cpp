#include "base/error.h"
#include "base/function_ref.h"
#include "base/result.h"

#include <memory>

#include "support/test.h"

using namespace lathe;
using test::contains;
using test::user_error;

namespace {

int g_formatted = 0;
int expensive() { return ++g_formatted; }

// The library's own CHECK, which the test framework's hides here.
void require(bool condition) {
  if (!condition) detail::check_failed(__FILE__, __LINE__, "condition", "value {}", expensive());
}

Result<int> parse_digit(std::string_view text) {
  if (text.empty()) return ParseError{"nothing to read", 0, "digit"};
  if (text[0] < '0' || text[0] > '9')
    return ParseError{fmt::format("'{}' is not a digit", text[0]), 0, "digit"};
  return text[0] - '0';
}

Result<int> parse_sum(std::string_view text) {
  LATHE_TRY(first, parse_digit(text.substr(0, 1)));
  LATHE_TRY(second, parse_digit(text.substr(1)));
  return first + second;
}

Result<void> parse_nothing(bool fine) {
  if (!fine) return ParseError{"bad", 7, ""};
  return {};
}

Result<int> parse_both(bool fine) {
  LATHE_TRY_DO(parse_nothing(fine));
  return 1;
}

int twice(int x) { return 2 * x; }

}  // namespace

TEST_CASE("user errors carry kind and text") {
  auto value = user_error([] { value_error("axis {} of {}", 3, "x"); });
  CHECK(value.kind() == UserError::Kind::Value);
  CHECK(std::string(value.what()) == "axis 3 of x");
  CHECK(user_error([] { type_error("t"); }).kind() == UserError::Kind::Type);
  CHECK(user_error([] { index_error("i"); }).kind() == UserError::Kind::Index);
  CHECK(user_error([] { user_runtime_error("r"); }).kind() == UserError::Kind::Runtime);
  CHECK(user_error([] { overflow_error("o"); }).kind() == UserError::Kind::Overflow);
  CHECK(user_error([] { zero_error("z"); }).kind() == UserError::Kind::Zero);
  CHECK(to_string(UserError::Kind::Overflow) == "overflow");
  CHECK_THROWS_AS(device_error("no device {}", 1), DeviceError);
  CHECK_THROWS_AS(device_error("no device {}", 1), Error);
}

TEST_CASE("a failed check names place, condition and message") {
  auto error = test::thrown<InternalError>([] { require(false); });
  CHECK(contains(error.what(), "base_error.cpp:"));
  CHECK(contains(error.what(), "check failed: condition: value 1"));
}

TEST_CASE("a check that holds formats nothing") {
  g_formatted = 0;
  require(true);
  CHECK(g_formatted == 0);
}

TEST_CASE("errors list the open context frames, innermost first") {
  int described = 0;
  ErrorContext outer([&] { return described++, std::string("loading model.gguf"); });
  {
    ErrorContext closed([] { return std::string("never seen"); });
  }
  auto error = user_error([&] {
    ErrorContext inner([] { return fmt::format("reading tensor {}", 7); });
    value_error("bad offset");
  });
  CHECK(std::string(error.what()) == "bad offset\n  while reading tensor 7\n  while loading model.gguf");
  CHECK(described == 1);
}

TEST_CASE("a frame that throws does not hide the error") {
  ErrorContext outer([]() -> std::string { value_error("inner trouble"); });
  auto error = user_error([] { index_error("the error"); });
  CHECK(error.kind() == UserError::Kind::Index);
  CHECK(contains(error.what(), "the error\n  while (no description: inner trouble)"));
}

TEST_CASE("results hold a value or an error") {
  CHECK(parse_digit("7").value() == 7);
  CHECK(parse_sum("34").value() == 7);
  auto failed = parse_sum("3x");
  REQUIRE(!failed.ok());
  CHECK(failed.error().text == "'x' is not a digit");
  CHECK_THROWS_AS(failed.value(), InternalError);
  CHECK_THROWS_AS(parse_digit("7").error(), InternalError);
  auto error = user_error([] { parse_sum("3").or_throw(); });
  CHECK(error.kind() == UserError::Kind::Value);
  CHECK(std::string(error.what()) == "digit: offset 0: nothing to read");
}

TEST_CASE("results of nothing and of movable values") {
  CHECK(parse_both(true).or_throw() == 1);
  CHECK(parse_both(false).error().offset == 7);
  CHECK(contains(user_error([] { parse_nothing(false).or_throw(); }).what(), "input: offset 7: bad"));
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  CHECK(*make().or_throw() == 5);
}

TEST_CASE("function references call what they refer to") {
  int calls = 0;
  auto count = [&](int by) { return calls += by; };
  FunctionRef<int(int)> ref = count;
  FunctionRef<int(int)> copy = ref;
  CHECK(ref(2) == 2);
  CHECK(copy(3) == 5);
  FunctionRef<int(int)> free_function = twice;
  CHECK(free_function(21) == 42);
  auto own = [p = std::make_unique<int>(4)] { return *p; };
  CHECK(FunctionRef<int()>(own)() == 4);
}
