// main() of the test programs: unit_ROOM [--file NAME] [flags of GoogleTest]. --file runs the tests of NAME.cpp alone;
// --gtest_filter then chooses among them. Tests run in the folder of the sources, where the recorded files are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

// Before all other files: some read what is recorded to know which tests they have.
__attribute__((constructor(101))) void enter_sources() {
  if (chdir(RAVINE_SOURCE_DIR) != 0) std::_Exit(2);
}

// The tests of a file as GoogleTest's filter; empty: there are none. Two tests of one name could not be told apart.
std::string filter_of(const std::string& stem) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::set<std::string> names;
  std::string filter;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string name = std::string(suite.name()) + "." + test.name();
      if (!names.insert(name).second) {
        std::fprintf(stderr, "two tests are named %s\n", name.c_str());
        std::exit(2);
      }
      if (stem.empty() || std::filesystem::path(test.file()).stem() == stem) filter += (filter.empty() ? "" : ":") + name;
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string self =
      std::filesystem::read_symlink("/proc/self/exe").string();  // for death tests, which start the program
  std::vector<char*> arguments(argv, argv + argc);
  arguments[0] = const_cast<char*>(self.c_str());
  std::string stem;
  if (argc > 2 && std::string(argv[1]) == "--file") {
    stem = argv[2];
    arguments.erase(arguments.begin() + 1, arguments.begin() + 3);
  }
  bool filtered = false;
  for (const char* a : arguments) filtered = filtered || std::string_view(a).starts_with("--gtest_filter");
  arguments.push_back(nullptr);
  int count = static_cast<int>(arguments.size()) - 1;
  testing::InitGoogleTest(&count, arguments.data());
  const std::string filter = filter_of(stem);
  if (filter.empty()) {
    std::fprintf(stderr, "no test is in %s.cpp\n", stem.c_str());
    return 2;
  }
  if (!stem.empty() && !filtered) GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}
