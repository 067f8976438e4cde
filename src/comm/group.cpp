#include "comm/group.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace ravine {

Pending::~Pending() {
  try {
    wait();
  } catch (const std::exception& e) {
    try {
      print_stderr("error: " + escaped(e.what()));
    } catch (const std::exception&) {  // out of memory: no message
    }
  }
}

Pending SelfGroup::all_gather(const void* mine, void* all, int64_t bytes) const {
  if (all && all != mine) std::memcpy(all, mine, static_cast<size_t>(bytes));
  return {};
}
Pending SelfGroup::all_to_all(const void* send, void* receive, int64_t bytes) const { return all_gather(send, receive, bytes); }
Pending SelfGroup::all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                              std::span<const int64_t> from) const {
  require(to.size() == 1 && from.size() == 1 && to[0] == from[0], "all_to_all: pieces for other ranks than this one");
  return all_gather(send, receive, to[0]);
}
Pending SelfGroup::send(const void*, int64_t, int to) const { fail("group: rank {} of one rank", to); }
Pending SelfGroup::receive(void*, int64_t, int from) const { fail("group: rank {} of one rank", from); }

Pending FakeGroup::all_gather(const void* mine, void* all, int64_t bytes) const {
  for (int i = 0; all && i < size_; ++i) std::memcpy(static_cast<char*>(all) + i * bytes, mine, static_cast<size_t>(bytes));
  return count((size_ - 1) * bytes);
}

Pending FakeGroup::all_to_all(const void*, std::span<const int64_t> to, void*, std::span<const int64_t>) const {
  int64_t others = 0;
  for (int i = 0; i < size_; ++i) others += i == rank_ ? 0 : to[static_cast<size_t>(i)];
  return count(others);
}

std::vector<int64_t> gather_integers(const Group& group, int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  group.all_gather(&mine, all.data(), sizeof mine).wait();
  return all;
}

int64_t largest(const Group& group, int64_t mine) {
  std::vector<int64_t> all = gather_integers(group, mine);
  return *std::max_element(all.begin(), all.end());
}

std::vector<std::string> gather_texts(const Group& group, const std::string& mine) {
  std::vector<int64_t> sizes = gather_integers(group, static_cast<int64_t>(mine.size()));
  int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = mine, all(static_cast<size_t>(longest) * sizes.size(), '\0');
  padded.resize(static_cast<size_t>(longest));
  group.all_gather(padded.data(), all.data(), longest).wait();
  std::vector<std::string> texts;
  for (size_t i = 0; i < sizes.size(); ++i)
    texts.push_back(all.substr(i * static_cast<size_t>(longest), static_cast<size_t>(sizes[i])));
  return texts;
}

ExactSum sum(const Group& group, const ExactSum& mine) {
  if (group.size() == 1) return mine;
  struct Wire {
    std::array<int64_t, ExactSum::kLimbs> limbs;
    double special;
  };
  ExactSum normal = mine;
  normal.normalize();
  Wire wire{normal.limbs(), normal.special()};
  std::vector<Wire> all(static_cast<size_t>(group.size()));
  group.all_gather(&wire, all.data(), sizeof wire).wait();
  ExactSum total;
  for (const Wire& w : all) {
    ExactSum part;
    part.limbs() = w.limbs;
    part.special() = w.special;
    total.add(part);
  }
  return total;
}

}  // namespace ravine
