#pragma once

// A connection to a server on this machine, byte by byte, so that a test can also break it off.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "support/test.h"

namespace lathe::test {

class HttpConnection {
 public:
  explicit HttpConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit = {60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~HttpConnection() { close(); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void send(std::string_view bytes) {
    REQUIRE(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  // Reads until what came has `text` in it, or the other side is done; all that came so far.
  const std::string& read_until(std::string_view text) {
    char buffer[4096];
    while (came_.find(text) == std::string::npos) {
      const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      came_.append(buffer, static_cast<size_t>(got));
    }
    return came_;
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  std::string came_;
};

struct HttpAnswer {
  int status = 0;
  std::string head, body;  // the body without the lengths of its chunks
};

inline HttpAnswer parse_answer(const std::string& bytes) {
  HttpAnswer out;
  const size_t head = bytes.find("\r\n\r\n");
  REQUIRE(head != std::string::npos);
  out.head = bytes.substr(0, head);
  out.status = std::stoi(bytes.substr(9, 3));
  out.body = bytes.substr(head + 4);
  if (out.head.find("chunked") == std::string::npos) return out;
  std::string joined;
  for (size_t at = 0; at < out.body.size();) {
    const size_t line = out.body.find("\r\n", at);
    const size_t size = std::stoul(out.body.substr(at, line - at), nullptr, 16);
    joined += out.body.substr(line + 2, size);
    at = line + 2 + size + 2;
    if (size == 0) break;
  }
  out.body = joined;
  return out;
}

inline std::string http_request(std::string_view method, std::string_view path, std::string_view body = "") {
  return fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", method,
                     path, body.size(), body);
}

inline HttpAnswer http(int port, std::string_view method, std::string_view path, std::string_view body = "") {
  HttpConnection connection(port);
  connection.send(http_request(method, path, body));
  return parse_answer(connection.read_until(std::string(1, '\0') + "never"));
}

}  // namespace lathe::test
