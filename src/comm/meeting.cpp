#include "comm/meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace ravine {
namespace {

constexpr double kSilence = 5;      // seconds; a rank sends its hello as soon as it is connected
constexpr size_t kStrangers = 256;  // most connections read at the same time

sockaddr_in socket_address(const std::string& address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  require(inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1, "heartbeat: '{}' is no address", address);
  return at;
}

struct Guest {
  Socket socket;
  std::string received;
  double came = seconds_now();
};

}  // namespace

Socket listen_on(const std::string& address, int* port) {
  sockaddr_in at = socket_address(address, 0);
  socklen_t size = sizeof at;
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = socket && ::bind(*socket, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                       ::listen(*socket, SOMAXCONN) == 0 &&
                       ::getsockname(*socket, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  require(listens, "heartbeat: cannot listen on {}: {}", address, std::strerror(errno));
  *port = ntohs(at.sin_port);
  return socket;
}

std::vector<Visitor> meet(const Socket& listener, int count, size_t size, const std::function<bool(const std::string&)>& ours,
                          double seconds) {
  const double began = seconds_now();
  std::vector<Visitor> met;
  std::vector<Guest> guests;  // connections without a hello yet, oldest first
  while (static_cast<int>(met.size()) < count) {
    std::vector<pollfd> ready{{*listener, POLLIN, 0}};
    for (const Guest& g : guests) ready.push_back({*g.socket, POLLIN, 0});
    ::poll(ready.data(), ready.size(), 100);
    std::vector<Guest> still;
    for (size_t i = 0; i < guests.size(); ++i) {
      Guest& g = guests[i];
      bool stays = seconds_now() - g.came < kSilence;
      if (ready[i + 1].revents) {
        std::string bytes(size - g.received.size(), '\0');
        const ssize_t n = ::recv(*g.socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n > 0) g.received.append(bytes, 0, static_cast<size_t>(n));
        stays = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR) && stays);
      }
      if (g.received.size() == size && static_cast<int>(met.size()) < count && ours(g.received))
        met.push_back({std::move(g.socket), std::move(g.received)});
      else if (stays && g.received.size() < size)
        still.push_back(std::move(g));
    }
    guests = std::move(still);
    while (ready[0].revents && guests.size() < 2 * kStrangers) {
      Socket came(::accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (!came) break;
      guests.push_back({std::move(came), "", seconds_now()});
    }
    if (guests.size() > kStrangers) guests.erase(guests.begin(), guests.end() - static_cast<std::ptrdiff_t>(kStrangers));
    if (seconds_now() - began > seconds) break;
  }
  if (static_cast<int>(met.size()) < count)
    fail("heartbeat: {} of {} ranks came within {:.0f} s; parallel.interface names the network that they reach rank 0 by",
         met.size(), count, seconds);
  return met;
}

Socket reach(const std::string& address, int port, double seconds) {
  const double began = seconds_now();
  const sockaddr_in to = socket_address(address, port);
  int code = 0;
  do {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    require(static_cast<bool>(socket), "heartbeat: no socket: {}", std::strerror(errno));
    code = ::connect(*socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      pollfd p{*socket, POLLOUT, 0};
      socklen_t size = sizeof code;
      const int left = static_cast<int>(1000 * (began + seconds - seconds_now()));
      if (::poll(&p, 1, left > 0 ? left : 0) <= 0)
        code = ETIMEDOUT;
      else if (::getsockopt(*socket, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
        code = errno;
    }
    if (code == 0) return socket;
    socket = Socket();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (seconds_now() - began < seconds && code != EHOSTUNREACH && code != ENETUNREACH);
  fail("heartbeat: rank 0 is not reached at {}:{}: {}; parallel.interface names the network that ranks reach it by", address,
       port, std::strerror(code));
}

}  // namespace ravine
