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

struct HttpLimits {
  int64_t body = int64_t{8} << 20;      // bytes of a request's body
  int64_t bodies = int64_t{256} << 20;  // bytes of all bodies in memory
  int64_t connections = 512;            // above this number a connection is refused with 503
  // Seconds within which a request must be complete, and within which the client must accept a piece of an answer.
  double patience = 20;
  double idle = 15;  // seconds between two requests of a connection
};

// Sends a piece of an answer; false if the client is gone. An empty piece only checks the connection.
using HttpSend = std::function<bool(std::string_view piece)>;

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body;
  std::vector<std::pair<std::string, std::string>> headers;  // further headers
  // Instead of a body: called once, it sends all pieces of the answer.
  std::function<void(const HttpSend& send)> stream;
  // A piece without content. Sent to find out whether a client that has closed its sending side still reads.
  std::string probe;
  bool closes = false;  // closes the connection after the answer
};

// A request that is being answered.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  std::string method, path, authorization, origin;  // path: without a query
  // Returns the body; may be called once. Returns nothing if the body is too large or incomplete; `refusal` is then the
  // answer.
  virtual std::optional<std::string> body(HttpAnswer& refusal) = 0;
  // True if the client has reset or closed the connection. A client that has only closed its sending side is not gone.
  // May be called until the answer is written.
  virtual bool gone() = 0;
};

// Returns the body of an error of the server itself. status: 4xx or 5xx.
using HttpRefusal = std::function<std::string(int status, const std::string& message)>;
using HttpHandler = std::function<HttpAnswer(HttpExchange& exchange)>;  // called by many threads at once

class HttpServer {
 public:
  // Listens and answers requests from now on. port 0: a free port. A host or port that is not available is a UserError.
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
