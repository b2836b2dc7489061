#pragma once

// An HTTP server on threads, over libcpp-httplib, which no other file includes.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lathe {

struct HttpRequest {
  std::string method, path, body;
  std::function<std::string(const char* name)> header;  // "" where there is none
  // The client has closed the connection: nobody waits for an answer. For the thread that handles the
  // request.
  std::function<bool()> is_gone;
};

// Writes a body piece by piece.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // False where the client is gone or has taken nothing for long.
  virtual bool write(std::string_view bytes) = 0;
  virtual bool is_gone() = 0;  // may be called by other threads too
};

// What a handler answers: a text, or a function that is called after it to write the body.
struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::function<void(HttpStream&)> stream = {};
};

struct HttpServerOptions {
  size_t threads = 64;  // connections at a time, open streams included
  size_t max_body_bytes = 64 << 20;
  int read_seconds = 30;   // for a client to send a request
  int write_seconds = 30;  // for a client to take a piece
  int idle_seconds = 5;    // that a connection is kept for another request
};

class HttpServer {
 public:
  // Called on a thread for each connection, for several requests at a time. What it throws is answered by
  // 500.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  explicit HttpServer(const HttpServerOptions& options = {});
  ~HttpServer();  // stops
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Before start(). `path` is literal.
  void route(std::string_view method, std::string_view path, Handler handler);
  // What is answered where there is no route, and to requests that are none: an HTTP status to a body.
  void set_error_body(std::function<std::string(int status, const HttpRequest&)> body);

  // Takes the address (port 0: a free one), begins to serve on threads of its own, and returns the port.
  // RuntimeError where the address cannot be had.
  int start(const std::string& host, int port);
  // Takes no more requests, and returns when the handlers that run have.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe
