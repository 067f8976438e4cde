// An HTTP/1.1 server for untrusted clients, on cpp-httplib. A guard reads the whole head of each request first, with
// limits of size and time. It accepts plain GET, POST and OPTIONS only (RFC 9112). Each connection has a thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ravine {

// The limits of an HttpServer.
struct HttpLimits {
  int64_t body = int64_t{8} << 20;      // largest body of a request, in bytes
  int64_t bodies = int64_t{256} << 20;  // largest sum of the bodies of all requests in memory, in bytes
  int64_t connections = 512;            // above this number a connection is refused with 503
  // Seconds within which a request must be complete, and within which the client must accept a piece of an answer.
  double patience = 20;
  double idle = 15;  // seconds after which a connection without a new request is closed
};

// Sends a piece of an answer; false if the client is gone. An empty piece only checks the connection.
using HttpSend = std::function<bool(std::string_view piece)>;

// The answer to a request, made by an HttpHandler.
struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body;
  std::vector<std::pair<std::string, std::string>> headers;  // further headers
  // If set, sends the answer in pieces instead of `body`: it is called once, and calls send() for each piece.
  std::function<void(const HttpSend& send)> stream;
  // A piece without content for the format of `stream`. The server sends it to find out if a client that has closed its
  // sending side still reads.
  std::string probe;
  bool closes = false;  // true: the server closes the connection after the answer
};

// A request that is being answered. The server implements it.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  std::string method, path, authorization, origin;  // path: without a query
  // Reads the body of the request; may be called once. Returns nothing if the body is too large or incomplete;
  // `refusal` is then set to the answer that the handler must return.
  virtual std::optional<std::string> body(HttpAnswer& refusal) = 0;
  // True if the client has reset or closed the connection. A client that has only closed its sending side is not gone.
  // May be called until the answer is written.
  virtual bool gone() = 0;
};

// A function that returns the JSON body of an answer with an error that HttpServer has found itself (such as a wrong
// head). status: 4xx or 5xx.
using HttpRefusal = std::function<std::string(int status, const std::string& message)>;
using HttpHandler = std::function<HttpAnswer(HttpExchange& exchange)>;  // called by many threads at once

class HttpServer {
 public:
  // Listens on host:port and answers requests from now on. port 0: a free port is chosen. A host or port that is not
  // available is a UserError.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal);
  ~HttpServer();  // accepts no further connection, and waits until started answers are written
  int port() const { return port_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  int port_ = 0;
  std::thread listener_;
};

}  // namespace ravine
