#include "runs/stop_request.h"

#include <filesystem>

#include "files/atomic.h"

namespace ravine {
namespace {
std::string stop_file(const std::string& output) { return (std::filesystem::path(output) / "stop").string(); }
}  // namespace

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
