// The template language: what comes out is what Jinja2 3.1 makes of the same template with trim_blocks and
// lstrip_blocks.
#include "llm/jinja/template.h"

#include <nlohmann/json.hpp>

#include "support/test.h"

using namespace lathe;
using jinja::Dict;
using jinja::Template;
using jinja::Text;

namespace {

const char* const kVariables =
    R"json({"n": 3, "x": 1.5, "s": "Hello World", "t": "  a b\n", "u": "é🚀z", "l": [3, 1, 2], "d": {"b": 1, "A": 2, "c": {"k": [1, null, true]}}, "w": [{"n": "x", "v": 1}, {"n": "Y", "v": 2}, {"n": "x"}], "e": [], "z": null, "q": "it's \"q\""})json";

Dict variables() { return *jinja::from_json(nlohmann::ordered_json::parse(kVariables), false).dict(); }

std::string render(std::string_view source, const jinja::Limits& limits = {}) {
  return Template::parse(source, "t").or_throw().render(variables(), {}, limits).bytes();
}

void check(std::initializer_list<std::pair<const char*, const char*>> rows) {
  for (const auto& [source, expected] : rows) {
    INFO("template: ", std::string(source));
    std::string text;
    try {
      text = render(source);
    } catch (const UserError& error) {
      text = error.what();
    }
    CHECK(text == std::string(expected));
  }
}

}  // namespace

TEST_CASE("jinja: white space") {
  check({
      {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
      {"a\n  {%- if true %}\n  b\n  {%- endif %}\nc\n\n", "a  bc\n"},
      {"a {{- 1 -}} b", "a1b"},
      {"  {{ 1 }}\n x", "  1\n x"},
      {"a\n\t {# c #}\nb", "a\nb"},
      {"a {#- c -#}\n b", "ab"},
      {"x {% set a = 1 %}\ny", "x y"},
      {"x\n  {%+ set a = 1 %}\ny", "x\n  y"},
      {"x\n  {% set a = 1 +%}\ny", "x\n\ny"},
      {"{% raw %}{{ x }} {% if %}{% endraw %}\nz", "{{ x }} {% if %}z"},
      {"{%- raw -%}  a  {%- endraw -%}  b", "ab"},
      {"\r\na\r\n{% if 1 %}\r\nb\r\n{% endif %}\r\n", "\na\nb\n"},
      {"a { b } {{ '{%' }}", "a { b } {%"},
      {"{% for i in [1,2] %}\n  {% if i == 1 %}\n    {{ i }}\n  {% endif %}\n{% endfor %}\nend",
       "    1\nend"},
      {"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},
      {"{# {{ #}x", "x"},
      {"{{ 1 }}\n{{ 2 }}\n", "1\n2"},
  });
}

TEST_CASE("jinja: expressions") {
  check({
      {"{{ 1 + 2 * 3 - 4 / 2 }}", "5.0"},
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
       "3 -4 2 -2 1024 0.5"},
      {"{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }} {{ 1_000 }}",
       "3.0 0.5 0.3333333333333333 1e+16 1e-05 100.0 1000"},
      {"{{ -2 ** 2 }} {{ -n|abs }} {{ (-n)|abs }}", "4 3 3"},
      {"{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }}", "a1NoneTrue1.0"},
      {"{{ 'ab' 'cd' }}", "abcd"},
      {"{{ 'ab' * 2 }}{{ 2 * [1] }}", "abab[1, 1]"},
      {"{{ [1] + [2] }}", "[1, 2]"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }}", "True False True True"},
      {"{{ 1 == 1.0 }} {{ true == 1 }} {{ none == missing }} {{ 'a' == 1 }} {{ missing == other }} {{ l == "
       "[3,1,2] }} {{ d != {} }}",
       "True True False False True True True"},
      {"{{ 1 in l }} {{ 'ell' in s }} {{ 'b' in d }} {{ 5 not in l }} {{ 1 in missing }}",
       "True True True True False"},
      {"{{ not n == 3 }} {{ not n and true }} {{ 0 or 'x' }} {{ 1 and 2 }} {{ '' and 3 }}|",
       "False False x 2 |"},
      {"{{ 'yes' if n == 3 else 'no' }}{{ 'x' if false }}{{ 1 if 0 else 2 if 0 else 3 }}", "yes3"},
      {"{{ (1, 2)[1] }} {{ [1, 'a', none, true, 1.5] }} {{ {'a': 'b', 'c': [1]} }}",
       "2 [1, 'a', None, True, 1.5] {'a': 'b', 'c': [1]}"},
      {"{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[:1] }} {{ l[5] }} {{ s[1:4] }} {{ "
       "s[::-1] }} {{ u[1] }} {{ u[-1] }} {{ u[::2] }} {{ l[2:0:-1] }} {{ s[-100:3] }} {{ s[8:100] }}",
       "3 2 [1, 2] [2, 1, 3] [1, 2] [3]  ell dlroW olleH 🚀 z éz [2, 1] Hel rld"},
      {"{{ d.c.k[0] }} {{ d['c']['k'][2] }} {{ d.missing }} {{ d['x'] }} {{ w.0.n }} {{ w[1].v }} {{ n.foo "
       "}}|",
       "1 True   x 2 |"},
      {"{{ q }} {{ [q] }} {{ ['it\\'s'] }} {{ ['a\\nb\\\\'] }} {{ '\\u00e9\\x41' }} {{ '\\d' }}",
       "it's \"q\" ['it\\'s \"q\"'] [\"it's\"] ['a\\nb\\\\'] éA \\d"},
      {"{% for k, v in d.items() %}{{ k }}{{ v }} {% endfor %}{{ d.keys() | list }} {{ d.values() | list }} "
       "{{ d.get('b') }} {{ d.get('no') }} {{ d.get('no', 5) }}",
       "b1 A2 c{'k': [1, None, True]} ['b', 'A', 'c'] [1, 2, {'k': [1, None, True]}] 1 None 5"},
      {"{{ +1 }} {{ - 1 }} {{ not true }} {{ 1 is number and 2 is number }}", "1 -1 False True"},
      {"{{ 3.0 * 2 }} {{ true + 1 }} {{ 5 % 3.5 }}", "6.0 2 1.5"},
  });
}

TEST_CASE("jinja: statements") {
  check({
      {"{% set a = 1 %}{% if a == 2 %}x{% elif a == 1 %}y{% else %}z{% endif %}", "y"},
      {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ "
       "loop.revindex }}{{ loop.revindex0 }},{% endfor %}",
       "10TrueFalse332,21FalseFalse321,32FalseTrue310,"},
      {"{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "<3>1 3<1>2 1<2> "},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;A=2;c={'k': [1, None, True]};"},
      {"{% for i in l if i > 1 %}{{ i }}/{{ loop.length }} {% else %}none{% endfor %}", "3/2 2/2 "},
      {"{% for i in e %}x{% else %}empty{% endfor %}", "empty"},
      {"{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif "
       "%}{{ i }}{% endfor %}",
       "0134"},
      {"{% for c in u %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "[é][🚀][z]bAc"},
      {"{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "1"},
      {"{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x "
       "}}{{ ns.y }}{{ ns.z }}",
       "7a"},
      {"{% if true %}{% set k = 5 %}{% endif %}{{ k }}", "5"},
      {"{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set p = 1, 2 %}{{ p[1] }}", "122"},
      {"{% set b %}<{{ n }}>{% endset %}{{ b }}{% set c | trim | upper %}  abc  {% endset %}{{ c }}|",
       "<3>ABC|"},
      {"{% macro m(a, b=2, c='z') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ "
       "m(b=5, a=4) }}{{ m() }}",
       "(1,2,z)(1,2,3)(4,5,z)(,2,z)"},
      {"{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", "4321"},
      {"{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}", "2"},
      {"{% macro m(x) %}{{ x }}{{ loop }}{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}", "312"},
      {"{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}{{ a()|length }}",
       "AB2"},
      {"{% set a = [] %}{% set _ = a.append(1) %}{% set _ = a.append([2]) %}{{ a }}{{ a.pop() }}{{ a.pop(0) "
       "}}{{ a }}{{ l.index(2) }}",
       "[1, [2]][2]1[]2"},
      {"{% for a in l %}{% for b in l %}{{ a }}{{ b }}{{ loop.last }} {% endfor %}{{ loop.index }}{% endfor "
       "%}",
       "33False 31False 32True 113False 11False 12True 223False 21False 22True 3"},
      {"{% for x in range(0, 10, 3) %}{{ x }}{% endfor %}{{ range(3)|list }}{{ range(3, 0, -1)|list }}",
       "0369[0, 1, 2][3, 2, 1]"},
      {"{% for x in missing %}x{% endfor %}ok{% for i in [1, 2] if i is odd %}{{ i }}{% endfor %}", "ok1"},
      {"{{ dict(a=1, b=n) }}{{ namespace is mapping }}", "{'a': 1, 'b': 3}False"},
  });
}

TEST_CASE("jinja: filters") {
  check({
      {"{{ s|upper }} {{ s|lower }} {{ 'hello wORLD x-y'|title }} {{ s|capitalize }} {{ t|trim }}| {{ "
       "'xxaxx'|trim('x') }}",
       "HELLO WORLD hello world Hello World X-Y Hello world a b| a"},
      {"{{ l|length }} {{ u|length }} {{ d|count }} {{ missing|length }}", "3 3 3 0"},
      {"{{ l|join(', ') }} {{ l|join }} {{ w|join('-', attribute='n') }}", "3, 1, 2 312 x-Y-x"},
      {"{{ l|first }} {{ l|last }} {{ e|first }} {{ s|first }}{{ s|last }}|", "3 2  Hd|"},
      {"{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ 'ab'|replace('', '-') }}",
       "Hell0 W0rld Hell0 World -a-b-"},
      {"{{ missing|default('x') }} {{ ''|default('x') }} {{ ''|default('x', true) }} {{ z|default('x') }} {{ "
       "z|d('y', boolean=true) }} {{ missing|default }}|",
       "x  x None y |"},
      {"{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ '3.9'|int }} {{ ' 5 '|int }} {{ "
       "-3.9|int }} {{ '1.5'|float }} {{ 'a'|float }} {{ 3|float }} {{ z|int }}",
       "42 0 7 3 3 5 -3 1.5 0.0 3.0 0"},
      {"{{ 3|string + 'a' }} {{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }}",
       "3a ['a', 'b', 'c'] ['b', 'A', 'c'] [1, 2]"},
      {"{{ d|items|map('last')|list }} {{ d|dictsort|map('first')|list }} {{ d.items()|list|length }} {{ "
       "{'b':1,'A':2}|dictsort(true)|map('first')|join }} {{ {'b':1,'A':2}|dictsort(by='value', "
       "reverse=true)|map('first')|join }}",
       "[1, 2, {'k': [1, None, True]}] ['A', 'b', 'c'] 3 Ab Ab"},
      {"{{ w|map(attribute='n')|list }} {{ w|map(attribute='v', default=0)|list }} {{ "
       "['a','b']|map('upper')|join }} {{ ['a ','b']|map('replace', 'a', 'c')|list }}",
       "['x', 'Y', 'x'] [1, 2, 0] AB ['c ', 'b']"},
      {"{{ w|selectattr('v')|list|length }} {{ w|selectattr('n', 'equalto', 'x')|list|length }} {{ "
       "w|rejectattr('v', 'defined')|list }} {{ l|select('odd')|list }} {{ l|reject('eq', 3)|list }} {{ [0, "
       "1, '']|select|list }} {{ z|select|list }}",
       "2 2 [{'n': 'x'}] [3, 1] [1, 2] [1] []"},
      {"{{ ['b','A','a','B']|sort }} {{ ['b','A','a','B']|sort(case_sensitive=true) }} {{ "
       "l|sort(reverse=true) }} {{ w[:2]|sort(attribute='v', reverse=true)|map(attribute='n')|list }} {{ "
       "['b','A','a','B']|unique|list }} {{ [1,2,1]|unique|list }}",
       "['A', 'a', 'b', 'B'] ['A', 'B', 'a', 'b'] [3, 2, 1] ['Y', 'x'] ['b', 'A'] [1, 2]"},
      {"{{ l|reverse|list }} {{ u|reverse }} {{ l|min }} {{ l|max }} {{ l|sum }} {{ w[:2]|sum(attribute='v') "
       "}}",
       "[2, 1, 3] z🚀é 1 3 6 3"},
      {"{{ 2.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ 7|round }} {{ -5|abs }} {{ "
       "-1.5|abs }}",
       "2.0 2.57 3.0 7 5 1.5"},
      {"{{ 'a\n\nb'|indent }}| {{ 'a\nb\n'|indent(2, true) }}| {{ 'a\n\nb'|indent('>', blank=true) }}",
       "a\n\n    b|   a\n  b\n| a\n>\n>b"},
      {"{{ '<a href=\"x\">&\\'</a>'|e }} {{ '<b>'|safe + '<c>' }} {{ '<b>'|e|e }}",
       "&lt;a href=&#34;x&#34;&gt;&amp;&#39;&lt;/a&gt; <b>&lt;c&gt; &lt;b&gt;"},
      {"{{ d|tojson }} {{ u|tojson }} {{ q|tojson }} {{ [1.0, none, true]|tojson }} {{ "
       "'a\\n\\t\\u0001'|tojson }} {{ '<>&'|tojson }}",
       "{\"b\": 1, \"A\": 2, \"c\": {\"k\": [1, null, true]}} \"é🚀z\" \"it's \\\"q\\\"\" [1.0, null, true] "
       "\"a\\n\\t\\u0001\" \"<>&\""},
      {"{{ d|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ [[]]|tojson(indent=1) }}",
       "{\n  \"b\": 1,\n  \"A\": 2,\n  \"c\": {\n    \"k\": [\n      1,\n      null,\n      true\n    ]\n  "
       "}\n}{}[\n []\n]"},
      {"{{ u|tojson(ensure_ascii=true) }} {{ d|tojson(separators=(',', ':')) }} {{ "
       "{'b':1,'a':2}|tojson(sort_keys=true) }}",
       "\"\\u00e9\\ud83d\\ude80z\" {\"b\":1,\"A\":2,\"c\":{\"k\":[1,null,true]}} {\"a\": 2, \"b\": 1}"},
  });
}

TEST_CASE("jinja: methods") {
  check({
      {"{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xyaxy'.strip('yx') }}|{{ "
       "'\\n\\na\\n'.lstrip('\\n') }}",
       "a b|a b\n|  a b|a|a\n"},
      {"{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b c "
       "'.split(none, 1) }} {{ ''.split(',') }} {{ ''.split() }}",
       "['a', 'b', 'c'] ['a', 'b,c'] ['a', 'b'] ['a', 'b c '] [''] []"},
      {"{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('x') }}", "True True False"},
      {"{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.upper() }} {{ s.lower() }} {{ 'hello "
       "wORLD x-y'.title() }} {{ s.capitalize() }}",
       "HeLLo WorLd HeLlo World HELLO WORLD hello world Hello World X-Y Hello world"},
      {"{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('q') }} {{ u.find('z') }} {{ s.count('l') }}",
       "4 7 -1 2 3"},
      {"{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}{{}}'.format(1, 2) }} {{ '{x}'.format(x=3) }}", "1 a 21{} 3"},
      {"{{ ', '.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a1'.isalpha() }} {{ "
       "''.isdigit() }}",
       "a, b True True False False"},
      {"{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }}",
       "['a', 'b', 'c'] ['a\\n', 'b']"},
  });
}

TEST_CASE("jinja: tests") {
  check({
      {"{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ missing is not defined }} "
       "{{ z is none }} {{ z is not none }} {{ missing is none }}",
       "True False True True True False False"},
      {"{{ s is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d "
       "is sequence }} {{ n is sequence }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ "
       "missing is iterable }} {{ missing is sequence }} {{ z is iterable }}",
       "True True False True True True False True True False True True False"},
      {"{{ n is number }} {{ true is number }} {{ x is number }} {{ s is number }} {{ n is integer }} {{ "
       "true is integer }} {{ x is integer }} {{ x is float }} {{ true is boolean }} {{ n is boolean }} {{ "
       "true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}",
       "True True True False True False False True True False True False True False"},
      {"{{ n is equalto 3 }} {{ n is equalto(3) }} {{ n is eq 3 }} {{ n is ne 3 }} {{ n is odd }} {{ n is "
       "even }} {{ n is divisibleby 3 }} {{ n is in [1, 3] }} {{ n is not in [3] }} {{ n is gt 2 }} {{ n is "
       "lt(2) }} {{ 'abc' is lower }} {{ 'ABC' is upper }}",
       "True True True False True False True True False True False True True"},
      {"{{ 'a' if s is string else 'b' }} {{ n is defined and n is odd or false }} {{ range is callable }}",
       "a True True"},
  });
}

TEST_CASE("jinja: marks follow the bytes of messages") {
  Dict messages;
  messages.set(Text("m"), Text("<User> é", true));
  messages.set(Text("l"), jinja::List{Text("a,b", true), Text("c")});
  for (const auto& [source, text, marks] :
       std::initializer_list<std::tuple<const char*, const char*, const char*>>{
           {"<{{ m }}>", "<<User> é>", ".mmmmmmmmm."},
           {"{{ m|trim|upper }}{{ m[1:3] }}", "<USER> éUs", "mmmmmmmmmmm"},
           {"{{ 'x' ~ m[:2] + 'y' }}", "x<Uy", ".mm."},
           {"{{ l|join('-') }}", "a,b-c", "mmm.."},
           {"{{ l[0].split(',') | join('+') }}", "a+b", "m.m"},
           {"{{ l|tojson }}", "[\"a,b\", \"c\"]", "..mmm......."},
           {"{{ 'axb'.replace('x', l[0]) }}", "aa,bb", ".mmm."},
           {"{% set ns = namespace(t='') %}{% set ns.t = ns.t + m[-1] %}{{ ns.t }}|", "é|", "mm."},
           {"{% macro f(x) %}({{ x }}){% endmacro %}{{ f(m[0]) }}", "(<)", ".m."},
           {"{{ '{}!'.format(l[0]) }}", "a,b!", "mmm."},
           {"{{ m|reverse }}", "é >resU<", "mmmmmmmmm"},
           {"{{ [m[0]] }}", "['<']", "..m.."}}) {
    INFO("template: ", std::string(source));
    const Text out = Template::parse(source).or_throw().render(messages);
    CHECK(out.bytes() == std::string(text));
    std::string got;
    for (size_t i = 0; i < out.size(); i++) got += out.is_marked(i) ? 'm' : '.';
    CHECK(got == std::string(marks));
  }
}

TEST_CASE("jinja: clock") {
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mday = 2;
  const Template t = Template::parse("{{ strftime_now('%d %b %Y') }}").or_throw();
  CHECK(t.render({}, now).bytes() == "02 Jan 2026");
  CHECK(t.render({}).size() == 11);
}

TEST_CASE("jinja: templates that are none") {
  for (const auto& [source, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a\n{% if %}", "t: offset 8: line 2: expected a value, found '%}'"},
           {"{% if x %}", "the template ends before endif"},
           {"{% for x in y %}{% endif %}", "unknown statement 'endif'"},
           {"{% nonsense %}", "line 1: unknown statement 'nonsense'"},
           {"{{ x", "a tag that does not end in }}"},
           {"{# x", "a comment that does not end"},
           {"{{ 'x }}", "a string that does not end"},
           {"{{ '\\u12' }}", "\\u wants 4 hexadecimal digits"},
           {"{{ a b }}", "expected '}}', found 'b'"},
           {"{{ a ? b }}", "unexpected character '?'"},
           {"{{ 99999999999999999999 }}", "the number 99999999999999999999 is too large"},
           {"{{ f(*a) }}", "arguments from a list or dictionary are not supported"},
           {"{% raw %}", "raw without endraw"},
           {"{% break %}", "break outside of a loop"},
           {"{% set x %}", "the template ends before endset"},
           {"{{ x[] }}", "empty brackets"}}) {
    INFO("template: ", std::string(source));
    const auto parsed = Template::parse(source, "t");
    REQUIRE(!parsed.ok());
    CHECK(test::contains(parsed.error().message(), text));
  }
  const std::string deep = "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}";
  CHECK(test::contains(Template::parse(deep).error().text, "nested too deeply"));
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; i++) chain += "+1";
  CHECK(test::contains(Template::parse(chain + " }}").error().text, "nested too deeply"));
  std::string blocks;
  for (int i = 0; i < 5000; i++) blocks += "{% if 1 %}";
  CHECK(test::contains(Template::parse(blocks).error().text, "nested too deeply"));
}

TEST_CASE("jinja: what cannot be rendered") {
  for (const auto& [source, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\n{{ missing.x }}", "'missing' is undefined\n  while rendering t, line 2"},
           {"{{ d.no.x }}", "'no' is undefined"},
           {"{{ d['no'].x }}", "'no' is undefined"},
           {"{{ 'a' + missing }}", "'missing' is undefined"},
           {"{{ 'a' + 1 }}", "+ of a value of type string and one of type integer"},
           {"{{ n() }}", "a value of type integer cannot be called"},
           {"{{ nothing() }}", "'nothing' is undefined"},
           {"{{ 1 // 0 }}", "1 // 0"},
           {"{{ 9223372036854775807 + 1 }}", "does not fit into 64 bits"},
           {"{{ (0 - 9223372036854775807 - 1) // -1 }}", "does not fit into 64 bits"},
           {"{{ 3 ** 1000 }}", "3 ** 1000 does not fit into 64 bits"},
           {"{{ n|nothing }}", "unknown filter 'nothing'"},
           {"{{ n is nothing }}", "unknown test 'nothing'"},
           {"{{ [1]|sort('a')|map('x')|list }}", "unknown filter 'x'"},
           {"{{ 1 < 'a' }}", "a integer and a string have no order"},
           {"{% for x in 5 %}{% endfor %}", "a value of type integer cannot be looped over"},
           {"{% set a, b = [1] %}", "1 values for 2 names"},
           {"{% set n.x = 1 %}", "'n' is no namespace"},
           {"{{ l[::0] }}", "the step of a slice is 0"},
           {"{{ range(1000000) }}", "a range of more than 100000 elements"},
           {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "macro m takes 1 arguments, not 2"},
           {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "macro m has no argument 'b'"},
           {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls or nests more than 1000 deep"},
           {"{{ s.split('') }}", "split at an empty string"},
           {"{{ '{}'.format() }}", "format: no argument for '{}'"},
           {"{{ range|tojson }}", "cannot be written as JSON"},
           {"{{ [].pop() }}", "pop(-1) of a list of 0"},
           {"{{ 'x' * 100000000 }}", "makes a text of more than 67108864 bytes"},
           {"{% set a = [] %}{% set _ = a.append(a) %}{{ a }}", "nested more than 200 deep"},
           {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"},
           {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
            "a text of more than"},
           // Few lists that are many where they are written or compared, and texts that are read again and
           // again.
           {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
            "{{ ns.x }}",
            "steps"},
           {"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
            "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
            "steps"},
           {"{% set s = 'a' * 60000000 %}{% for i in range(2000) %}{% set n = s|length %}{% endfor %}",
            "steps"},
           {"{% set l = ['x'] * 100000 %}{% for i in range(100000) %}{% set n = 'q'.startswith(l) %}{% "
            "endfor %}",
            "steps"},
           {"{% set s = 'a' * 30000000 %}{% set l = [] %}"
            "{% for i in range(300) %}{% set _ = l.append(s.upper()) %}{% endfor %}",
            "steps"}}) {
    INFO("template: ", std::string(source));
    CHECK(test::contains(test::user_error([&] { render(source); }).what(), text));
  }
  const auto raised = test::thrown<jinja::RaisedError>([] { render("{{ raise_exception('no ' ~ n) }}"); });
  CHECK(raised.reason == "no 3");
  CHECK(test::contains(raised.what(),
                       "the template refuses these messages: no 3\n  while rendering t, line 1"));
  CHECK(test::contains(test::user_error([] { render("{{ 1 + 1 }}", {.steps = 2}); }).what(),
                       "more than 2 steps"));
}

TEST_CASE("jinja: values nested deeper than the stack end without it") {
  CHECK(render("{% set ns = namespace(x=[]) %}{% for j in range(3) %}{% for i in range(100000) %}"
               "{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}ok") == "ok");
  CHECK(render("{% set ns = namespace(x={}) %}{% for i in range(100000) %}"
               "{% set ns.x = {'a': [ns.x].append} %}{% endfor %}ok") == "ok");
}
