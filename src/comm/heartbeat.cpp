#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/interfaces.h"
#include "comm/meeting.h"
#include "comm/world.h"

namespace ravine {
namespace {

constexpr double kBeat = 1;  // seconds
constexpr auto kLook = std::chrono::milliseconds(200);

double since(double t) { return seconds_now() - t; }

// One message, always of this size. Text fields end with a zero.
struct Message {
  enum Kind : int32_t { hello, alive, failed, over, bye };
  uint64_t token = 0;
  int32_t kind = alive, rank = 0, status = 1;
  char host[64] = "", call[32] = "", group[32] = "", why[400] = "";
};

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

}  // namespace

// Rank 0 holds a socket to every rank, every other rank one to rank 0.
struct Heartbeat::Impl {
  struct Peer {
    Socket socket;
    int rank = 0;
    std::string host, inbox;
    std::string waits;  // "all_gather over data", or empty
    double last_message = seconds_now();
    bool sent_bye = false, failed = false;
  };

  Impl(World& w, double p, EndProcess end, const std::string& interface) : world(w), patience(p), end_process(std::move(end)) {
    connect_all(interface);
    thread = std::thread([this] { monitor(); });
  }

  ~Impl() {
    stop = true;
    thread.join();
    Message m = message(Message::bye);
    for (Peer& peer : peers) send_to(peer, m);
  }

  Message message(Message::Kind kind) const {
    Message m;
    m.token = token;
    m.kind = kind;
    m.rank = world.rank();
    put(m.host, world.host());
    if (const WaitName* wait_name = world.waits().now) {
      put(m.call, wait_name->call);
      put(m.group, wait_name->group);
    }
    return m;
  }

  // Never blocks: the message is smaller than any socket's buffer.
  void send_to(Peer& peer, const Message& m) {
    std::lock_guard lock(sending);
    // Connection lost: the next read reports it.
    if (send(*peer.socket, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  }

  void connect_all(const std::string& interface) {
    const Group& all = world.all();
    // The settings of rank 0 decide, so every rank chooses the same address or throws the same error.
    const std::string interfaces =
        gather_texts(all, interface + "\n" + interfaces_of_mpi() + "\n" + interfaces_not_of_mpi())[0];
    const size_t one = interfaces.find('\n'), two = interfaces.find('\n', one + 1);
    std::vector<HostInterfaces> hosts;
    for (const std::string& text : gather_texts(all, to_text(interfaces_of_host())))
      hosts.push_back(interfaces_from_text(text));
    const std::string address = meeting_address(hosts, interfaces.substr(0, one), interfaces.substr(one + 1, two - one - 1),
                                                interfaces.substr(two + 1));
    Socket listener;
    int port = 0;
    std::string problem;  // of rank 0; sent to all, as they wait for its port
    if (world.rank() == 0) try {
        require(getrandom(&token, sizeof token, 0) == sizeof token, "heartbeat: no random numbers");
        listener = listen_on(address, &port);
      } catch (const Error& e) {
        problem = e.what();
      }
    problem = gather_texts(all, problem)[0];
    if (!problem.empty()) fail("{}", problem);
    port = static_cast<int>(gather_integers(all, port)[0]);
    token = static_cast<uint64_t>(gather_integers(all, static_cast<int64_t>(token))[0]);
    constexpr double kComing = 30;  // seconds
    if (world.rank() == 0) {
      std::set<int> came;
      auto ours = [&](const std::string& hello) {
        Message m;
        std::memcpy(&m, hello.data(), sizeof m);
        return m.token == token && m.kind == Message::hello && m.rank > 0 && m.rank < world.size() &&
               came.insert(m.rank).second;
      };
      for (Visitor& v : meet(listener, world.size() - 1, sizeof(Message), ours, kComing)) {
        Message m;
        std::memcpy(&m, v.hello.data(), sizeof m);
        peers.push_back({.socket = std::move(v.socket), .rank = m.rank});
      }
    } else {
      peers.push_back({.socket = reach(address, port, kComing)});
      send_to(peers[0], message(Message::hello));
    }
    for (Peer& peer : peers) {
      int on = 1;
      setsockopt(*peer.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    const std::vector<std::string> names = gather_texts(all, world.host());
    for (Peer& peer : peers) peer.host = names[static_cast<size_t>(peer.rank)];
  }

  // A failed rank, kept on rank 0 in order of arrival. Rank 0 prints the message for all ranks.
  struct Failure {
    int rank;
    std::string who, why;
    int status;
    double since = 0;
  };

  void note_failure(const Failure& f) {
    std::lock_guard lock(noting);
    failures.push_back(f);
  }

  // Ends the job if ranks have failed. The message is printed once, without a rank, if all ranks failed alike, or if
  // all failures are one user error that rank 0 made too. Else the first failure is reported, after a heartbeat has
  // told what the others wait for.
  void judge_failures() {
    std::vector<Failure> all;
    {
      std::lock_guard lock(noting);
      all = failures;
    }
    if (all.empty()) return;
    const Failure& first = all[0];
    bool alike = std::all_of(all.begin(), all.end(), [&](const Failure& f) { return f.why == first.why; });
    bool mine = std::any_of(all.begin(), all.end(), [](const Failure& f) { return f.rank == 0; });
    if (alike && mine && (first.status == 2 || static_cast<int>(all.size()) == world.size()))
      exit_with_error(first.why, first.status);
    if (since(first.since) < 1.4) return;
    end(fmt::format("{}: {}{}", first.who, first.why, what_waits()), first.status);
  }

  void monitor() {
    double beat = seconds_now() - kBeat, looked = seconds_now();
    while (!stop) {
      // This process or the machine was suspended: messages that came meanwhile are not read yet.
      if (since(looked) > patience / 2)
        for (Peer& peer : peers) peer.last_message = seconds_now();
      looked = seconds_now();
      if (since(beat) >= kBeat) {
        beat = seconds_now();
        for (Peer& peer : peers) send_to(peer, message(Message::alive));
      }
      std::vector<pollfd> ready;
      for (Peer& peer : peers) ready.push_back({peer.sent_bye ? -1 : *peer.socket, POLLIN, 0});
      if (world.rank() == 0) judge_failures();
      poll(ready.data(), ready.size(), static_cast<int>(kLook.count()));
      for (size_t i = 0; i < peers.size(); ++i) {
        Peer& peer = peers[i];
        if (ready[i].revents & (POLLIN | POLLHUP | POLLERR)) read_from(peer);
        if (!peer.sent_bye && since(peer.last_message) > patience)
          lose(peer, fmt::format("has not answered for {:.0f} s", since(peer.last_message)));
      }
    }
  }

  void read_from(Peer& peer) {
    char buffer[4 * sizeof(Message)];
    ssize_t n = recv(*peer.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      if (stop) return;
      lose(peer, "is gone");
    }
    peer.inbox.append(buffer, static_cast<size_t>(n));
    while (peer.inbox.size() >= sizeof(Message)) {
      Message m;
      std::memcpy(&m, peer.inbox.data(), sizeof m);
      peer.inbox.erase(0, sizeof m);
      m.call[sizeof m.call - 1] = m.group[sizeof m.group - 1] = m.why[sizeof m.why - 1] = 0;
      if (m.token != token) continue;
      peer.last_message = seconds_now();
      peer.waits = m.call[0] ? fmt::format("{} over {}", m.call, m.group) : "";
      if (m.kind == Message::bye) peer.sent_bye = true;
      if (m.kind == Message::failed)
        note_failure({.rank = peer.rank,
                      .who = fmt::format("rank {} ({})", peer.rank, peer.host),
                      .why = m.why,
                      .status = m.status,
                      .since = seconds_now()}),
            peer.failed = true;
      if (m.kind == Message::over) leave(m.status);
    }
  }

  [[noreturn]] void lose(Peer& peer, const std::string& how) {
    peer.waits.clear();  // what it waited for no longer matters
    // The others will soon wait for it; a launcher leaves about a second.
    for (int i = 0; i < 35 && what_waits().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    end(fmt::format("rank {} ({}) {}{}", peer.rank, peer.host, how, what_waits()), 1);
  }

  // Returns what the ranks that still answer wait for.
  std::string what_waits() const {
    std::map<std::string, std::vector<int>> ranks;
    Message mine = message(Message::alive);
    if (mine.call[0]) ranks[fmt::format("{} over {}", mine.call, mine.group)].push_back(world.rank());
    for (const Peer& peer : peers)
      if (!peer.failed && !peer.waits.empty() && since(peer.last_message) < 3) ranks[peer.waits].push_back(peer.rank);
    std::string text;
    for (auto& [what, who] : ranks) {
      std::sort(who.begin(), who.end());
      text += fmt::format("{} {} waited in {}", text.empty() ? ";" : ",",
                          who.size() > 8 ? fmt::format("{} ranks", who.size())
                                         : fmt::format("rank{} {}", who.size() > 1 ? "s" : "", fmt::join(who, " ")),
                          what);
    }
    return text;
  }

  [[noreturn]] void end(const std::string& why, int status) {
    // Rank 0 prints for all; if it is gone, the others do, rank 1 first.
    if (world.rank() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    exit_with_error(why + "; the job ends, the last checkpoint is intact", status);
  }

  [[noreturn]] void exit_with_error(const std::string& why, int status) {
    print_stderr("error: " + escaped(why));
    std::fflush(nullptr);
    Message m = message(Message::over);
    m.status = status;
    for (Peer& peer : peers) send_to(peer, m);
    // Time to arrive before the launcher ends all processes.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    leave(status);
  }

  [[noreturn]] void leave(int status) {
    end_process(status);
    std::abort();
  }

  World& world;
  double patience;
  EndProcess end_process;
  uint64_t token = 0;
  std::vector<Peer> peers;
  std::mutex sending, noting;
  std::vector<Failure> failures;
  std::atomic<bool> stop{false};
  std::thread thread;
};

Heartbeat::Heartbeat(World& world, double patience, EndProcess end, const std::string& interface) {
  if (world.size() > 1) impl_ = std::make_unique<Impl>(world, patience, std::move(end), interface);
}
Heartbeat::~Heartbeat() = default;

void Heartbeat::failed(const std::string& why, int status) {
  if (!impl_) return;
  if (impl_->world.rank() == 0)
    return impl_->note_failure({.rank = 0,
                                .who = fmt::format("rank 0 ({})", impl_->world.host()),
                                .why = why,
                                .status = status,
                                .since = seconds_now()});
  Message m = impl_->message(Message::failed);
  m.status = status;
  put(m.why, why);
  for (Impl::Peer& peer : impl_->peers) impl_->send_to(peer, m);
}

}  // namespace ravine
