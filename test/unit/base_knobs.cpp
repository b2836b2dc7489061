#include "base/knobs.h"

#include <cstdlib>
#include <thread>

#include "support/test.h"

using namespace lathe;

TEST_CASE("a scope sets a knob and restores it") {
  int before = knob(Knob::NOOPT);
  {
    KnobScope outer(Knob::NOOPT, 7);
    CHECK(knob(Knob::NOOPT) == 7);
    {
      KnobScope inner(Knob::NOOPT, 8);
      CHECK(knob(Knob::NOOPT) == 8);
      int seen = 0;
      std::thread([&] { seen = knob(Knob::NOOPT); }).join();
      CHECK(seen == 8);
    }
    CHECK(knob(Knob::NOOPT) == 7);
  }
  CHECK(knob(Knob::NOOPT) == before);
}

TEST_CASE("text knobs keep earlier references valid") {
  const std::string& before = knob_str(Knob::PASS_OFF);
  std::string copy = before;
  {
    KnobScope scope(Knob::PASS_OFF, "symbolic,fuse");
    CHECK(knob_str(Knob::PASS_OFF) == "symbolic,fuse");
    CHECK(before == copy);
  }
  CHECK(&knob_str(Knob::PASS_OFF) == &before);
}

TEST_CASE("an integer knob refuses other text in the environment") {
  auto reread = [](const char* text) {
    detail::g_knobs[static_cast<int>(Knob::NOOPT)].number = detail::kKnobUnread;
    setenv("NOOPT", text, 1);
    return knob(Knob::NOOPT);
  };
  int before = knob(Knob::NOOPT);
  CHECK(reread("12") == 12);
  CHECK(reread("-3") == -3);
  CHECK(reread("") == 0);
  for (const char* text : {"many", "4x", "99999999999", " 1"}) {
    auto error = test::user_error([&] { reread(text); });
    CHECK(error.kind() == UserError::Kind::Value);
    CHECK(test::contains(error.what(), fmt::format("NOOPT must be an integer, not \"{}\"", text)));
  }
  unsetenv("NOOPT");
  set_knob(Knob::NOOPT, before);
}

TEST_CASE("a knob has one type") {
  CHECK_THROWS_AS(knob(Knob::DEV), InternalError);
  CHECK_THROWS_AS(knob_str(Knob::DEBUG), InternalError);
  CHECK_THROWS_AS(set_knob(Knob::DEBUG, "text"), InternalError);
}

TEST_CASE("knobs are found by name and listed with their help") {
  CHECK(find_knob("CPU_COUNT") == Knob::CPU_COUNT);
  CHECK(!find_knob("NO_SUCH_KNOB"));
  CHECK(knob_name(Knob::SPEC) == "SPEC");
  KnobScope scope(Knob::REDUCEOP_SPLIT_SIZE, 3);
  std::string help = knobs_help();
  CHECK(test::contains(help, "verify the IR after every pass"));
  CHECK(test::contains(help, "[now 3]"));
  CHECK(test::contains(help, "\"float32\""));
}
