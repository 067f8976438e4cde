// HTTP/1.1 for a service whose clients nobody vouches for. cpp-httplib answers what a guard has let pass: the guard reads the
// head of each request whole, within bounds of size and time, and refuses what is no plain GET, POST or OPTIONS (RFC 9112). Each
// connection has a thread.
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
  int64_t bodies = int64_t{256} << 20;  // of all bodies that are held
  int64_t connections = 512;            // more are refused with 503
  double patience = 20;                 // seconds in which a request has come, and in which a piece of an answer is taken
  double idle = 15;                     // seconds between two requests of a connection
};

// A piece of an answer goes out; false: the client is gone. An empty one only asks.
using HttpSend = std::function<bool(std::string_view piece)>;

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
  // Instead of a body: called once, sends pieces until the answer is whole.
  std::function<void(const HttpSend& send)> stream;
  std::string probe;    // a piece that says nothing, written to see whether a client that has closed its end is there
  bool closes = false;  // the connection, after it
};

// A request while it is answered.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  std::string method, path, authorization, origin;  // path: without a query
  // The body, once. None where it is too large, or did not come: then `refusal` is the answer to give.
  virtual std::optional<std::string> body(HttpAnswer& refusal) = 0;
  // True if the client is gone: it has reset or closed the connection. One that has only closed its own end is still there. May be
  // asked until its answer is written.
  virtual bool gone() = 0;
};

// What clients are told by the server itself. status: 4xx or 5xx.
using HttpRefusal = std::function<std::string(int status, const std::string& message)>;
using HttpHandler = std::function<HttpAnswer(HttpExchange& exchange)>;  // called by many threads at once

class HttpServer {
 public:
  // Listens; requests are answered from now on. port 0: a free one. A host or port that cannot be had is a UserError.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal);
  ~HttpServer();  // takes no more connections, and waits until answers under way are written
  int port() const { return port_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  int port_ = 0;
  std::thread listener_;
};

}  // namespace ravine
