#include "base/launcher.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <vector>

namespace ravine {
namespace test_launcher {

// Variables of Open MPI, PMIx (srun) and PMI (MPICH), and none of them.
TEST(Launched, ComesFromTheLauncher) {
  const char* all[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  struct Case {
    std::vector<std::pair<const char*, const char*>> set;
    bool launched;
    int rank;
    bool several;
  };
  for (const Case& c :
       std::vector<Case>{{{}, false, 0, false},
                         {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"PMIX_RANK", "2"}}, true, 2, true},
                         {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}}, true, 0, true},
                         {{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}, true, 0, false},
                         {{{"PMIX_RANK", "3"}}, true, 3, true},
                         {{{"PMIX_RANK", "0"}}, true, 0, false},
                         {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, true, 0, true},
                         {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, true, 1, true}}) {
    for (const char* v : all) unsetenv(v);
    for (auto [key, value] : c.set) setenv(key, value, 1);
    const std::string what = c.set.empty() ? "nothing" : c.set[0].first;
    EXPECT_EQ(launched_as_rank(), c.launched) << what;
    EXPECT_EQ(launched_rank(), c.rank) << what;
    EXPECT_EQ(launched_as_several(), c.several) << what;
  }
  for (const char* v : all) unsetenv(v);
}

TEST(Interfaces, OfMpiAreThoseOfTheFirstVariableThatIsSet) {
  const char* ours[] = {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                        "PRTE_MCA_oob_tcp_if_include", "HYDRA_IFACE",
                        "MPIR_CVAR_NETWORK_IFACE",     "UCX_NET_DEVICES"};
  const char* excluded[] = {"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude", "PRTE_MCA_oob_tcp_if_exclude"};
  auto clear = [&] {
    for (const char* v : ours) unsetenv(v);
    for (const char* v : excluded) unsetenv(v);
  };
  clear();
  EXPECT_EQ(interfaces_of_mpi() + interfaces_not_of_mpi(), "");
  for (size_t i = std::size(ours); i-- > 0;) {  // each comes before those behind it
    setenv(ours[i], ours[i], 1);
    EXPECT_EQ(interfaces_of_mpi(), ours[i]);
    EXPECT_EQ(interfaces_not_of_mpi(), "");
  }
  setenv(ours[0], "", 1);
  EXPECT_EQ(interfaces_of_mpi(), ours[1]) << "an empty one says nothing";
  clear();
  for (size_t i = std::size(excluded); i-- > 0;) {
    setenv(excluded[i], excluded[i], 1);
    EXPECT_EQ(interfaces_not_of_mpi(), excluded[i]);
    EXPECT_EQ(interfaces_of_mpi(), "");
  }
  clear();
}

TEST(Launched, OtherLaunchersSetTheCount) {
  const char* all[] = {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* v : all) unsetenv(v);
  EXPECT_FALSE(other_launcher());
  for (const char* v : all) {
    for (const char* one : {"1", "0", "", "x"}) {
      setenv(v, one, 1);
      EXPECT_FALSE(other_launcher()) << v << "=" << one;
    }
    setenv(v, "4", 1);
    EXPECT_EQ(other_launcher()->variable, std::string(v));
    EXPECT_EQ(other_launcher()->ranks, 4);
    unsetenv(v);
  }
}

}  // namespace test_launcher
}  // namespace ravine
