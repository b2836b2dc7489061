#include "llm/net/http.h"

#include "base/error.h"
#include "base/log.h"

// As Debian's library was compiled.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_ZLIB_SUPPORT
#define CPPHTTPLIB_BROTLI_SUPPORT
#include <httplib.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace lathe {
namespace {

bool wait_for(int socket, short what, int64_t milliseconds) {
  pollfd p = {socket, what, 0};
  int got;
  do got = poll(&p, 1, static_cast<int>(milliseconds));
  while (got < 0 && errno == EINTR);
  return got > 0;
}

// The library's own stream does not tell that the other side has closed it.
class Connection : public httplib::Stream {
 public:
  Connection(int socket, const HttpServerOptions& options) : socket_(socket), options_(options) {}

  // Another request begins: the time that the client has for it.
  void begin() { deadline_ = Clock::now() + std::chrono::seconds(options_.read_seconds); }
  bool is_readable() const override {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    return left > 0 && wait_for(socket_, POLLIN, left);
  }
  bool is_writable() const override {
    return !is_gone() && wait_for(socket_, POLLOUT, 1000 * options_.write_seconds);
  }
  bool is_gone() const {
    char byte;
    const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }
  ssize_t read(char* to, size_t size) override {
    const ssize_t got = is_readable() ? recv(socket_, to, size, 0) : -1;
    is_broken_ = is_broken_ || got <= 0;
    return got;
  }
  bool is_broken() const { return is_broken_; }  // what comes next is no beginning of a request
  ssize_t write(const char* from, size_t size) override {
    return is_writable() ? send(socket_, from, size, MSG_NOSIGNAL) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  int socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  const int socket_;
  const HttpServerOptions& options_;
  Clock::time_point deadline_ = {};
  bool is_broken_ = false;
};

thread_local const Connection* tl_connection = nullptr;  // of the request that this thread handles

// The status of requests whose body the library would read without a bound: compressed, in chunks, or up to
// the end of the connection.
int refusal(const httplib::Request& request) {
  if (request.has_header("Content-Encoding")) return 415;
  const bool has_body = request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
  const bool is_bounded = request.has_header("Content-Length") || !has_body;
  return request.has_header("Transfer-Encoding") || !is_bounded ? 411 : 0;
}

class Listener : public httplib::Server {
 public:
  explicit Listener(const HttpServerOptions& options) : options_(options) {}

  int bound_port() const {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (getsockname(svr_sock_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                               : reinterpret_cast<sockaddr_in&>(address).sin_port);
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, options_);
    tl_connection = &connection;
    bool closed = false;
    const auto set_up = [&](httplib::Request& request) {
      request.headers.erase("Content-Type");  // of a form the library bounds the body by 8 KiB
      request.ranges.clear();                 // it would answer a part of an answer
      if (refusal(request) == 0) return;
      closed = true;  // the body stays unread
      request.headers.erase("Connection");
      request.headers.erase("Expect");
      request.set_header("Connection", "close");
    };
    bool goes_on = true;
    while (goes_on && !closed && has_request(socket)) {
      connection.begin();
      goes_on = process_request(connection, false, closed, set_up) && !connection.is_broken();
    }
    tl_connection = nullptr;
    shutdown(socket, SHUT_WR);
    // With bytes unread the connection would be reset, and the answer lost.
    char unread[1 << 16];
    for (int i = 0; closed && i < 300 && wait_for(socket, POLLIN, 100); i++)
      if (recv(socket, unread, sizeof unread, 0) <= 0) break;
    close(socket);
    return true;
  }

  // Another request begins within the time that a connection is kept. In short waits, so that stopping need
  // not wait.
  bool has_request(socket_t socket) const {
    for (int waited = 0; waited < 1000 * options_.idle_seconds && svr_sock_ != INVALID_SOCKET; waited += 100)
      if (wait_for(socket, POLLIN, 100)) return true;
    return false;
  }

  const HttpServerOptions& options_;
};

class SinkStream : public HttpStream {
 public:
  SinkStream(httplib::DataSink& sink, const Connection* connection) : sink_(sink), connection_(connection) {}
  bool write(std::string_view bytes) override {
    // An empty chunk would end the body.
    if (!bytes.empty() && !is_gone_ && !sink_.write(bytes.data(), bytes.size())) is_gone_ = true;
    return !is_gone_;
  }
  bool is_gone() override { return is_gone_ || connection_->is_gone(); }

 private:
  httplib::DataSink& sink_;
  const Connection* connection_;
  std::atomic<bool> is_gone_ = false;
};

HttpRequest request_of(const httplib::Request& request) {
  const Connection* connection = tl_connection;
  return {request.method, request.path, request.body,
          [&request](const char* name) { return request.get_header_value(name); },
          [connection] { return connection->is_gone(); }};
}

void fill(httplib::Response& response, HttpReply reply) {
  response.status = reply.status;
  if (!reply.stream) {
    response.set_content(reply.body, reply.type);
    return;
  }
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider(
      reply.type,
      [stream = std::move(reply.stream), connection = tl_connection](size_t, httplib::DataSink& sink) {
        SinkStream out(sink, connection);
        stream(out);
        if (!out.is_gone()) sink.done();
        return !out.is_gone();
      });
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const HttpServerOptions& o) : options(o), server(options) {
    server.new_task_queue = [this] { return new httplib::ThreadPool(options.threads); };
    server.set_payload_max_length(options.max_body_bytes);
    server.set_tcp_nodelay(true);
    server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (const int status = refusal(request)) response.status = status;
      return response.status > 0 ? httplib::Server::HandlerResponse::Handled
                                 : httplib::Server::HandlerResponse::Unhandled;
    });
    // The library would share the port with whoever serves on it already.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_exception_handler(
        [](const httplib::Request& request, httplib::Response& response, std::exception_ptr what) {
          response.status = 500;
          try {
            std::rethrow_exception(what);
          } catch (const std::exception& error) {
            log_error("{}: {}", request.path, error.what());
          } catch (...) {
            log_error("{}: an error that is none", request.path);
          }
        });
    server.set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty() && error_body)
        response.set_content(error_body(response.status, request_of(request)), "application/json");
    });
  }

  HttpServerOptions options;
  Listener server;
  std::function<std::string(int, const HttpRequest&)> error_body;
  std::thread thread;
};

HttpServer::HttpServer(const HttpServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HttpServer::~HttpServer() { stop(); }

void HttpServer::route(std::string_view method, std::string_view path, Handler handler) {
  std::string pattern;  // the library takes regular expressions
  for (char c : path)
    pattern +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '/' ? std::string{c} : std::string{'[', c, ']'};
  const auto call = [handler = std::move(handler)](const httplib::Request& request,
                                                   httplib::Response& response) {
    fill(response, handler(request_of(request)));
  };
  CHECK(method == "GET" || method == "POST", "routes are of GET or POST, not {}", method);
  method == "GET" ? impl_->server.Get(pattern, call) : impl_->server.Post(pattern, call);
}

void HttpServer::set_error_body(std::function<std::string(int, const HttpRequest&)> body) {
  impl_->error_body = std::move(body);
}

int HttpServer::start(const std::string& host, int port) {
  errno = 0;
  if (port == 0 ? impl_->server.bind_to_any_port(host) < 0 : !impl_->server.bind_to_port(host, port))
    user_runtime_error("cannot listen on {}:{}: {}", host, port,
                       errno ? std::strerror(errno) : "the address is unknown");
  const int bound = impl_->server.bound_port();
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  while (!impl_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return bound;
}

void HttpServer::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->server.stop();
  impl_->thread.join();
}

}  // namespace lathe
