// Groups over MPI against what each collective promises. Run by mpirun with 4 ranks (6 works too).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "comm/world.h"

namespace ravine {
namespace {

World* world = nullptr;

std::vector<int32_t> numbers(int rank, int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), rank * 1000000);
  return out;
}

TEST(Groups, AllGatherKeepsRankOrder) {
  const Group& all = world->all();
  for (int64_t count : {1, 3, 1000, 300001}) {
    std::vector<int32_t> mine = numbers(all.rank(), count), got(mine.size() * static_cast<size_t>(all.size()));
    int64_t before = all.traffic().bytes;
    all.all_gather(mine.data(), got.data(), count * 4).wait();
    EXPECT_EQ(all.traffic().bytes - before, (all.size() - 1) * count * 4);
    for (int r = 0; r < all.size(); ++r)
      EXPECT_EQ(std::memcmp(got.data() + r * count, numbers(r, count).data(), static_cast<size_t>(count) * 4), 0)
          << "rank " << r;
    // In place.
    std::fill(got.begin(), got.end(), -1);
    std::copy(mine.begin(), mine.end(), got.begin() + all.rank() * count);
    all.all_gather(got.data() + all.rank() * count, got.data(), count * 4).wait();
    for (int r = 0; r < all.size(); ++r) EXPECT_EQ(got[static_cast<size_t>(r * count + count - 1)], numbers(r, count).back());
  }
}

// A message that is larger than its buffer fails at its wait. A destructor only logs the error. All later calls of the
// group fail.
TEST(Groups, AFailedWaitIsNoCrash) {
  const Group& all = world->all();
  if (all.size() < 2) GTEST_SKIP() << "one rank";
  std::vector<int> ranks(static_cast<size_t>(all.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::unique_ptr<Group> group = world->group(ranks, "broken");
  std::vector<int32_t> data(64);
  if (group->rank() == 0) group->send(data.data(), 256, 1).wait();
  if (group->rank() == 1) {
    { const Pending lost = group->receive(data.data(), 128, 0); }
    EXPECT_THROW(group->receive(data.data(), 128, 0), std::exception);
    EXPECT_THROW(group->barrier(), std::exception);
  }
  all.barrier();
}

TEST(Groups, AllToAllExchangesPieces) {
  const Group& all = world->all();
  for (int64_t count : {1, 7, 4096}) {
    size_t n = static_cast<size_t>(count);
    std::vector<int32_t> send, got(n * static_cast<size_t>(all.size()));
    for (int r = 0; r < all.size(); ++r) send.insert(send.end(), n, all.rank() * 100 + r);
    all.all_to_all(send.data(), got.data(), count * 4).wait();
    for (int r = 0; r < all.size(); ++r) EXPECT_EQ(got[static_cast<size_t>(r) * n], r * 100 + all.rank());
  }
}

// Pieces of any size, none too: rank r sends (r + 2 i) % 5 times `scale` bytes to rank i.
TEST(Groups, AllToAllExchangesRaggedPieces) {
  const Group& all = world->all();
  auto size = [](int from, int to, int64_t scale) { return (from + 2 * to) % 5 * scale; };
  for (int64_t scale : {1, 3, 1024, 40000}) {
    std::vector<int64_t> to, from;
    std::string send, want;
    for (int r = 0; r < all.size(); ++r) {
      to.push_back(size(all.rank(), r, scale)), from.push_back(size(r, all.rank(), scale));
      send.append(static_cast<size_t>(to.back()), static_cast<char>('a' + 7 * all.rank() + r));
      want.append(static_cast<size_t>(from.back()), static_cast<char>('a' + 7 * r + all.rank()));
    }
    const int64_t before = all.traffic().bytes;
    std::string got(want.size(), ' ');
    all.all_to_all(send.data(), to, got.data(), from).wait();
    EXPECT_TRUE(got == want) << scale;
    EXPECT_EQ(all.traffic().bytes - before, static_cast<int64_t>(send.size()) - to[static_cast<size_t>(all.rank())])
        << "what stays here is not sent";
  }
}

TEST(Groups, MessagesArriveInOrderAndSeveralMayBePending) {
  const Group& all = world->all();
  int next = (all.rank() + 1) % all.size(), last = (all.rank() + all.size() - 1) % all.size();
  if (all.size() == 1) GTEST_SKIP() << "one rank";
  std::vector<int32_t> a = numbers(all.rank(), 50000), b = numbers(all.rank() + 50, 10), got_a(a.size()), got_b(b.size());
  std::vector<Pending> pending;
  pending.push_back(all.send(a.data(), 200000, next));
  pending.push_back(all.send(b.data(), 40, next));
  pending.push_back(all.receive(got_a.data(), 200000, last));
  pending.push_back(all.receive(got_b.data(), 40, last));
  all.progress();
  pending.clear();
  EXPECT_EQ(got_a, numbers(last, 50000));
  EXPECT_EQ(got_b, numbers(last + 50, 10));
}

TEST(Groups, OfAMesh) {
  if (world->size() % 2) GTEST_SKIP() << "an odd number of ranks";
  Mesh mesh{1, world->size() / 2, 2};
  for (Axis axis : {Axis::tensor, Axis::data, Axis::pipeline}) {
    std::vector<int> ranks = ranks_along(mesh, axis, world->rank());
    auto group = world->group(ranks, name(axis));
    EXPECT_EQ(group->size(), mesh.size(axis));
    EXPECT_EQ(group->rank(), coordinates_of(mesh, world->rank()).along(axis, mesh));
    std::vector<int64_t> members = gather_integers(*group, world->rank());
    EXPECT_EQ(members, std::vector<int64_t>(ranks.begin(), ranks.end()));
  }
}

TEST(Groups, SmallValues) {
  const Group& all = world->all();
  std::vector<std::string> texts = gather_texts(all, std::string(static_cast<size_t>(all.rank()) * 3, 'x'));
  for (int r = 0; r < all.size(); ++r) EXPECT_EQ(texts[static_cast<size_t>(r)].size(), static_cast<size_t>(r) * 3);
  EXPECT_EQ(largest(all, all.rank() * 7), (all.size() - 1) * 7);
  EXPECT_TRUE(any(all, all.rank() == all.size() - 1));
  EXPECT_FALSE(any(all, false));
  ExactSum mine, want;
  for (int r = 0; r < all.size(); ++r) want.add(r % 2 ? -1e300 : 1e300 + r * 1e284), want.add(1e-300 * r);
  mine.add(all.rank() % 2 ? -1e300 : 1e300 + all.rank() * 1e284);
  mine.add(1e-300 * all.rank());
  EXPECT_EQ(sum(all, mine).value(), want.value());
}

}  // namespace
}  // namespace ravine

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto world = ravine::open_world();
  ravine::world = world.get();
  ravine::Heartbeat heartbeat(*world, 20, _exit);
  if (world->rank())
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  bool failed = ravine::any(world->all(), RUN_ALL_TESTS() != 0);
  if (failed && world->rank() == 0) std::puts("a rank failed");
  return failed;
}
