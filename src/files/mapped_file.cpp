#include "files/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

namespace ravine {
namespace {

// A mapping for the signal handler: atomics, and a message prepared in advance. Entries are reused and never freed.
struct Note {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::string line, path;
  dev_t device = 0;
  ino_t file = 0;
  Note* next = nullptr;
};

std::atomic<Note*> notes{nullptr};  // global: a signal handler has no other access
std::mutex noting_files;

Note* add_note(std::string line, const std::string& path, const struct stat& s, const void* at, size_t size) {
  std::lock_guard lock(noting_files);
  Note* note = notes.load();
  while (note && note->end.load() != 0) note = note->next;
  const bool fresh = note == nullptr;
  if (fresh) note = new Note;
  note->path = path;
  note->line = std::move(line);
  note->device = s.st_dev;
  note->file = s.st_ino;
  note->begin = reinterpret_cast<uintptr_t>(at);
  note->end = reinterpret_cast<uintptr_t>(at) + size;
  if (fresh) {
    note->next = notes.load();
    notes = note;
  }
  return note;
}

Note* note_file(const std::string& path, int fd, const void* at, size_t size) {
  struct stat s {};
  ::fstat(fd, &s);
  return add_note(
      fmt::format(
          "error: file was cut short while it was read ({}): a file in use must keep its {} bytes; restore it and run the same command again\n",
          path, size),
      path, s, at, size);
}

// The handler of SIGBUS. Calls async-signal-safe functions only.
void on_bus_error(int number, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));  // the last page reaches beyond the end
  for (const Note* n = notes.load(); n; n = n->next) {
    const uintptr_t begin = n->begin.load(), end = n->end.load();
    if (end == 0 || at < begin || at >= (end + page - 1) / page * page) continue;
    if (::write(STDERR_FILENO, n->line.data(), n->line.size()) < 0) ::_exit(1);
    ::_exit(1);
  }
  ::signal(number, SIG_DFL);  // then the same instruction raises it again
}

}  // namespace

void* note_mapping(std::string line, const void* at, size_t size) { return add_note(std::move(line), "", {}, at, size); }

void forget_mapping(void* noted) {
  std::lock_guard lock(noting_files);
  static_cast<Note*>(noted)->end = 0;
}

void name_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void check_mapped_files() {
  std::lock_guard lock(noting_files);
  for (const Note* n = notes.load(); n; n = n->next) {
    struct stat s {};
    const uintptr_t begin = n->begin.load(), end = n->end.load();
    if (end == 0 || ::stat(n->path.c_str(), &s) != 0 || s.st_dev != n->device || s.st_ino != n->file) continue;
    if (static_cast<uintptr_t>(s.st_size) < end - begin)
      fail(
          "file was cut short while it was read ({}): a file in use must keep its {} bytes, got {}; restore it and run the same command again",
          n->path, end - begin, s.st_size);
  }
}

MappedFile::MappedFile(std::string path, Use use) : path_(std::move(path)) {
  int64_t size = 0;
  Fd fd = open_to_read(path_, &size);
  *this = MappedFile(path_, fd, size, use);
}

MappedFile::MappedFile(std::string path, const Fd& fd, int64_t size, Use use) : path_(std::move(path)) {
  if (size == 0) return;
  void* at = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, *fd, 0);
  if (at == MAP_FAILED) throw_system("map file", path_, errno);
  if (use != Use::any) ::madvise(at, static_cast<size_t>(size), use == Use::random ? MADV_RANDOM : MADV_SEQUENTIAL);
  data_ = static_cast<const std::byte*>(at);
  size_ = static_cast<size_t>(size);
  noted_ = note_file(path_, *fd, at, size_);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_mapping(noted_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_read(std::span<const std::byte> part) const {
  constexpr uintptr_t kPage = 4096;
  if (part.empty()) return;
  const size_t before = reinterpret_cast<uintptr_t>(part.data()) % kPage;  // offset in its first page
  // A hint: failure has no effect.
  ::madvise(const_cast<std::byte*>(part.data() - before), before + part.size(), MADV_WILLNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      noted_(std::exchange(other.noted_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(noted_, other.noted_);
  return *this;
}

}  // namespace ravine
