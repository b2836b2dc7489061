#include "uop/trace.h"

#include "uop/parse.h"
#include "uop/print.h"
#include "uop/simplify.h"
#include "viz/trace.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "support/test.h"

namespace lathe {
namespace {

using namespace pat;

constexpr auto kTwice = rules(rule(x + 2, x * 3).named("two to three"), rule(x + 4, x * 5));
constexpr auto kThrows =
    rules(rule(op<Op::Sqrt>(x), fn([](const Match&) -> UOp { value_error("no roots"); })));
const Matcher<UOp>& twice() {
  static const Matcher<UOp>* const matcher = new Matcher<UOp>(kTwice);
  return *matcher;
}

class TracerScope {
 public:
  explicit TracerScope(RewriteTracer* tracer) : before_(set_rewrite_tracer(tracer)) {}
  ~TracerScope() { set_rewrite_tracer(before_); }

 private:
  RewriteTracer* before_;
};

std::span<const std::byte> bytes_of(std::string_view s) { return std::as_bytes(std::span(s)); }

// The file of what `work` rewrites.
std::string traced(const std::function<void()>& work) {
  test::TempDir dir;
  TraceWriter writer(dir.file("t"));
  {
    const TracerScope scope(&writer);
    work();
  }
  CHECK(!std::filesystem::exists(dir.file("t")));
  writer.finish();
  return read_file(dir.file("t"));
}

const PassTotal& pass_named(const TraceTotals& totals, std::string_view name) {
  for (const PassTotal& p : totals.passes)
    if (p.name == name) return p;
  FAIL("no pass ", name);
  throw 0;
}

TEST_CASE("a trace holds every rewrite") {
  const UOp a = variable("a", 0, 9), root = alu(Op::Sqrt, {a + 2}), result = alu(Op::Sqrt, {a * 3});
  const std::string file = traced([&] { CHECK(graph_rewrite(root, twice(), {.name = "p"}) == result); });
  const Trace trace = read_trace(bytes_of(file), "t").or_throw();
  CHECK(!trace.cut_at);
  REQUIRE(trace.events.size() == 3);
  const TraceEvent &begin = trace.events[0], &match = trace.events[1], &end = trace.events[2];
  CHECK(begin.kind == TraceEvent::Kind::PassBegin);
  CHECK(trace.texts[begin.what] == "p");
  CHECK(parse(trace.graph_text(begin.before, 100)).or_throw() == root);
  CHECK(match.kind == TraceEvent::Kind::Match);
  CHECK(parse(trace.graph_text(match.before, 100)).or_throw() == a + 2);
  CHECK(parse(trace.graph_text(match.after, 100)).or_throw() == a * 3);
  CHECK(trace.texts[trace.rules[match.what].name] == "two to three");
  CHECK(trace.rule_place(match.what).find("trace_test.cpp:") != std::string::npos);
  CHECK(end.kind == TraceEvent::Kind::PassEnd);
  CHECK(!end.failed);
  CHECK(parse(trace.graph_text(end.after, 100)).or_throw() == result);
  CHECK(end.ns >= begin.ns);
  CHECK(trace.graph_text(begin.before, 2).empty());

  const TraceTotals totals = total(trace);
  CHECK(totals.rewrites == 1);
  const PassTotal& p = pass_named(totals, "p");
  CHECK(p.runs == 1);
  CHECK(p.nodes_in == toposort(root).size());
  CHECK(p.rewrites == 1);
  // The rule that never applied is there, behind those that did.
  CHECK(totals.rules[0].rule == match.what);
  bool other = false;
  for (const RuleTotal& r : totals.rules)
    other |= r.matches == 0 && trace.rules[r.rule].line == trace.rules[match.what].line &&
             trace.texts[trace.rules[r.rule].name].empty();
  CHECK(other);
}

TEST_CASE("passes nest, and an error ends them all") {
  const UOp a = variable("a", 0, 9);
  const Matcher<UOp> throws(kThrows);
  const std::string file = traced([&] {
    try {
      TracedPass outer("outer", a);
      graph_rewrite(a + 4, twice(), {.name = "inner"});
      graph_rewrite(alu(Op::Sqrt, {a}), throws, {.name = "inner"});
    } catch (const UserError&) {
    }
    graph_rewrite(a + 4, twice(), {.name = "inner"});
  });
  const TraceTotals totals = total(read_trace(bytes_of(file), "t").or_throw());
  const PassTotal &outer = pass_named(totals, "outer"), &inner = pass_named(totals, "inner");
  CHECK(outer.runs == 1);
  CHECK(outer.failed == 1);
  CHECK(outer.rewrites == 1);
  CHECK(outer.ns >= outer.own_ns);
  CHECK(inner.runs == 3);
  CHECK(inner.failed == 1);
  CHECK(inner.rewrites == 2);
}

TEST_CASE("threads write one trace") {
  constexpr int kThreads = 4, kRuns = 200;
  const std::string file = traced([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++)
      threads.emplace_back([t] {
        const UOp a = variable(fmt::format("a{}", t), 0, 9);
        for (int i = 0; i < kRuns; i++) {
          TracedPass outer("outer", a);
          outer.finish(graph_rewrite(a * (i + 2) + 2, twice(), {.name = "inner"}));
        }
      });
    for (std::thread& t : threads) t.join();
  });
  const Trace trace = read_trace(bytes_of(file), "t").or_throw();
  std::vector<uint32_t> seen;
  for (const TraceEvent& e : trace.events)
    if (std::find(seen.begin(), seen.end(), e.thread) == seen.end()) seen.push_back(e.thread);
  CHECK(seen.size() == kThreads);
  const TraceTotals totals = total(trace);
  CHECK(totals.rewrites == kThreads * kRuns);
  CHECK(pass_named(totals, "outer").rewrites == kThreads * kRuns);
  CHECK(pass_named(totals, "outer").failed == 0);
  CHECK(pass_named(totals, "inner").runs == kThreads * kRuns);
}

TEST_CASE("nodes are written once") {
  UOp big = variable("a", 0, 9);
  for (int i = 0; i < 1000; i++) big = alu(Op::Max, {big * 7, constant(Scalar(i))});
  const auto run = [&] { graph_rewrite(big + 2, twice(), {.name = "p"}); };
  const size_t once = traced(run).size(), ten = traced([&] {
                                                  for (int i = 0; i < 10; i++) run();
                                                }).size();
  CHECK(ten < once + 10 * 40);
}

TEST_CASE("any beginning of a trace can be read") {
  const UOp a = variable("a", 0, 9);
  const std::string file = traced([&] { graph_rewrite((a + 2) * (a + 4), twice(), {.name = "p"}); });
  for (size_t n = 0; n < file.size(); n++) {
    CAPTURE(n);
    const auto trace = read_trace(bytes_of(std::string_view(file).substr(0, n)), "t");
    REQUIRE(trace.ok());
    REQUIRE(trace.value().cut_at.has_value());
    CHECK(*trace.value().cut_at <= n);
    total(trace.value());
  }
}

TEST_CASE("bytes that are no trace are errors that say where") {
  const std::string magic(kTraceMagic);
  for (const auto& [bytes, text] : std::initializer_list<std::pair<std::string, const char*>>{
           {"\x7f"
            "ELF and more",
            "no trace"},
           {magic + "\x63", "no record of kind 99"},
           {magic + "\x08\x08", "after the end"},
           {magic + std::string("\x02\x00", 2), "no text 0"},
           {magic + std::string("\x01\x01x\x05\x00\x00", 6), "no node 0"},
           {magic + std::string("\x01\x01x\x02\x00\x00\x00\x01\x01", 9), "1 nodes back"},
           {magic + std::string("\x07\x05"), "no rule 5"},
           {magic + std::string(11, '\xff'), "more than 64 bits"}}) {
    CAPTURE(text);
    const auto trace = read_trace(bytes_of(bytes), "t");
    REQUIRE(!trace.ok());
    CHECK(test::contains(trace.error().message(), text));
    CHECK(trace.error().offset <= bytes.size());
  }
  // A length beyond the end reserves nothing.
  CHECK(read_trace(bytes_of(magic + "\x01\xff\xff\xff\xff\xff\xff\x7f"), "t").value().cut_at == magic.size());
}

TEST_CASE("a process that dies leaves what it did") {
  test::TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    auto* writer = new TraceWriter(dir.file("t"));
    set_rewrite_tracer(writer);
    graph_rewrite(variable("a", 0, 9) + 2, twice(), {.name = "p"});
    _exit(0);  // nothing that runs at the end of a process runs
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  std::string left;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) left = entry.path();
  REQUIRE(left.starts_with(fmt::format("{}.{}.", dir.file("t"), child)));
  const std::string file = read_file(left);
  const Trace trace = read_trace(bytes_of(file), "t").or_throw();
  CHECK(trace.cut_at.has_value());
  CHECK(total(trace).rewrites == 1);
}

TEST_CASE("a trace that cannot be written is an error at its start") {
  CHECK(
      test::contains(test::user_error([] { TraceWriter("/no/such/folder/t"); }).what(), "/no/such/folder/t"));
}

}  // namespace
}  // namespace lathe
