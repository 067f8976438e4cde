// How ranks find each other beside MPI: which address, and who is let in.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/interfaces.h"
#include "comm/meeting.h"

namespace ravine {
namespace test_comm_meeting {

using Hosts = std::vector<HostInterfaces>;

HostInterfaces host(const std::string& text) { return interfaces_from_text(text); }

TEST(Interfaces, TextRoundTrips) {
  const std::string text = "node7 lo=127.0.0.1/8 eth0=10.0.0.7/24 docker0=172.17.0.1/16";
  EXPECT_EQ(to_text(host(text)), text);
  EXPECT_EQ(to_text(host("alone")), "alone");
  const HostInterfaces here = interfaces_of_host();
  EXPECT_FALSE(here.host.empty());
  EXPECT_EQ(to_text(host(to_text(here))), to_text(here));
}

TEST(Interfaces, OneHostMeetsAtLoopback) {
  const Hosts hosts(4, host("a lo=127.0.0.1/8 eth0=10.0.0.1/24"));
  EXPECT_EQ(meeting_address(hosts, "", "", ""), "127.0.0.1");
  EXPECT_EQ(meeting_address(hosts, "", "eth0", ""), "127.0.0.1");
  EXPECT_EQ(meeting_address(hosts, "eth0", "", ""), "10.0.0.1");
  EXPECT_EQ(meeting_address(hosts, "127.0.0.3", "", ""), "127.0.0.3");
}

// A bridge comes first among the interfaces, with the same address on every host; another network is not shared by all.
TEST(Interfaces, HostsMeetOnTheNetworkTheyShare) {
  const Hosts hosts{host("a lo=127.0.0.1/8 docker0=172.17.0.1/16 wlan0=192.168.1.5/24 eth0=10.0.0.1/24"),
                    host("b lo=127.0.0.1/8 docker0=172.17.0.1/16 wlan0=192.168.2.5/24 eth0=10.0.0.2/24"),
                    host("c lo=127.0.0.1/8 docker0=172.17.0.1/16 wlan0=192.168.1.7/24 eth0=10.0.0.3/24")};
  EXPECT_EQ(meeting_address(hosts, "", "", ""), "10.0.0.1");
  EXPECT_EQ(meeting_address(hosts, "", "wlan0", ""), "192.168.1.5");  // MPI was told
  // An interface that does not exist, then a network.
  EXPECT_EQ(meeting_address(hosts, "", "ib0,192.168.0.0/16", ""), "192.168.1.5");
  EXPECT_EQ(meeting_address(hosts, "", "lo", ""), "10.0.0.1");  // reaches no other host
  EXPECT_EQ(meeting_address(hosts, "10.0.0.0/24", "wlan0", ""), "10.0.0.1");
  EXPECT_EQ(meeting_address(hosts, "172.17.0.1", "", ""), "172.17.0.1");  // who names it gets it
  EXPECT_EQ(meeting_address({hosts[0], hosts[2]}, "", "", ""), "192.168.1.5");
  EXPECT_EQ(meeting_address({hosts[0], hosts[2]}, "", "", "lo,wlan0"), "10.0.0.1");
}

// Machines that are routed to each other share no network (masks of 32 bits).
TEST(Interfaces, RoutedHostsMeetAtAnAddressOfOneHostAlone) {
  const Hosts hosts{host("a lo=127.0.0.1/8 docker0=172.17.0.1/16 eth0=10.128.0.2/32"),
                    host("b lo=127.0.0.1/8 docker0=172.17.0.1/16 eth0=10.132.0.9/32")};
  EXPECT_EQ(meeting_address(hosts, "", "", ""), "10.128.0.2");
}

TEST(Interfaces, MistakesNameWhatThereIs) {
  const Hosts hosts{host("a lo=127.0.0.1/8 eth0=10.0.0.1/24"), host("b lo=127.0.0.1/8 eth0=10.0.0.2/24")};
  for (const char* wanted : {"eth1", "10.0.0.9", "192.168.0.0/16", "10.0.0.0/33", "10.0.0.0/", "x/8"}) {
    try {
      meeting_address(hosts, wanted, "", "");
      ADD_FAILURE() << wanted << " is taken";
    } catch (const UserError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("parallel.interface"), std::string::npos) << text;
      EXPECT_NE(text.find("eth0 10.0.0.1/24"), std::string::npos) << text;
    }
  }
  EXPECT_THROW(meeting_address(hosts, "127.0.0.2", "", ""), UserError);
  EXPECT_THROW(meeting_address({host("a lo=127.0.0.1/8"), host("b lo=127.0.0.1/8")}, "", "", ""), UserError);
}

void send_text(const Socket& to, const std::string& text) {
  ASSERT_EQ(send(*to, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

TEST(Meeting, ListensOnItsAddressAlone) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.2", &port);
  sockaddr_in at{};
  socklen_t size = sizeof at;
  ASSERT_EQ(getsockname(*listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  EXPECT_EQ(ntohl(at.sin_addr.s_addr), 0x7f000002u);
  EXPECT_THROW(reach("127.0.0.3", port, 0.3), Error);
  reach("127.0.0.2", port, 10);
  EXPECT_THROW(listen_on("203.0.113.1", &port), Error);  // not of this machine
}

// Strangers connect first, and each could cost seconds of waiting: one is silent, one sends half a hello, one sends
// another hello, one sends for a long time.
TEST(Meeting, StrangersKeepNobodyWaiting) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.2", &port);
  std::vector<Socket> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(reach("127.0.0.2", port, 10));
    if (i % 4 == 1) send_text(strangers.back(), "hell");
    if (i % 4 == 2) send_text(strangers.back(), "hello 9x");
    if (i % 4 == 3) send_text(strangers.back(), std::string(5000, 'G'));
  }
  std::vector<Visitor> met;
  std::set<std::string> came;
  std::thread ours([&] {
    for (const char* hello : {"hello 1!", "hello 2!", "hello 2!", "hello 3!"}) {
      strangers.push_back(reach("127.0.0.2", port, 10));
      send_text(strangers.back(), std::string(hello, 3));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      send_text(strangers.back(), hello + 3);
    }
  });
  // One after the other, half of the 60 being silent for 5 s each, ours would come too late.
  met = meet(
      listener, 3, 8,
      [&](const std::string& h) { return h.starts_with("hello ") && h.ends_with("!") && came.insert(h).second; }, 100);
  ours.join();
  ASSERT_EQ(met.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(met[i].hello, "hello " + std::to_string(i + 1) + "!");
}

TEST(Meeting, MissingHostsAreCounted) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.1", &port);
  const Socket one = reach("127.0.0.1", port, 10);
  send_text(one, "hello");
  try {
    meet(
        listener, 3, 5, [](const std::string&) { return true; }, 0.5);
    ADD_FAILURE() << "it met";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("1 of 3 ranks"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("parallel.interface"), std::string::npos) << e.what();
  }
}

// Whatever ends a meeting, its sockets are closed.
TEST(Meeting, AnErrorLeavesNoSocketOpen) {
  auto sockets = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = sockets();
  try {
    int port = 0;
    const Socket listener = listen_on("127.0.0.1", &port);
    const Socket one = reach("127.0.0.1", port, 10), two = reach("127.0.0.1", port, 10);
    send_text(one, "hello");
    send_text(two, "hello");
    meet(
        listener, 3, 5, [](const std::string&) -> bool { throw std::runtime_error("no memory"); }, 10);
    ADD_FAILURE() << "it met";
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(sockets(), before);
}

}  // namespace test_comm_meeting
}  // namespace ravine
