#define OMPI_SKIP_MPICXX 1  // the old C++ names would need a library of their own
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

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

// Counts of MPI are int: bytes travel in units of a power of two that divides them.
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
    if (size_ > 1) MPI_Type_free(&type_);  // pending calls keep what they need
  }
  Unit(const Unit&) = delete;
  MPI_Datatype type() const { return type_; }
  int count() const { return static_cast<int>(count_); }

 private:
  int64_t size_, count_;
  MPI_Datatype type_ = MPI_BYTE;
};

class Waiting {
 public:
  Waiting(WaitState& state, const char* call, const char* group) : state_(state) { state_.group = group, state_.call = call; }
  ~Waiting() { state_.call = nullptr; }

 private:
  WaitState& state_;
};

class MpiGroup;
class Request final : public Pending::Impl {
 public:
  Request(MPI_Request request, const MpiGroup& group, const char* what) : request_(request), group_(group), what_(what) {}
  void wait() override;

 private:
  MPI_Request request_;
  const MpiGroup& group_;
  const char* what_;
};
class MpiGroup final : public Group {
 public:
  MpiGroup(MPI_Comm comm, std::string_view name, WaitState& waits) : comm_(comm), name_(name), waits_(waits) {
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
    Unit unit(bytes);
    bool in_place = mine == static_cast<char*>(all) + rank_ * bytes;
    MPI_Request r;
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : mine, unit.count(), unit.type(), all, unit.count(), unit.type(), comm_, &r), "all_gather");
    return pending(r, (size_ - 1) * bytes, "all_gather");
  }
  Pending all_to_all(const void* send, void* receive, int64_t bytes) const override {
    if (!receive) return count((size_ - 1) * bytes);
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Ialltoall(send, unit.count(), unit.type(), receive, unit.count(), unit.type(), comm_, &r), "all_to_all");
    return pending(r, (size_ - 1) * bytes, "all_to_all");
  }
  Pending send(const void* data, int64_t bytes, int to) const override {
    if (!data) return count(bytes);
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Isend(data, unit.count(), unit.type(), to, 0, comm_, &r), "send");
    return pending(r, bytes, "send");
  }
  Pending receive(void* data, int64_t bytes, int from) const override {
    if (!data) return {};
    Unit unit(bytes);
    MPI_Request r;
    check(MPI_Irecv(data, unit.count(), unit.type(), from, 0, comm_, &r), "receive");
    return pending(r, 0, "receive");
  }
  void barrier() const override {
    Waiting waiting(waits_, "barrier", name_.c_str());
    check(MPI_Barrier(comm_), "barrier");
  }
  void finish(MPI_Request& request, const char* what) const {
    Waiting waiting(waits_, what, name_.c_str());
    auto began = std::chrono::steady_clock::now();
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), what);
    traffic_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
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
  Pending pending(MPI_Request r, int64_t bytes, const char* what) const {
    count(bytes);
    return Pending(std::make_unique<Request>(r, *this, what));
  }
  MPI_Comm comm_;
  std::string name_;
  WaitState& waits_;
  int rank_ = 0, size_ = 1;
};

void Request::wait() { group_.finish(request_, what_); }

class MpiWorld final : public World {
 public:
  MpiWorld() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "mpi");
    require(given >= MPI_THREAD_FUNNELED, "mpi: the library was built without threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_ = std::make_unique<MpiGroup>(MPI_COMM_WORLD, "world", waits_);
    host_ = host_name();
    std::vector<std::string> hosts = gather_texts(*all_, host_);
    local_rank_ = static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank(), host_));
    local_size_ = static_cast<int>(std::count(hosts.begin(), hosts.end(), host_));
  }
  ~MpiWorld() override {
    all_.reset();
    // After an exception the other ranks may be anywhere: finalising would wait for them.
    if (!std::uncaught_exceptions()) MPI_Finalize();
  }
  int rank() const override { return all_->rank(); }
  int size() const override { return all_->size(); }
  const Group& all() const override { return *all_; }
  std::unique_ptr<Group> group(const std::vector<int>& ranks, std::string_view name) override {
    // The least rank names the group; keys keep the given order.
    int key = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
    require(key < static_cast<int>(ranks.size()), "mpi: rank {} asks for a group without it", rank());
    MPI_Comm comm;
    check(MPI_Comm_split(MPI_COMM_WORLD, *std::min_element(ranks.begin(), ranks.end()), key, &comm), "group");
    return std::make_unique<MpiGroup>(comm, name, waits_);
  }

 private:
  std::unique_ptr<MpiGroup> all_;
};

}  // namespace

std::unique_ptr<World> open_mpi_world() { return std::make_unique<MpiWorld>(); }

}  // namespace ravine
