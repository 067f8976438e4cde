#include "serve/http.h"

#include <httplib.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/blocked_signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "serve/http_head.h"

namespace ravine {
namespace {

constexpr double kTick = 0.1;  // seconds after which a waiting thread checks whether the server ends

// A connection. Reading has a deadline for a whole request, writing has one for each piece.
class Connection : public httplib::Stream {
 public:
  Connection(int socket, const HttpLimits& limits) : socket_(socket), limits_(limits) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  // Returns the head of the next request; nothing if none arrives in time, or if the server ends.
  std::optional<HttpHead> next(const std::atomic<bool>& ending) {
    const double began = seconds_now();
    while (in_.size() == at_ && !ending) {
      if (seconds_now() - began > limits_.idle) return {};
      if (ready(POLLIN, kTick) && !fill()) return {};
    }
    if (in_.size() == at_) return {};
    deadline_ = seconds_now() + limits_.patience;
    size_t end = std::string::npos;
    while ((end = in_.find("\r\n\r\n", at_)) == std::string::npos) {
      if (in_.size() - at_ > kMostHead) return refused(431, "the head of the request is too long");
      const double left = deadline_ - seconds_now();
      if (left <= 0 || !ready(POLLIN, left)) return refused(408, "the request did not come in time");
      if (!fill()) return {};
    }
    if (end - at_ > kMostHead) return refused(431, "the head of the request is too long");
    HttpHead head = read_http_head(std::string_view(in_).substr(at_, end + 4 - at_), limits_.body);
    in_ = head.text + in_.substr(end + 4);
    at_ = 0;
    return head;
  }

  // True if the client has reset the connection, so that nobody reads what is written.
  bool broken() const { return (state() & (POLLHUP | POLLERR)) != 0; }
  // True at most once in kProbes seconds, while the client's sending side is closed. Such a client has closed the
  // connection, or waits for the answer. Only a write tells the two cases apart: a closed connection answers it with a
  // reset.
  bool wants_probe() {
    if ((state() & POLLRDHUP) == 0 || seconds_now() - probed_ < kProbes) return false;
    probed_ = seconds_now();
    return true;
  }

  bool is_readable() const override { return in_.size() > at_ || ready(POLLIN, 0); }
  bool is_writable() const override { return !broken(); }
  ssize_t read(char* to, size_t size) override {
    if (in_.size() == at_) {
      const double left = deadline_ - seconds_now();
      if (left <= 0 || !ready(POLLIN, left) || !fill()) return -1;
    }
    const size_t n = std::min(size, in_.size() - at_);
    std::memcpy(to, in_.data() + at_, n);
    at_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    const double until = seconds_now() + limits_.patience;
    size_t sent = 0;
    while (sent < size) {
      const ssize_t n = ::send(socket_, from + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        sent += static_cast<size_t>(n);
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else if (n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
        return -1;
      } else if (const double left = until - seconds_now(); left <= 0 || !ready(POLLOUT, left)) {
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}  // not used
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

  // Lets the client read the answer before the connection is closed: reads and drops further input for up to 2 seconds.
  void linger() {
    ::shutdown(socket_, SHUT_WR);
    char waste[1 << 14];
    const double until = seconds_now() + 2;
    for (double left = 2; left > 0 && ready(POLLIN, left); left = until - seconds_now())
      if (::recv(socket_, waste, sizeof waste, MSG_DONTWAIT) <= 0) return;
  }

 private:
  static constexpr double kProbes = 1;  // seconds between two probes
  short state() const {
    pollfd p{socket_, POLLRDHUP, 0};
    return ::poll(&p, 1, 0) > 0 ? p.revents : short{0};
  }
  bool ready(short what, double seconds) const {
    pollfd p{socket_, what, 0};
    int found = 0;
    while ((found = ::poll(&p, 1, static_cast<int>(seconds * 1000) + 1)) < 0 && errno == EINTR) continue;
    return found > 0;
  }
  bool fill() {
    in_.erase(0, std::exchange(at_, 0));
    char piece[1 << 14];
    const ssize_t n = ::recv(socket_, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0) in_.append(piece, static_cast<size_t>(n));
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  static HttpHead refused(int status, std::string reason) {
    HttpHead head;
    head.refusal = status, head.reason = std::move(reason);
    return head;
  }

  int socket_;
  const HttpLimits& limits_;
  std::string in_;
  size_t at_ = 0;
  double deadline_ = 0, probed_ = 0;
};

thread_local Connection* current = nullptr;  // of this thread; cpp-httplib passes no context

// A thread per connection. Above the limit, enqueue() runs the connection at once, and the connection is refused.
class Threads : public httplib::TaskQueue {
 public:
  explicit Threads(int64_t most) : most_(most) {}
  void enqueue(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      if (busy_ < most_) {
        try {
          std::thread([this, work] {
            work();
            const std::lock_guard done(mutex_);
            if (--busy_ == 0) idle_.notify_all();
          }).detach();
          ++busy_;
          return;
        } catch (const std::system_error&) {  // no further thread can be created
        }
      }
    }
    too_many = true;
    work();
    too_many = false;
  }
  void shutdown() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return busy_ == 0; });
  }
  static inline thread_local bool too_many = false;

 private:
  int64_t most_, busy_ = 0;
  std::mutex mutex_;
  std::condition_variable idle_;
};

std::string_view reason_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

}  // namespace

class HttpServer::Impl : public httplib::Server {
 public:
  Impl(const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal)
      : limits_(limits), handler_(std::move(handler)), refusal_(std::move(refusal)) {
    new_task_queue = [this] { return new Threads(limits_.connections); };
    set_payload_max_length(static_cast<size_t>(limits_.body));
    set_keep_alive_max_count(kRequests);
    set_keep_alive_timeout(static_cast<time_t>(limits_.idle));
    set_socket_options([](socket_t s) {  // cpp-httplib's default lets two servers share a port
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    Get(".*", [this](const httplib::Request& q, httplib::Response& a) { answer(q, a, nullptr); });
    Options(".*", [this](const httplib::Request& q, httplib::Response& a) { answer(q, a, nullptr); });
    Post(".*", [this](const httplib::Request& q, httplib::Response& a, const httplib::ContentReader& r) { answer(q, a, &r); });
    set_exception_handler([this](const httplib::Request&, httplib::Response& a, std::exception_ptr) {
      a.status = 500;
      a.set_content(refusal_(500, "the server failed"), "application/json");
    });
    set_error_handler([this](const httplib::Request&, httplib::Response& a) {
      if (a.body.empty()) a.set_content(refusal_(a.status, "the request cannot be read"), "application/json");
    });
  }

  // Raises the number of connections that may wait for accept(). With cpp-httplib's 5, some of many simultaneous
  // connections are reset.
  void set_backlog() { ::listen(svr_sock_, SOMAXCONN); }

  std::atomic<bool> ending{false};

 private:
  static constexpr size_t kRequests = 10000;  // per connection

  class Exchange : public HttpExchange {
   public:
    Exchange(Impl& server, const httplib::ContentReader* reader) : server_(server), reader_(reader) {}
    ~Exchange() override { server_.held_ -= held_; }
    std::optional<std::string> body(HttpAnswer& refusal) override {
      std::string text;
      int refused = 0;
      const bool whole = !reader_ || (*reader_)([&](const char* data, size_t size) {
        const auto n = static_cast<int64_t>(size);
        if (static_cast<int64_t>(text.size()) + n > server_.limits_.body) refused = 413;
        held_ += n;
        if ((server_.held_ += n) > server_.limits_.bodies && refused == 0) refused = 503;
        if (refused == 0) text.append(data, size);
        return refused == 0;
      });
      if (whole && refused == 0) return text;
      refusal.status = refused > 0 ? refused : 400;
      refusal.body = server_.refusal_(refusal.status, refused == 413   ? "the body is too large"
                                                      : refused == 503 ? "too many requests are being read"
                                                                       : "the body did not come whole");
      refusal.closes = true;
      return {};
    }
    // Sends an interim answer (100 Continue) as a probe. Clients of HTTP/1.1 skip interim answers before the final
    // answer.
    bool gone() override {
      constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
      if (!current || current->broken()) return true;
      return interim && current->wants_probe() && current->write(kInterim.data(), kInterim.size()) < 0;
    }
    bool interim = false;

   private:
    Impl& server_;
    const httplib::ContentReader* reader_;
    int64_t held_ = 0;
  };

  void answer(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader* reader) {
    Exchange exchange(*this, reader);
    exchange.method = request.method, exchange.path = request.path;
    exchange.interim = request.version == "HTTP/1.1";
    exchange.authorization = request.get_header_value("Authorization"), exchange.origin = request.get_header_value("Origin");
    HttpAnswer answer = handler_(exchange);
    if (answer.closes) closes_ = true;
    for (const auto& [name, value] : answer.headers) response.set_header(name, value);
    response.status = answer.status;
    if (!answer.stream) return response.set_content(answer.body, answer.type);
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        answer.type, [stream = std::move(answer.stream), probe = answer.probe](size_t, httplib::DataSink& sink) {
          bool there = true;
          stream([&](std::string_view piece) {
            if (!there || !current || current->broken()) return there = false;
            if (piece.empty() && current->wants_probe()) piece = probe;
            return there = piece.empty() || sink.write(piece.data(), piece.size());
          });
          if (there) sink.done();
          return there;
        });
  }

  void refuse(Connection& c, int status, const std::string& message) {
    const std::string body = refusal_(status, message);
    const std::string text =
        fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                    status, reason_of(status), body.size(), status == 405 ? "Allow: GET, POST, OPTIONS\r\n" : "");
    c.write((text + body).data(), text.size() + body.size());
  }

  // Replaces the function of cpp-httplib, which reads heads without limits of size and time.
  bool process_and_close_socket(socket_t socket) override {
    {
      Connection c(socket, limits_);
      if (Threads::too_many) {
        refuse(c, 503, "too many connections");
      } else {
        current = &c, closes_ = false;
        try {
          converse(c);
        } catch (const std::exception&) {  // no memory for a request: its connection is closed
        }
        current = nullptr;
        c.linger();
      }
    }
    ::close(socket);
    return true;
  }

  void converse(Connection& c) {
    bool closed = false;
    for (size_t left = kRequests; left > 0 && !closed && !closes_; --left) {
      const std::optional<HttpHead> head = c.next(ending);
      if (!head) return;
      if (head->refusal > 0) return refuse(c, head->refusal, head->reason);
      if (!process_request(c, left == 1 || ending, closed, nullptr)) return;
    }
  }

  HttpLimits limits_;
  HttpHandler handler_;
  HttpRefusal refusal_;
  std::atomic<int64_t> held_{0};
  static inline thread_local bool closes_ = false;  // closes the connection of this thread
};

HttpServer::HttpServer(const std::string& host, int port, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal)
    : impl_(std::make_unique<Impl>(limits, std::move(handler), std::move(refusal))) {
  const bool bound = port == 0 ? (port_ = impl_->bind_to_any_port(host)) > 0 : impl_->bind_to_port(host, port);
  if (port > 0) port_ = port;
  if (!bound)
    throw UserError("nothing can listen there", fmt::format("--host {} --port {}", host, port),
                    "another program has the port, or this machine has no such address",
                    "choose another --port, or 0 for a free one");
  impl_->set_backlog();
  const BlockedSignals blocked;
  listener_ = std::thread([this] { impl_->listen_after_bind(); });
  while (!impl_->is_running()) std::this_thread::yield();
}

HttpServer::~HttpServer() {
  impl_->ending = true;
  impl_->stop();
  listener_.join();
}

}  // namespace ravine
