#include "train/stop.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "files/atomic.h"

namespace ravine {
namespace {
std::atomic<int> signals{0};  // a signal handler can reach nothing else
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int number) {
  if (signals.fetch_add(1) > 0 && number == SIGINT) _exit(130);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};
std::string stop_file(const std::string& output) { return (std::filesystem::path(output) / "stop").string(); }
}  // namespace

StopSignals::StopSignals() {
  signals = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int s : kSignals) sigaction(s, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (int s : kSignals) signal(s, SIG_DFL);
}

bool StopSignals::requested() { return signals.load() > 0; }

void request_stop(const std::string& output) {
  if (!stop_requested(output)) write_file_atomic(stop_file(output), "stop\n");
}

bool stop_requested(const std::string& output) {
  std::error_code ignored;
  return std::filesystem::exists(stop_file(output), ignored);
}

void clear_stop_request(const std::string& output) {
  std::error_code ignored;
  std::filesystem::remove(stop_file(output), ignored);
}

}  // namespace ravine
