// Ranks as threads of one test: groups that pass bytes and count them like those with MPI. A unit test can compare the
// results of several ranks with those from one rank, number by number, without a launcher.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/ranks.h"

namespace ravine {

// The messages sent and not yet received, by group, sender, receiver and number of the message.
class Post {
 public:
  using Key = std::tuple<std::string, int, int, int64_t>;
  void put(const Key& key, const void* data, int64_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    std::lock_guard lock(mutex_);
    there_.emplace(key, std::vector<std::byte>(from, from + bytes));
    changed_.notify_all();
  }
  void fetch(const Key& key, void* to, int64_t bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken_ || there_.count(key); });
    require(!broken_, "ranks: another one failed");
    const std::vector<std::byte> data = std::move(there_.extract(key).mapped());
    require(static_cast<int64_t>(data.size()) == bytes, "ranks: {} bytes sent, {} received", data.size(), bytes);
    std::copy(data.begin(), data.end(), static_cast<std::byte*>(to));
  }
  void give_up() {
    std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }
  bool empty() const { return there_.empty(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::vector<std::byte>> there_;
  bool broken_ = false;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(Post& post, std::string name, int rank, int size)
      : post_(post),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        sent_(static_cast<size_t>(size)),
        received_(static_cast<size_t>(size)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Pending all_gather(const void* mine, void* all, int64_t bytes) const override {
    return exchange([&](int) { return mine; }, all, std::vector<int64_t>(static_cast<size_t>(size_), bytes),
                    std::vector<int64_t>(static_cast<size_t>(size_), bytes));
  }
  Pending all_to_all(const void* send, void* receive, int64_t bytes) const override {
    const std::vector<int64_t> sizes(static_cast<size_t>(size_), bytes);
    return all_to_all(send, sizes, receive, sizes);
  }
  Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                     std::span<const int64_t> from) const override {
    return exchange(
        [&](int r) { return static_cast<const std::byte*>(send) + std::accumulate(to.begin(), to.begin() + r, int64_t{0}); },
        receive, to, from);
  }
  Pending send(const void* data, int64_t bytes, int to) const override {
    put(data, bytes, to);
    return {};
  }
  Pending receive(void* data, int64_t bytes, int from) const override {
    return Pending(std::make_unique<Coming>(post_, std::vector{get(data, bytes, from)}));
  }
  void barrier() const override {
    std::vector<char> all(static_cast<size_t>(size_));
    const Traffic before = traffic_;
    all_gather(all.data(), all.data(), 1).wait();
    traffic_ = before;  // a barrier sends no data
  }
  void waited(double seconds) const { traffic_.wait_seconds += seconds; }  // counts seconds of waiting

 private:
  struct Letter {
    Post::Key key;
    void* to;
    int64_t bytes;
  };
  struct Coming final : Pending::Impl {
    Coming(Post& p, std::vector<Letter> l) : post(p), letters(std::move(l)) {}
    void wait() override {
      for (const Letter& l : letters) post.fetch(l.key, l.to, l.bytes);
    }
    Post& post;
    std::vector<Letter> letters;
  };
  void put(const void* data, int64_t bytes, int to) const {
    traffic_.bytes += bytes;
    post_.put({name_, rank_, to, sent_[static_cast<size_t>(to)]++}, data, bytes);
  }
  Letter get(void* data, int64_t bytes, int from) const {
    return {{name_, from, rank_, received_[static_cast<size_t>(from)]++}, data, bytes};
  }
  template <class F>
  Pending exchange(F&& piece, void* receive, std::span<const int64_t> to, std::span<const int64_t> from) const {
    std::vector<Letter> coming;
    std::byte* into = static_cast<std::byte*>(receive);
    for (int r = 0; r < size_; into += from[static_cast<size_t>(r++)]) {
      if (r == rank_) {
        if (const auto* own = static_cast<const std::byte*>(piece(r)); into != own)
          std::copy_n(own, to[static_cast<size_t>(r)], into);
        continue;
      }
      put(piece(r), to[static_cast<size_t>(r)], r);
      coming.push_back(get(into, from[static_cast<size_t>(r)], r));
    }
    return Pending(std::make_unique<Coming>(post_, std::move(coming)));
  }

  Post& post_;
  std::string name_;
  int rank_, size_;
  mutable std::vector<int64_t> sent_, received_;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Post& post, int rank, int size) : post_(post), all_(post, "all", rank, size) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  const Group& all() const override { return all_; }
  std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) override {
    const auto me = std::find(ranks.begin(), ranks.end(), rank());
    require(me != ranks.end(), "ranks: {} is not in its group", rank());
    return std::make_unique<ThreadGroup>(post_, fmt::format("{} {} {}", opened_++, name, ranks.front()),
                                         static_cast<int>(me - ranks.begin()), static_cast<int>(ranks.size()));
  }

 private:
  Post& post_;
  ThreadGroup all_;
  int opened_ = 0;
};

// Runs f once for each rank of the mesh, concurrently. The first exception ends the other ranks and is rethrown.
inline void on_ranks(const Mesh& mesh, const std::function<void(const Ranks&)>& f) {
  Post post;
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        ThreadWorld world(post, rank, mesh.ranks());
        f(Ranks(world, mesh));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        post.give_up();
      }
    });
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
  require(post.empty(), "ranks: messages that nobody received");
}

}  // namespace ravine
