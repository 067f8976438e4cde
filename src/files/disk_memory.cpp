#include "files/disk_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/checked.h"
#include "base/log.h"
#include "files/disk_space.h"
#include "files/mapped_file.h"
#include "files/temporary.h"

namespace ravine {
namespace {

constexpr int64_t kDiskPage = 4096;
constexpr const char* kMoreRoom =
    "name a folder with more room in offload.path, or leave offload.optimizer and offload.params out";

}  // namespace

DiskMemory::DiskMemory(const std::string& folder, int64_t bytes) : folder_(folder), size_(bytes) {
  create_folders(folder);
  const std::string what = fmt::format("offload of {}", human_bytes(static_cast<double>(bytes)));
  // The free space is checked first: a failing fallocate would fill the disk before it reports the error.
  if (const auto room = free_space(folder); room && *room < bytes)
    throw DiskFull(what, folder, fmt::format("{} bytes asked for; {}", bytes, kMoreRoom));
  file_ = create_nameless_file(folder);
  if (!file_) {
    std::string path;
    file_ = create_temporary_file(folder + "/offload", &path);
    if (::unlink(path.c_str()) != 0) throw_system("remove", path, errno);
  }
  int code = EINTR;
  while (code == EINTR) code = bytes > 0 ? ::posix_fallocate(*file_, 0, bytes) : 0;
  if (code == ENOSPC || code == EDQUOT) throw DiskFull(what, folder, fmt::format("{} bytes asked for; {}", bytes, kMoreRoom));
  if (code != 0) throw_system(what, folder, code);
}

DiskMemory::~DiskMemory() {
  for (void* noted : noted_) forget_mapping(noted);
}

void DiskMemory::take(const Storage& memory) {
  if (memory.bytes() == 0) return;
  const int64_t at = taken_;
  taken_ += ceil_div(memory.bytes(), kDiskPage) * kDiskPage;
  if (!memory.data()) return;
  require(taken_ <= size_, "offload: {} bytes are taken, planned were {}", taken_, size_);
  const auto size = static_cast<size_t>(memory.bytes());
  if (::mmap(memory.data(), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *file_, at) == MAP_FAILED)
    throw_system("map file in", folder_, errno);
  noted_.push_back(note_mapping(
      fmt::format(
          "error: offload in '{}': the disk failed to read or write; look at the disk, and run the same command again\n",
          folder_),
      memory.data(), size));
  offsets_[memory.data()] = at;
}

void DiskMemory::fetch(const Storage& memory) const {
  if (offsets_.contains(memory.data())) ::madvise(memory.data(), static_cast<size_t>(memory.bytes()), MADV_WILLNEED);
}

void DiskMemory::drop(const Storage& memory) const {
  const auto found = offsets_.find(memory.data());
  if (found == offsets_.end()) return;
  ::madvise(memory.data(), static_cast<size_t>(memory.bytes()), MADV_DONTNEED);
  // The range behind the end has no pages to wait for; the call returns the errors of earlier writes.
  if (::sync_file_range(*file_, found->second, memory.bytes(), SYNC_FILE_RANGE_WRITE) != 0 ||
      ::sync_file_range(*file_, size_, kDiskPage, SYNC_FILE_RANGE_WAIT_BEFORE) != 0)
    throw_system("write offload in", folder_, errno);
}

int64_t DiskMemory::most_at_once(const std::vector<int64_t>& pieces) {
  int64_t most = 0;
  for (size_t i = 0; i < pieces.size(); ++i)
    most = std::max(most, (i > 0 ? pieces[i - 1] : 0) + pieces[i] + (i + 1 < pieces.size() ? pieces[i + 1] : 0));
  return most;
}

}  // namespace ravine
