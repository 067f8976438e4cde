// Ranks that act together, usually along one axis of the mesh. A group moves bytes and never adds: sums have an order, and
// whoever needs one says which (engine/ops/collectives.h).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/exact_sum.h"
#include "comm/mesh.h"

namespace ravine {

// Something under way. wait() returns when it is done, or throws what went wrong; the buffers belong to it until then. The
// destructor waits at the latest, and cannot throw: it says what went wrong, and the next call of the group throws.
class Pending {
 public:
  struct Impl {
    virtual ~Impl() = default;
    virtual void wait() = 0;
  };
  Pending() = default;
  explicit Pending(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&& other) {  // NOLINT(performance-noexcept-move-constructor): wait() throws what went wrong
    wait();
    impl_ = std::move(other.impl_);
    return *this;
  }
  ~Pending();
  void wait() {
    if (auto impl = std::move(impl_)) impl->wait();
  }

 private:
  std::unique_ptr<Impl> impl_;
};

// What went over a group, as MPI counts it: bytes this rank handed over for others, and the time it stood still for them.
struct Traffic {
  int64_t calls = 0, bytes = 0;
  double wait_seconds = 0;
};

// All ranks of a group make the same calls in the same order. A call with a null pointer counts its bytes and moves none (meta
// device).
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // all[i * bytes ...] = what rank i gave. `mine` may be its own place in `all`.
  virtual Pending all_gather(const void* mine, void* all, int64_t bytes) const = 0;
  // Piece i of `send` goes to rank i; piece i of `receive` comes from rank i; `bytes` per piece.
  virtual Pending all_to_all(const void* send, void* receive, int64_t bytes) const = 0;
  // The same with pieces of any size, one after the other: to[i] bytes of `send` go to rank i, from[i] bytes of `receive` come
  // from it. What one rank sends another must be what that one expects; they agree on it before.
  virtual Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                             std::span<const int64_t> from) const = 0;
  // Messages between two ranks of the group arrive in the order they were sent.
  virtual Pending send(const void* data, int64_t bytes, int to) const = 0;
  virtual Pending receive(void* data, int64_t bytes, int from) const = 0;
  virtual void barrier() const = 0;
  // Lets what is pending move on; called now and then between kernels.
  virtual void progress() const {}

  const Traffic& traffic() const { return traffic_; }

 protected:
  mutable Traffic traffic_;
};

// One rank: everything is here already.
class SelfGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Pending all_gather(const void* mine, void* all, int64_t bytes) const override;
  Pending all_to_all(const void* send, void* receive, int64_t bytes) const override;
  Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                     std::span<const int64_t> from) const override;
  Pending send(const void*, int64_t, int) const override;
  Pending receive(void*, int64_t, int) const override;
  void barrier() const override {}
};

// Plays one rank of a group that is not there: counts, and moves nothing. For plans of layouts larger than the machine.
class FakeGroup final : public Group {
 public:
  FakeGroup(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Pending all_gather(const void* mine, void* all, int64_t bytes) const override;  // as if every rank gave the same
  Pending all_to_all(const void*, void*, int64_t bytes) const override { return count((size_ - 1) * bytes); }
  Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                     std::span<const int64_t> from) const override;
  Pending send(const void*, int64_t bytes, int) const override { return count(bytes); }
  Pending receive(void*, int64_t, int) const override { return {}; }
  void barrier() const override {}

 private:
  Pending count(int64_t bytes) const {
    ++traffic_.calls;
    traffic_.bytes += bytes;
    return {};
  }
  int rank_, size_;
};

// Small values of every rank, in rank order; and what follows from them. All ranks get the same.
std::vector<std::string> gather_texts(const Group& group, const std::string& mine);
std::vector<int64_t> gather_integers(const Group& group, int64_t mine);
ExactSum sum(const Group& group, const ExactSum& mine);  // exact, so the order does not matter
int64_t largest(const Group& group, int64_t mine);
inline bool any(const Group& group, bool mine) { return largest(group, mine) != 0; }

}  // namespace ravine
