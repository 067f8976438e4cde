// Groups of ranks that communicate, usually along one axis of the mesh. A group moves bytes and never adds, since the
// order of a sum matters; engine/ops/collectives.h has sums with a fixed order.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/exact_sum.h"
#include "comm/mesh.h"

namespace ravine {

// A running communication. wait() returns when it is done or throws its error; until then its buffers must not be used.
// The destructor waits if nobody has. It cannot throw: it prints the error, and the next call of the group throws.
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

// The traffic of a group of ranks so far, counted as in MPI. Counted are the calls, the bytes that this rank sent to
// others, and the time that it waited for them.
struct Traffic {
  int64_t calls = 0, bytes = 0;
  double wait_seconds = 0;
};

// A group of ranks. All its ranks make the same calls in the same order. A call with a null pointer counts its bytes
// and moves none (meta device).
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Gathers the data of all ranks on every rank: `bytes` bytes of each; the data of rank i is at all + i * bytes.
  // `mine` may already be in its place in `all`.
  virtual Pending all_gather(const void* mine, void* all, int64_t bytes) const = 0;
  // Sends piece i of `send` to rank i and receives piece i of `receive` from rank i. Every piece has `bytes` bytes.
  virtual Pending all_to_all(const void* send, void* receive, int64_t bytes) const = 0;
  // Sends consecutive pieces of any size: to[i] bytes of `send` go to rank i, from[i] bytes of `receive` come from rank
  // i. Sender and receiver must agree on the sizes beforehand.
  virtual Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                             std::span<const int64_t> from) const = 0;
  // Send `bytes` bytes to, or receive them from, one rank of the group. Messages between two ranks arrive in the order
  // in which they were sent.
  virtual Pending send(const void* data, int64_t bytes, int to) const = 0;
  virtual Pending receive(void* data, int64_t bytes, int from) const = 0;
  virtual void barrier() const = 0;
  // Lets pending calls proceed; called from time to time between kernels.
  virtual void progress() const {}

  const Traffic& traffic() const { return traffic_; }

 protected:
  mutable Traffic traffic_;
};

// The group of a single rank: no communication is needed.
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

// Simulates one rank of a group that does not exist: counts bytes and moves nothing. For plans of layouts larger than
// the machine.
class FakeGroup final : public Group {
 public:
  FakeGroup(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Pending all_gather(const void* mine, void* all, int64_t bytes) const override;  // as if every rank sent the same
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

// Returns the text, or the integer, `mine` of every rank, in rank order. All ranks of the group call it together and
// get the same result.
std::vector<std::string> gather_texts(const Group& group, const std::string& mine);
std::vector<int64_t> gather_integers(const Group& group, int64_t mine);
ExactSum sum(const Group& group,
             const ExactSum& mine);  // the sum of `mine` over all ranks; exact, so independent of their order
int64_t largest(const Group& group, int64_t mine);
inline bool any(const Group& group, bool mine) { return largest(group, mine) != 0; }

}  // namespace ravine
