#include "comm/interfaces.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/host_name.h"

namespace ravine {
namespace {

std::string dotted(uint32_t address) {
  in_addr a{htonl(address)};
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &a, text, sizeof text);
  return text;
}

std::optional<uint32_t> parse_address(const std::string& text) {
  in_addr a{};
  if (inet_pton(AF_INET, text.c_str(), &a) != 1) return {};
  return ntohl(a.s_addr);
}

struct Network {
  uint32_t address = 0, mask = 0;
  bool holds(uint32_t a) const { return (a & mask) == (address & mask); }
};

// "10.0.0.0/16"
std::optional<Network> parse_network(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string digits = slash == std::string::npos ? "" : text.substr(slash + 1);
  const auto address = parse_address(text.substr(0, slash));
  if (!address || digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
  const int bits = std::atoi(digits.c_str());
  if (bits > 32) return {};
  return Network{*address, bits == 0 ? 0 : ~uint32_t{0} << (32 - bits)};
}

bool loops_back(uint32_t address) { return address >> 24 == 127; }

// Returns the address of this host that `word` names: an interface, address or network.
std::optional<uint32_t> named(const HostInterfaces& host, const std::string& word) {
  const auto address = parse_address(word);
  if (address && loops_back(*address)) return address;  // all of 127.0.0.0/8 is this host
  const auto network = parse_network(word);
  for (const Interface& i : host.list)
    if (i.name == word || (address && i.address == *address) || (network && network->holds(i.address))) return i.address;
  return {};
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

std::string list_of(const HostInterfaces& host) {
  std::vector<std::string> all;
  for (const Interface& i : host.list) all.push_back(fmt::format("{} {}/{}", i.name, dotted(i.address), std::popcount(i.mask)));
  return fmt::format("{}", fmt::join(all, ", "));
}

bool in_same_network(const Interface& a, const Interface& b) {
  return a.mask == b.mask && (a.address & a.mask) == (b.address & b.mask) && a.address != b.address;
}

}  // namespace

HostInterfaces interfaces_of_host() {
  HostInterfaces here;
  here.host = host_name();
  ifaddrs* all = nullptr;
  if (getifaddrs(&all)) return here;
  for (ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !i->ifa_netmask || !(i->ifa_flags & IFF_UP)) continue;
    auto bits = [](sockaddr* a) { return ntohl(reinterpret_cast<sockaddr_in*>(a)->sin_addr.s_addr); };
    here.list.push_back({i->ifa_name, bits(i->ifa_addr), bits(i->ifa_netmask)});
  }
  freeifaddrs(all);
  return here;
}

std::string to_text(const HostInterfaces& host) {
  std::string text = host.host;
  for (const Interface& i : host.list) text += fmt::format(" {}={}/{}", i.name, dotted(i.address), std::popcount(i.mask));
  return text;
}

HostInterfaces interfaces_from_text(const std::string& text) {
  HostInterfaces host;
  std::istringstream in(text);
  in >> host.host;
  for (std::string word; in >> word;) {
    const size_t equal = word.find('=');
    const auto network = equal == std::string::npos ? std::nullopt : parse_network(word.substr(equal + 1));
    if (network) host.list.push_back({word.substr(0, equal), network->address, network->mask});
  }
  return host;
}

std::string meeting_address(const std::vector<HostInterfaces>& hosts, const std::string& wanted, const std::string& mpi,
                            const std::string& not_mpi) {
  const HostInterfaces& here = hosts.at(0);
  std::vector<const HostInterfaces*> others;
  std::set<std::string> seen{here.host};
  for (const HostInterfaces& h : hosts)
    if (seen.insert(h.host).second) others.push_back(&h);
  if (!wanted.empty()) {
    const auto found = named(here, wanted);
    if (!found)
      throw UserError(fmt::format("no interface '{}'", wanted), "parallel.interface",
                      fmt::format("{}, the host of rank 0, has {}", here.host, list_of(here)),
                      "name one of these, its address or its network");
    if (loops_back(*found) && !others.empty())
      throw UserError(fmt::format("'{}' exists on one host only", wanted), "parallel.interface",
                      fmt::format("ranks run on {} too", others[0]->host),
                      fmt::format("name another: {} has {}", here.host, list_of(here)));
    return dotted(*found);
  }
  if (others.empty()) return "127.0.0.1";
  for (const std::string& word : words_of(mpi))
    if (const auto found = named(here, word); found && !loops_back(*found)) return dotted(*found);
  std::set<uint32_t> excluded;
  for (const std::string& word : words_of(not_mpi))
    if (const auto found = named(here, word)) excluded.insert(*found);
  std::optional<uint32_t> alone;  // no other host has it
  for (const Interface& i : here.list) {
    if (loops_back(i.address) || excluded.count(i.address)) continue;
    auto on = [](const HostInterfaces& h, auto like) { return std::any_of(h.list.begin(), h.list.end(), like); };
    const bool twice = std::any_of(others.begin(), others.end(),
                                   [&](auto* h) { return on(*h, [&](const Interface& j) { return j.address == i.address; }); });
    if (twice) continue;
    if (std::all_of(others.begin(), others.end(),
                    [&](auto* h) { return on(*h, [&](const Interface& j) { return in_same_network(i, j); }); }))
      return dotted(i.address);
    if (!alone) alone = i.address;
  }
  if (!alone)
    throw UserError("no address for the heartbeat", "parallel.interface",
                    fmt::format("{}, the host of rank 0, has {}", here.host, list_of(here)),
                    "name the one that the other hosts reach");
  return dotted(*alone);
}

}  // namespace ravine
