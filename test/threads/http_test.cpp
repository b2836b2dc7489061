// The HTTP server: routes, streams, clients that go away, and several at a time.
#include "llm/net/http.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "support/http_client.h"
#include "support/test.h"

using namespace lathe;

namespace {

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000 && !holds(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

}  // namespace

TEST_CASE("http: routes and errors") {
  HttpServer server({.max_body_bytes = 1000});
  server.route("GET", "/a.b", [](const HttpRequest&) { return HttpReply{.body = "get"}; });
  server.route("POST", "/a.b", [](const HttpRequest& r) {
    return HttpReply{
        .status = 201, .type = "text/plain", .body = r.method + r.path + r.body + r.header("X-Y")};
  });
  server.route("GET", "/throws", [](const HttpRequest&) -> HttpReply { value_error("no"); });
  server.route("GET", "/refuses", [](const HttpRequest&) { return HttpReply{.status = 400, .body = "why"}; });
  server.set_error_body(
      [](int status, const HttpRequest& r) { return fmt::format("E{}{}", status, r.path); });
  const int port = server.start("127.0.0.1", 0);
  REQUIRE(port > 0);
  CHECK(test::http(port, "GET", "/a.b").body == "get");
  const auto posted = test::http(port, "POST", "/a.b", "body");
  CHECK(posted.status == 201);
  CHECK(posted.body == "POST/a.bbody");
  CHECK(test::contains(posted.head, "text/plain"));
  CHECK(test::http(port, "GET", "/axb").body == "E404/axb");
  CHECK(test::http(port, "POST", "/refuses").status == 404);
  CHECK(test::http(port, "GET", "/refuses").body == "why");
  const auto thrown = test::http(port, "GET", "/throws");
  CHECK(thrown.status == 500);
  CHECK(thrown.body == "E500/throws");
  CHECK(test::http(port, "POST", "/a.b", std::string(2000, 'x')).status == 413);
  test::HttpConnection nonsense(port);
  nonsense.send("nonsense\r\n\r\n");
  CHECK(test::contains(nonsense.read_until("\r\n\r\n"), " 400 "));
  CHECK(test::contains(test::user_error([&] { HttpServer().start("127.0.0.1", port); }).what(),
                       fmt::format("cannot listen on 127.0.0.1:{}: ", port)));
  server.stop();
}

TEST_CASE("http: bodies are bounded, and of any type") {
  HttpServer server({.max_body_bytes = 20000, .read_seconds = 1});
  server.route("POST", "/", [](const HttpRequest& r) { return HttpReply{.body = r.body}; });
  const int port = server.start("127.0.0.1", 0);
  const auto status = [&](const std::string& headers, const std::string& body) {
    test::HttpConnection connection(port);
    connection.send("POST / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body);
    return test::parse_answer(connection.read_until("nothing")).status;
  };
  const std::string body(10000, 'x'), close = "Connection: close\r\n", length = "Content-Length: 10000\r\n";
  CHECK(status(close + length + "Content-Type: application/x-www-form-urlencoded\r\n", body) == 200);
  CHECK(status(close + length + "Range: bytes=0-9\r\n", body) == 200);
  CHECK(status(length + "Content-Encoding: gzip\r\n", body) == 415);
  CHECK(status("Transfer-Encoding: chunked\r\n", "2\r\nxx\r\n0\r\n\r\n") == 411);
  CHECK(status("", body) == 411);
  // One time for the whole request, not for each of its pieces.
  test::HttpConnection slow(port);
  slow.send("POST / HTTP/1.1\r\nHost: x\r\n" + length + "\r\n");
  for (int i = 0; i < 3; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    slow.send("x");
  }
  const auto begin = std::chrono::steady_clock::now();
  slow.read_until("nothing");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(700));
}

TEST_CASE("http: a connection serves several requests") {
  HttpServer server;
  server.route("GET", "/", [](const HttpRequest&) { return HttpReply{.body = "x"}; });
  test::HttpConnection connection(server.start("127.0.0.1", 0));
  for (int i = 0; i < 2; i++) connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.send(test::http_request("GET", "/"));
  const std::string all = connection.read_until("nothing");
  int answers = 0;
  for (size_t at = 0; (at = all.find("HTTP/1.1 200 OK", at)) != all.npos; at++) answers++;
  CHECK(answers == 3);
}

TEST_CASE("http: streams, and clients that go away") {
  std::atomic<int> pieces = 0, gone = 0, waiting = 0;
  HttpServer server;
  server.route("GET", "/stream", [&](const HttpRequest&) {
    return HttpReply{.type = "text/event-stream", .stream = [&](HttpStream& out) {
                       for (int i = 0; i < 3; i++) out.write("data: x\n\n");
                     }};
  });
  server.route("GET", "/endless", [&](const HttpRequest&) {
    return HttpReply{.type = "text/event-stream", .stream = [&](HttpStream& out) {
                       while (out.write("data: x\n\n")) {
                         pieces++;
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                       }
                       gone++;
                     }};
  });
  server.route("GET", "/wait", [&](const HttpRequest& r) {
    waiting++;
    while (!r.is_gone()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gone++;
    return HttpReply{};
  });
  const int port = server.start("127.0.0.1", 0);
  const auto answer = test::http(port, "GET", "/stream");
  CHECK(answer.body == "data: x\n\ndata: x\n\ndata: x\n\n");
  CHECK(test::contains(answer.head, "Cache-Control: no-cache"));
  CHECK(test::contains(answer.head, "Content-Type: text/event-stream"));
  {
    test::HttpConnection endless(port), wait(port);
    endless.send(test::http_request("GET", "/endless"));
    wait.send(test::http_request("GET", "/wait"));
    CHECK(test::contains(endless.read_until("data: x"), "data: x"));
    CHECK(eventually([&] { return waiting == 1; }));
    CHECK(test::http(port, "GET", "/stream").status == 200);  // beside the other two
    CHECK(gone == 0);
  }
  CHECK(eventually([&] { return gone == 2; }));
  CHECK(pieces > 0);
}
