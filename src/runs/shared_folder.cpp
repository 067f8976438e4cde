#include "runs/shared_folder.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "files/atomic.h"
#include "files/temporary.h"

namespace ravine {
namespace fs = std::filesystem;
namespace {

// The longest time until another host sees a new file.
constexpr double kPatience = 10;  // seconds

bool seen(const std::string& what) {
  std::error_code error;
  for (const double began = seconds_now(); !fs::exists(what, error); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
    if (seconds_now() - began > kPatience) return false;
  return true;
}

}  // namespace

void check_shared(const Ranks& ranks, const World* world, const std::string& output, const std::string& digits) {
  const Group& all = ranks.all();
  if (all.size() == 1) return;
  const std::string folder = temporary_path((fs::path(output) / "ranks").string(), digits);
  auto file_of = [&](int rank) { return fmt::format("{}/{}", folder, rank); };
  std::string problem;
  if (ranks.first()) fs::create_directory(folder);
  all.barrier();
  try {
    if (!seen(folder))
      problem = "does not see there what the first rank writes";
    else
      create_file(file_of(ranks.rank()));
  } catch (const std::exception& e) {
    problem = fmt::format("cannot write there: {}", e.what());
  }
  std::vector<std::string> problems = gather_texts(all, problem);
  const std::vector<std::string> hosts = gather_texts(all, world->host());
  std::string unseen;
  if (ranks.first()) {
    for (int r = 1; r < all.size() && unseen.empty(); ++r)
      if (problems[static_cast<size_t>(r)].empty() && !seen(file_of(r))) unseen = std::to_string(r);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  if (unseen = gather_texts(all, unseen)[0]; !unseen.empty())
    problems[std::stoul(unseen)] = "writes there what the first rank does not see";
  for (size_t r = 0; r < problems.size(); ++r)
    if (!problems[r].empty())
      throw UserError(fmt::format("rank {} ({}) {}", r, hosts[r], problems[r]), output,
                      fmt::format("all ranks write their parts of checkpoints into one folder, that of rank 0 ({})", hosts[0]),
                      "set train.output to a folder that all ranks share and may write to");
}

}  // namespace ravine
