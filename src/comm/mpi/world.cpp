#define OMPI_SKIP_MPICXX 1  // the old C++ names would need another library
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "comm/world.h"

namespace ravine {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{}: {}", what, std::string(text, static_cast<size_t>(length)));
}

// MPI's counts are int, so bytes are sent in units of a power of two that divides them.
class Unit {
 public:
  explicit Unit(int64_t bytes) : size_(1) {
    while (size_ < (1 << 20) && bytes % (2 * size_) == 0 && bytes > 0) size_ *= 2;
    count_ = bytes / size_;
    require(count_ <= INT32_MAX, "mpi: a message of {} bytes", bytes);
    if (size_ == 1) return;
    check(MPI_Type_contiguous(static_cast<int>(size_), MPI_BYTE, &type_), "mpi type");
    check(MPI_Type_commit(&type_), "mpi type");
  }
  ~Unit() {
    if (size_ > 1) MPI_Type_free(&type_);  // pending calls keep the type alive
  }
  Unit(const Unit&) = delete;
  MPI_Datatype type() const { return type_; }
  int count() const { return static_cast<int>(count_); }
  int64_t bytes() const { return size_; }

 private:
  int64_t size_, count_;
  MPI_Datatype type_ = MPI_BYTE;
};

class Waiting {
 public:
  Waiting(WaitState& state, const WaitName& wait_name) : state_(state) { state_.now = &wait_name; }
  ~Waiting() { state_.now = nullptr; }

 private:
  WaitState& state_;
};

class MpiGroup;
class Request final : public Pending::Impl {
 public:
  // `kept`: data that MPI reads until the request is done.
  Request(MPI_Request request, const MpiGroup& group, const WaitName& wait_name, std::vector<int> kept = {})
      : request_(request), group_(group), wait_name_(wait_name), kept_(std::move(kept)) {}
  void wait() override;

 private:
  MPI_Request request_;
  const MpiGroup& group_;
  const WaitName& wait_name_;
  std::vector<int> kept_;
};
class MpiGroup final : public Group {
 public:
  MpiGroup(MPI_Comm comm, std::string_view name, WaitState& waits)
      : comm_(comm),
        waits_(waits),
        barrier_(wait_name("barrier", name)),
        all_gather_(wait_name("all_gather", name)),
        all_to_all_(wait_name("all_to_all", name)),
        send_(wait_name("send", name)),
        receive_(wait_name("receive", name)) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  ~MpiGroup() override {
    int over = 0;
    MPI_Finalized(&over);
    if (!over && comm_ != MPI_COMM_WORLD) MPI_Comm_free(&comm_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Pending all_gather(const void* mine, void* all, int64_t bytes) const override {
    if (!all) return count((size_ - 1) * bytes);
    check_usable();
    Unit unit(bytes);
    bool in_place = mine == static_cast<char*>(all) + rank_ * bytes;
    MPI_Request r;
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : mine, unit.count(), unit.type(), all, unit.count(), unit.type(), comm_, &r),
          "all_gather");
    return pending(r, (size_ - 1) * bytes, all_gather_);
  }
  Pending all_to_all(const void* send, void* receive, int64_t bytes) const override {
    if (!receive) return count((size_ - 1) * bytes);
    check_usable();
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Ialltoall(send, unit.count(), unit.type(), receive, unit.count(), unit.type(), comm_, &r), "all_to_all");
    return pending(r, (size_ - 1) * bytes, all_to_all_);
  }
  Pending all_to_all(const void* send, std::span<const int64_t> to, void* receive,
                     std::span<const int64_t> from) const override {
    const size_t n = static_cast<size_t>(size_);
    require(to.size() == n && from.size() == n, "all_to_all: {} and {} pieces for {} ranks", to.size(), from.size(), n);
    const int64_t others = std::accumulate(to.begin(), to.end(), int64_t{0}) - to[static_cast<size_t>(rank_)];
    if (!receive) return count(others);
    check_usable();
    int64_t bits = 0, all = 0;  // a unit that divides every piece
    for (std::span<const int64_t> sizes : {to, from})
      for (int64_t bytes : sizes) bits |= bytes, all += bytes;
    const Unit unit(bits);
    require(all / unit.bytes() <= INT32_MAX, "mpi: pieces of {} bytes together", all);
    std::vector<int> kept;  // counts and offsets of the sent pieces, then of the received ones
    for (std::span<const int64_t> sizes : {to, from}) {
      for (int64_t bytes : sizes) kept.push_back(static_cast<int>(bytes / unit.bytes()));
      int64_t at = 0;
      for (int64_t bytes : sizes) kept.push_back(static_cast<int>(at / unit.bytes())), at += bytes;
    }
    const int* of = kept.data();
    MPI_Request r;
    check(MPI_Ialltoallv(send, of, of + n, unit.type(), receive, of + 2 * n, of + 3 * n, unit.type(), comm_, &r), "all_to_all");
    count(others);
    return Pending(std::make_unique<Request>(r, *this, all_to_all_, std::move(kept)));
  }
  Pending send(const void* data, int64_t bytes, int to) const override {
    if (!data) return count(bytes);
    check_usable();
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Isend(data, unit.count(), unit.type(), to, 0, comm_, &r), "send");
    return pending(r, bytes, send_);
  }
  Pending receive(void* data, int64_t bytes, int from) const override {
    if (!data) return {};
    check_usable();
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Irecv(data, unit.count(), unit.type(), from, 0, comm_, &r), "receive");
    return pending(r, 0, receive_);
  }
  void barrier() const override {
    check_usable();
    const Waiting waiting(waits_, barrier_);
    const double began = seconds_now();
    check(MPI_Barrier(comm_), "barrier");
    traffic_.wait_seconds += seconds_now() - began;
  }
  void finish(MPI_Request& request, const WaitName& wait_name) const {
    const Waiting waiting(waits_, wait_name);
    const double began = seconds_now();
    try {
      check(MPI_Wait(&request, MPI_STATUS_IGNORE), wait_name.call.c_str());
    } catch (const Error& e) {
      if (failed_.empty()) failed_ = e.what();
      throw;
    }
    traffic_.wait_seconds += seconds_now() - began;
  }
  void progress() const override {
    int ready = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &ready, MPI_STATUS_IGNORE);  // any call lets the library work
  }

 private:
  Pending count(int64_t bytes) const {
    ++traffic_.calls;
    traffic_.bytes += bytes;
    return {};
  }
  Pending pending(MPI_Request r, int64_t bytes, const WaitName& wait_name) const {
    count(bytes);
    return Pending(std::make_unique<Request>(r, *this, wait_name));
  }
  const WaitName& wait_name(const char* call, std::string_view name) const {
    return waits_.names.emplace_back(WaitName{call, std::string(name)});
  }
  void check_usable() const { require(failed_.empty(), "the group '{}' has failed before: {}", barrier_.group, failed_); }
  MPI_Comm comm_;
  WaitState& waits_;
  const WaitName &barrier_, &all_gather_, &all_to_all_, &send_, &receive_;
  mutable std::string failed_;  // the error of a wait, also of one in a destructor
  int rank_ = 0, size_ = 1;
};

void Request::wait() { group_.finish(request_, wait_name_); }

class MpiWorld final : public World {
 public:
  MpiWorld() {
    int before = 0, given = 0;
    MPI_Initialized(&before);
    began_ = !before;
    if (began_) {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "mpi");
      require(given >= MPI_THREAD_FUNNELED, "mpi: the library was built without threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_ = std::make_unique<MpiGroup>(MPI_COMM_WORLD, "world", waits_);
    host_ = host_name();
    std::vector<std::string> hosts = gather_texts(*all_, host_);
    local_size_ = static_cast<int>(std::count(hosts.begin(), hosts.end(), host_));
  }
  ~MpiWorld() override {
    all_.reset();
    // After an exception the other ranks may be anywhere: MPI_Finalize would wait for them.
    if (began_ && !std::uncaught_exceptions()) MPI_Finalize();
  }
  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  const Group& all() const override { return *all_; }
  std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) override {
    // The color is the lowest rank; keys keep the given order.
    int key = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
    require(key < static_cast<int>(ranks.size()), "mpi: rank {} asks for a group without it", rank());
    MPI_Comm comm;
    check(MPI_Comm_split(MPI_COMM_WORLD, *std::min_element(ranks.begin(), ranks.end()), key, &comm), "group");
    return std::make_unique<MpiGroup>(comm, name, waits_);
  }

 private:
  std::unique_ptr<MpiGroup> all_;
  bool began_ = false;  // MPI, which ends with this world
};

}  // namespace

std::unique_ptr<World> open_mpi_world() { return std::make_unique<MpiWorld>(); }

}  // namespace ravine
