// Grammars: what they accept, what they refuse to be made of, and the masks of tokens that follow from them.
#include "llm/grammar/grammar.h"

#include "base/clock.h"
#include "engine/cancel.h"
#include "llm/grammar/json_schema.h"
#include "llm/tokenizer/byte_alphabet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <random>
#include <set>

#include "support/json_validator.h"
#include "support/test.h"

using namespace lathe;

namespace {

// Tokens of one byte each, then those of more; the last ends a generation.
Tokenizer tokenizer_of(const std::vector<std::string>& more = {}) {
  Vocabulary v;
  v.pre = "gpt-2";
  for (int b = 0; b < 256; b++) v.tokens.push_back(bytes_to_characters(std::string(1, static_cast<char>(b))));
  for (const std::string& token : more) v.tokens.push_back(bytes_to_characters(token));
  v.tokens.push_back("</s>");
  v.types.assign(v.tokens.size(), TokenType::Normal);
  v.types.back() = TokenType::Control;
  v.eos = static_cast<int32_t>(v.tokens.size()) - 1;
  return Tokenizer(std::move(v));
}

const Tokenizer& bytes_only() {
  static const Tokenizer t = tokenizer_of();
  return t;
}

bool accepts(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar, bytes_only());
  return matcher.accept_text(text) && matcher.can_end();
}

Grammar gbnf(std::string_view text) { return Grammar::from_gbnf(text).or_throw(); }
Grammar schema(std::string_view text) { return Grammar::from_json_schema(text).or_throw(); }

// Texts that a grammar accepts, made by following random bytes that it allows; stops where it can at random.
std::string random_text(const Grammar& grammar, std::mt19937& random, size_t most) {
  GrammarMatcher matcher(grammar, bytes_only());
  std::string out;
  std::vector<float> logits(257);
  while (!matcher.must_end() && out.size() < most && !(matcher.can_end() && random() % 4 == 0)) {
    std::fill(logits.begin(), logits.end(), 0.f);
    matcher.mask(logits);
    std::vector<int32_t> allowed;
    for (int32_t i = 0; i < 256; i++)
      if (logits[static_cast<size_t>(i)] == 0) allowed.push_back(i);
    REQUIRE(!allowed.empty());
    // Closing characters more often, so that texts end.
    int32_t next = allowed[random() % allowed.size()];
    for (const char close : {'"', '}', ']'})
      if (random() % 3 == 0 && std::count(allowed.begin(), allowed.end(), close)) next = close;
    matcher.accept(next);
    out += static_cast<char>(next);
  }
  return matcher.can_end() ? out : "";
}

}  // namespace

TEST_CASE("what a grammar accepts") {
  const Grammar g = gbnf(
      "# sums\n"
      "root ::= term (\" + \" term)* # of terms\n"
      "term ::= [0-9]{1,3} | \"x\" [^a-z\\]]? |\n"
      "  (\"(\" root\n"
      "   \")\")\n");
  for (const char* text : {"1", "123 + 4", "x", "xA + x] ", "(1 + (x)) + 2"})
    CHECK(accepts(g, text) == (std::string_view(text).find(']') == std::string_view::npos));
  for (const char* text : {"", "1234", "1+1", "xa", "(1", "1)", "1 + "}) CHECK(!accepts(g, text));
  const Grammar u = gbnf("root ::= [ä-ö€😀-😂]+ . \"\\u00e9\\x41\\\"\" | [^\\U00010000-\\U0010FFFF]{2,}");
  CHECK(accepts(u, "äö€😁?éA\""));
  CHECK(accepts(u, "中é"));
  CHECK(!accepts(u, "a"));
  CHECK(!accepts(u, "ab😀"));
  CHECK(!accepts(u, "a\xFF"));
  CHECK(!accepts(u, "\xED\xA0\x80z"));
  CHECK(accepts(gbnf("root ::= \"a\"{2,3} \"b\"{2} \"c\"{1,}"), "aaabbcc"));
  CHECK(accepts(gbnf("root ::= (\"a\"? \"b\"?){3} | "), ""));
  CHECK(accepts(gbnf("root ::= ((\"\" | \"a\")* )*"), "aaa"));
  CHECK(accepts(gbnf("a ::= \"x\" a | \"y\"\nroot ::= a"),
                std::string(5000, 'x') + "y"));  // calls at the end need no stack
}

TEST_CASE("grammars that are none") {
  const auto error = [](std::string_view text) {
    const auto g = Grammar::from_gbnf(text);
    REQUIRE(!g.ok());
    CHECK(g.error().offset <= text.size());
    return g.error().message();
  };
  CHECK(error("root ::= a") == "grammar: offset 9: there is no rule \"a\"");
  CHECK(test::contains(error("x ::= \"a\""), "there is no rule \"root\""));
  CHECK(test::contains(error("root ::= \"a\"\nroot ::= \"b\""), "offset 13: rule \"root\" is defined twice"));
  CHECK(test::contains(error("root ::= root \"a\" | \"b\""),
                       "rule \"root\" calls itself before it takes anything"));
  CHECK(test::contains(error("root ::= e a\na ::= e{2,5} (\"x\"? root)\ne ::= \"\""), "calls itself"));
  CHECK(test::contains(error("root = \"a\""), "expected ::= behind \"root\""));
  CHECK(test::contains(error("root ::= \"a"), "the text has no end"));
  CHECK(test::contains(error("root ::= [a-"), "the class has no end"));
  CHECK(test::contains(error("root ::= [z-a]"), "ends before it begins"));
  CHECK(test::contains(error("root ::= (\"a\""), "expected ) for the group at offset 9"));
  CHECK(test::contains(error("root ::= \"a\")"), "expected the end of a line"));
  CHECK(test::contains(error("root ::= \"a\"{3,2}"), "at least 3 and at most 2"));
  CHECK(test::contains(error("root ::= \"a\"{9999999999}"), "more than 131072 times"));
  CHECK(test::contains(error("root ::= \"\\q\""), "\"\\q\" is no escape"));
  CHECK(test::contains(error("root ::= \"\\ud800\""), "U+D800 is no character"));
  CHECK(test::contains(error("root ::= \"\xFF\""), "this is not UTF-8"));
  CHECK(test::contains(error("root ::= *"), "expected \"text\""));
  CHECK(test::contains(error("root ::= " + std::string(200, '(')), "groups are more than 100 deep"));
  CHECK(
      test::contains(error("root ::= \"a\"{100000} \"b\"{100000} \"c\"{100000}"), "more than 262144 nodes"));
  // So ambiguous that nobody wants to follow it: every closing doubles the ways.
  const Grammar many = gbnf(
      "root ::= \"(\" root \")\" | \"(\" root \")\" \")\"? | \"(\" root (\")\" | \")\" \"x\") | \"(\" | "
      "\"(\" root");
  GrammarMatcher matcher(many, bytes_only());
  CHECK(test::contains(test::user_error([&] { matcher.accept_text(std::string(400, '(')); }).what(),
                       "too ambiguous"));
}

TEST_CASE("grammars that could take long") {
  // Every rule behind the first may take nothing, and is defined behind those that follow it.
  std::string empty = "root ::= \"x\" z\nz ::=";
  for (int i = 0; i < 20000; i++) empty += fmt::format(" a{}", i);
  for (int i = 20000; i-- > 0;) empty += fmt::format("\na{} ::= \"\"", i);
  CHECK(Grammar::from_gbnf(empty + "\n").ok());
  CHECK(test::contains(Grammar::from_gbnf(empty + " | z\n").error().message(), "calls itself"));
  // Every set of letters is a state of its own.
  std::string sets = "root ::= \"\"";
  std::vector<std::string> tokens;
  for (int i = 0; i < 1000; i++)
    sets += fmt::format(" | [a-z]* \"{}\" [a-z]*", static_cast<char>('a' + i % 26));
  for (int i = 0; i < 26 * 26 * 26; i++)
    tokens.push_back({static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26 % 26),
                      static_cast<char>('a' + i / 26 / 26)});
  const Tokenizer tokenizer = tokenizer_of(tokens);
  GrammarMatcher matcher(gbnf(sets), tokenizer);
  std::vector<float> logits(tokenizer.size());
  CHECK(test::contains(test::user_error([&] { matcher.mask(logits); }).what(), "can be read in more than"));
  GrammarMatcher stopped(gbnf(sets), tokenizer);
  cancel();
  CHECK_THROWS_AS(stopped.mask(logits), Cancelled);
}

TEST_CASE("random grammars accept what their definition says") {
  // Expressions over two letters, as text and as the set of ends of what they match from a place.
  using Ends = std::set<size_t>;
  struct Expression {
    std::string text;
    std::function<Ends(std::string_view, size_t)> match;
  };
  std::mt19937 random(11);
  for (int round = 0; round < 300; round++) {
    std::vector<Expression> rules(3);
    const std::function<Expression(int)> make = [&](int depth) -> Expression {
      const auto kind = random() % (depth > 3 ? 2 : 7);
      if (kind < 2) {
        const char c = "ab"[kind];
        return {fmt::format("\"{}\"", c), [c](std::string_view s, size_t at) {
                  return at < s.size() && s[at] == c ? Ends{at + 1} : Ends{};
                }};
      }
      if (kind == 2) {  // a rule of a higher number, behind a letter or not
        const size_t rule = random() % 3;
        return {fmt::format("(\"a\" r{})", rule), [rule, &rules](std::string_view s, size_t at) {
                  return at < s.size() && s[at] == 'a' ? rules[rule].match(s, at + 1) : Ends{};
                }};
      }
      const Expression x = make(depth + 1), y = make(depth + 1);
      if (kind == 3)
        return {fmt::format("({} {})", x.text, y.text), [x, y](std::string_view s, size_t at) {
                  Ends out;
                  for (const size_t mid : x.match(s, at)) out.merge(y.match(s, mid));
                  return out;
                }};
      if (kind == 4)
        return {fmt::format("({} | {})", x.text, y.text), [x, y](std::string_view s, size_t at) {
                  Ends out = x.match(s, at);
                  out.merge(y.match(s, at));
                  return out;
                }};
      const size_t least = random() % 3, most = random() % 2 ? least + random() % 2 : 99;
      const std::string times =
          most == 99 ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most);
      return {"(" + x.text + ")" + times, [x, least, most](std::string_view s, size_t at) {
                Ends reached = {at}, out;
                for (size_t i = 0;; i++) {
                  if (i >= least) out.insert(reached.begin(), reached.end());
                  if (i >= most || i > s.size() + 3) return out;
                  Ends next;
                  for (const size_t from : reached) next.merge(x.match(s, from));
                  reached = next;
                }
              }};
    };
    std::string text = "root ::= r0\n";
    for (size_t r = 0; r < 3; r++) {
      rules[r] = make(0);
      text += fmt::format("r{} ::= {}\n", r, rules[r].text);
    }
    CAPTURE(text);
    const Grammar grammar = gbnf(text);
    for (size_t length = 0; length <= 6; length++)
      for (uint32_t bits = 0; bits < 1u << length; bits++) {
        std::string word;
        for (size_t i = 0; i < length; i++) word += bits >> i & 1 ? 'b' : 'a';
        CAPTURE(word);
        CHECK(accepts(grammar, word) == (rules[0].match(word, 0).count(length) > 0));
      }
  }
}

TEST_CASE("masks are what every token's bytes say") {
  std::mt19937 random(5);
  std::vector<std::string> more = {"\", \"", "\":", "{\"", "true", "tru", "null,", "[[",
                                   "]}",     "12",  "-1",  "é",    "\\n", "  ",    "\n  "};
  for (int i = 0; i < 300; i++) {
    std::string token;
    for (size_t n = 2 + random() % 5; n > 0; n--) token += "\"{}[]:, a1\\-.\xC3\xA9"[random() % 15];
    more.push_back(token);
  }
  const Tokenizer t = tokenizer_of(more);
  const Grammar grammars[] = {
      schema(
          R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"type":"array"}},"required":["b"]})"),
      schema(R"({"type":"string","minLength":20,"maxLength":40})"),
      gbnf("root ::= (\"[\" x{3,30} \"]\"?){9,40} | (\"{\" (x \",\"?){20,}){2,9}\nx ::= [a-z{}1 \"-]")};
  for (int round = 0; round < 30; round++) {
    const Grammar& g = grammars[round % 3];
    GrammarMatcher matcher(g, t);
    std::string text;
    for (int step = 0; step < 40; step++) {
      std::vector<float> logits(static_cast<size_t>(t.size()) + 7, 1.f);  // padded, as embeddings are
      matcher.mask(logits);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < t.size(); id++) {
        GrammarMatcher other(g, t);
        REQUIRE(other.accept_text(text));
        const bool good = id == t.eos() ? other.can_end() : other.accept_text(t.piece(id));
        REQUIRE((logits[static_cast<size_t>(id)] == 1.f) == good);
        REQUIRE(matcher.allows(id) == good);
        if (good) allowed.push_back(id);
      }
      for (size_t i = static_cast<size_t>(t.size()); i < logits.size(); i++) REQUIRE(std::isinf(logits[i]));
      REQUIRE(!allowed.empty());
      const int32_t next = allowed[random() % allowed.size()];
      matcher.accept(next);
      if (next == t.eos()) break;
      text += t.piece(next);
    }
  }
  GrammarMatcher matcher(grammars[0], t);
  CHECK(test::contains(test::user_error([&] { matcher.accept('x'); }).what(),
                       "token 120 (\"x\") leads out of the grammar"));
  CHECK(!matcher.accept_text("[1"));
  CHECK(matcher.accept_text("{\"b\":[]}"));
  CHECK(matcher.must_end());
  matcher.accept(t.eos());
  CHECK(!matcher.allows('x'));
  CHECK(matcher.can_end());
}

TEST_CASE("endless answers do not fill the memory") {
  const Grammar g = gbnf("root ::= \"a\"{0,60000}");
  GrammarMatcher matcher(g, bytes_only()), behind(g, bytes_only());
  for (int i = 0; i < 60000; i++) REQUIRE(matcher.accept_text("a"));
  CHECK(matcher.must_end());
  CHECK(behind.accept_text("aaa"));
  CHECK(!behind.must_end());
  const Grammar json = Grammar::json();
  GrammarMatcher deep(json, bytes_only());
  CHECK(deep.accept_text(std::string(100, '[')));
  CHECK(!deep.accept_text(std::string(100000, '[')));
  CHECK(deep.accept_text(std::string(100, ']')));
  CHECK(deep.must_end());
}

TEST_CASE("long lists of values") {
  std::string list;
  for (int i = 0; i < 4000; i++) list += fmt::format("{}\"value {}\"", i ? "," : "", i);
  const Grammar g = schema("{\"enum\":[" + list + "]}");
  CHECK(accepts(g, "\"value 3999\""));
  CHECK(!accepts(g, "\"value 4000\""));
}

TEST_CASE("schemas that take too long to merge") {
  const auto error = [](std::string_view text) { return json_schema_to_gbnf(text).error().message(); };
  std::string parts, numbers;
  for (int i = 0; i < 9000; i++)
    parts += fmt::format("{}{{\"properties\":{{\"p{}\":{{\"type\":\"null\"}}}}}}", i ? "," : "", i);
  for (int i = 0; i < 20000; i++) numbers += fmt::format("{}{}", i ? "," : "", i);
  CHECK(test::contains(error("{\"allOf\":[" + parts + "]}"), "too much to merge"));
  CHECK(test::contains(error("{\"allOf\":[{\"enum\":[" + numbers + "]},{\"enum\":[" + numbers + ",\"x\"]}]}"),
                       "too much to merge"));
  CHECK(accepts(schema("{\"allOf\":[" + parts.substr(0, parts.find(",{\"properties\":{\"p99\"")) + "]}"),
                R"({"p3":null,"p98":null})"));
}

TEST_CASE("schemas and texts") {
  struct Row {
    const char* schema;
    std::vector<const char*> good, bad;
  };
  const Row rows[] = {
      {"{}",
       {"1", "-0.5e+10", "\"\\u00e9\\n\"", "[]", "{}", "[1, {\"a\":\n  [true, null]}]", "\"\\ud83d\\ude00\""},
       {"", "01", "+1", "'a'", "[1,]", "{a:1}", "\"\\ud83d\"", "\"\n\"", "nul"}},
      {R"({"type":["string","null"]})", {"\"a\"", "null"}, {"1", "true"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{}},"required":["b"]})",
       {R"({"b":true})", R"({"a":1,"b":false})", R"({ "a": 1, "b": true, "c": [] })"},
       {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,"d":1})", R"({"b":true,})"}},
      {R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"ab":null})", R"({"ab":null,"a":1,"abc":2,"b":3})", R"({"":1})"},
       {R"({"ab":1})", R"({"a":null})", R"({"x":1,"ab":null})", R"({"\u0061b":1})"}},
      {R"({"additionalProperties":false})", {"{}", "{ }"}, {"{\"a\":1}", "[]"}},
      {R"({"type":"object","required":["x"]})", {R"({"x":1})", R"({"x":[],"y":2})"}, {"{}", R"({"y":1})"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1, 2, 3]"},
       {"[]", "[1]", "[1,2,3,4]", "[1,\"a\"]"}},
      {R"({"prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"}})",
       {R"(["a",null])", R"(["a",null,1,2])"},
       {"[]", R"(["a"])", R"(["a",null,""])"}},
      {R"({"prefixItems":[{"const":1}],"items":false})", {"[1]"}, {"[1,1]", "[]"}},
      {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"enum":["a",1,null,{"b":[true]}]})",
       {"\"a\"", "1", "null", "{\"b\":[true]}"},
       {"\"b\"", "2", "a"}},
      {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
      {R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("xy")"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", "\"\"", "\"é\""},
       {"\"ab\"", "true"}},
      {R"({"type":"object","properties":{"k":{"const":1}},"oneOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["k","b"]}]})",
       {R"({"a":null})", R"({"k":1,"a":null})", R"({"k":1,"b":null})"},
       {"{}", R"({"b":null})"}},
      {R"({"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"type":"integer","minimum":3},"b":{}},"required":["b"]}]})",
       {R"({"a":3,"b":1})"},
       {R"({"a":2,"b":1})", R"({"a":3.5,"b":1})", R"({"a":3})"}},
      {R"({"$defs":{"list":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/list"},{"type":"null"}]}},"required":["next"]}},"$ref":"#/$defs/list"})",
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {"null", "{}", R"({"next":1})"}},
      {R"({"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n","minimum":5})", {"5", "77"}, {"4", "-9"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"\\u00e9b\\n\"", "\"😀中\""},
       {"\"a\"", "\"abcd\""}},
      {R"({"type":"string","pattern":"^[a-c]+\\d{2,3}(-x|\\.y)?$"})",
       {"\"ab12\"", "\"c123-x\"", "\"a00.y\""},
       {"\"ab1\"", "\"d12\"", "\"a12-y\"", "\"\""}},
      {R"({"pattern":"a\"\\\\|^\\s$"})",
       {R"("a\"\\")", R"("xxa\"\\yy")", R"(" ")", R"("\t")"},
       {R"("a")", R"("  ")"}},
      {R"({"pattern":"^.[^x]$"})", {R"("ab")", R"("\"\\")", R"("é中")"}, {R"("ax")", R"("\nb")", R"("a")"}},
      {R"({"format":"date"})", {"\"2024-02-29\""}, {"\"2024-13-01\"", "\"24-01-01\""}},
      {R"({"format":"date-time"})",
       {"\"2024-02-29T23:59:00.5Z\"", "\"2024-02-29T23:59:00+01:30\""},
       {"\"2024-02-29\"", "\"2024-02-29T24:00:00Z\""}},
      {R"({"type":"string","format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123\""}},
      {R"({"type":"integer","minimum":-3,"exclusiveMaximum":12})",
       {"-3", "-0", "0", "9", "11"},
       {"-4", "12", "100", "-10", "1.5"}},
      {R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.25", "1", "1.000"}, {"1.1", "2", "-0.5"}},
      {R"({"type":"number","exclusiveMinimum":-1,"exclusiveMaximum":2})",
       {"-0.99", "0", "1.99", "-0.001"},
       {"-1", "2", "-1.0", "2.0"}},
      {R"({"enum":[1,5,"a","abc",null,2.5],"minimum":2,"maxLength":1,"format":"email"})",
       {"5", "\"a\"", "null", "2.5"},
       {"1", "\"abc\""}},
      {R"({"const":3,"enum":[3,4]})", {"3"}, {"4"}},
      {R"({"type":"number","exclusiveMinimum":1})", {"1.01", "2", "1000"}, {"1", "1.0", "0", "-5"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.schema);
    const Grammar g = schema(row.schema);
    for (const char* text : row.good) CHECK_MESSAGE(accepts(g, text), text);
    for (const char* text : row.bad) CHECK_MESSAGE(!accepts(g, text), text);
  }
}

TEST_CASE("ranges of whole numbers, exactly") {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 0}, {0, 9}, {7, 123}, {-5, 5}, {-250, -17}, {99, 1001}, {10, 10}, {-1000, 999}}) {
    const Grammar g = schema(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high));
    for (int i = -1200; i <= 1200; i++) {
      CAPTURE(i);
      REQUIRE(accepts(g, std::to_string(i)) == (i >= low && i <= high));
    }
  }
  const Grammar g = schema(R"({"type":"integer","minimum":95})");
  for (int i = 0; i <= 2000; i++) REQUIRE(accepts(g, std::to_string(i)) == (i >= 95));
}

TEST_CASE("whatever is accepted is JSON that satisfies the schema") {
  std::mt19937 random(17);
  size_t texts = 0;
  for (int round = 0; round < 400; round++) {
    const nlohmann::ordered_json s = test::random_schema(random, 0);
    CAPTURE(s.dump());
    const auto grammar = Grammar::from_json_schema(s.dump());
    REQUIRE_MESSAGE(grammar.ok(), grammar.error().message());
    for (int i = 0; i < 5; i++) {
      const std::string text = random_text(grammar.value(), random, 3000);
      if (text.empty()) continue;
      CAPTURE(text);
      REQUIRE(nlohmann::ordered_json::accept(text));
      CHECK(test::satisfies(nlohmann::ordered_json::parse(text), s, s));
      texts++;
    }
  }
  CHECK(texts > 1500);
}

TEST_CASE("schemas that are not read") {
  const auto error = [](std::string_view text) {
    const auto g = Grammar::from_json_schema(text);
    REQUIRE(!g.ok());
    return g.error().message();
  };
  CHECK(test::contains(error("{"), "JSON schema: offset"));
  CHECK(test::contains(error("3"), "#: number is no schema"));
  CHECK(test::contains(error(R"({"properties":{"a":{"not":{}}}})"),
                       "#/properties/a: keyword \"not\" is not supported"));
  CHECK(test::contains(error(R"({"multipleOf":3})"), "keyword \"multipleOf\""));
  CHECK(test::contains(error(R"({"type":"integr"})"), "\"type\": \"integr\" is not known"));
  CHECK(test::contains(error(R"({"$ref":"http://x"})"), "is not local"));
  CHECK(test::contains(error(R"({"$ref":"#/a"})"), "leads nowhere"));
  CHECK(test::contains(error(R"({"$ref":"#"})"), "calls itself"));
  CHECK(test::contains(error(R"({"$ref":"#","type":"object"})"), "deep"));
  CHECK(test::contains(error(R"({"items":false,"minItems":1})"), "minItems"));
  CHECK(test::contains(error(R"({"type":"integer","minimum":3,"maximum":2})"), "no integer is between"));
  CHECK(test::contains(error(R"({"minimum":0.5})"), "bounds have to be whole numbers"));
  CHECK(test::contains(error(R"({"minLength":3,"maxLength":2})"), "minLength 3 is above maxLength 2"));
  CHECK(test::contains(error(R"({"allOf":[{"type":"string"},{"type":"null"}]})"),
                       "nothing satisfies both \"type\""));
  CHECK(test::contains(error(R"({"properties":{},"required":["a"],"additionalProperties":false})"),
                       "required property \"a\" is not declared"));
  CHECK(test::contains(error(R"({"const":3,"enum":[4]})"), "no value of the enum satisfies"));
  CHECK(test::contains(error(R"({"enum":["a"],"pattern":"b"})"), "pattern beside the value \"a\""));
  CHECK(test::contains(error(R"({"const":{},"required":["a"]})"), "required beside the value {}"));
  CHECK(test::contains(error(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},
                                          {"properties":{"b":{}}}]})"),
                       "property \"b\" of one part is ruled out by additionalProperties of another"));
  CHECK(test::contains(error(R"({"prefixItems":[{}],"anyOf":[{"items":{"type":"null"}}]})"),
                       "prefixItems of one part beside items of another"));
  CHECK(test::contains(error(R"x({"pattern":"a(?=b)"})x"), "look-around"));
  CHECK(test::contains(error(R"({"pattern":"(a"})"), "expected \")\""));
  CHECK(test::contains(error(R"({"pattern":"a\\b"})"), "the escape \\b is not supported"));
  std::string deep;
  for (int i = 0; i < 3000; i++) deep += R"({"items":)";
  CHECK(test::contains(error(deep + "{}" + std::string(3000, '}')), "levels"));
  std::string examples = R"({"type":"null","examples":[{})";
  for (int i = 0; i < 150000; i++) examples += ",{}";
  const double begin = now_seconds();
  CHECK(Grammar::from_json_schema(examples + "]}").ok());
  CHECK(now_seconds() - begin < 8);  // a parser that looks at all of them for each takes longer
  std::string many = R"({"$defs":{"a0":{"type":"null"})";
  for (int i = 1; i < 40; i++)
    many += fmt::format(R"(,"a{}":{{"allOf":[{{"$ref":"#/$defs/a{}"}},{{"$ref":"#/$defs/a{}"}}]}})", i, i - 1,
                        i - 1);
  CHECK(test::contains(error(many + R"(},"$ref":"#/$defs/a39"})"), "JSON schema"));
}
