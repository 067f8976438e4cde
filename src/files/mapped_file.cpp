#include "files/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace ravine {

MappedFile::MappedFile(std::string path, Use use) : path_(std::move(path)) {
  int64_t size = 0;
  Fd fd = open_to_read(path_, &size);
  if (size == 0) return;
  void* at = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, *fd, 0);
  if (at == MAP_FAILED) throw_system("map file", path_, errno);
  ::madvise(at, static_cast<size_t>(size), use == Use::random ? MADV_RANDOM : MADV_SEQUENTIAL);
  data_ = static_cast<const std::byte*>(at);
  size_ = static_cast<size_t>(size);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::will_read(std::span<const std::byte> part) const {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  if (!part.empty()) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);  // a hint: failing changes nothing
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace ravine
