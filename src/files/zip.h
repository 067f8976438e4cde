// Zip archives of stored (uncompressed) members, as torch.save writes them. Source: PKWARE APPNOTE.TXT 6.3.10, with zip64.
// Checksums of members are not verified: torch can be told to leave them wrong, and does not verify them either.
// A file is untrusted input: whatever is wrong with it is a UserError naming the file and the member.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/atomic.h"

namespace ravine {

struct ZipMember {
  std::string name;
  int64_t begin = 0, size = 0;  // bytes of its data in the file
};

// Members in the order of the central directory. Refused: compressed or encrypted members, archives of several disks, names
// twice, local headers that contradict the directory, members that overlap or leave the file.
std::vector<ZipMember> parse_zip(std::span<const std::byte> file, const std::string& where);
bool looks_like_zip(std::span<const std::byte> file);

// Writes an archive front to back; each member's data begins at a multiple of 64 bytes, as torch aligns them. The file appears
// at commit(). Wrong use is an Error, a full disk DiskFull.
class ZipWriter {
 public:
  // Sizes and offsets from `zip64_from` on are written in zip64 fields (a smaller number is for tests).
  explicit ZipWriter(std::string path, uint64_t zip64_from = 0xffffffff, bool straight = false);
  void begin(const std::string& name, int64_t size);
  void write(std::span<const std::byte> bytes);  // the next bytes of the member; the next begin() needs them all
  void add(const std::string& name, std::string_view bytes);
  void commit();

 private:
  struct Entry {
    std::string name;
    uint64_t offset = 0, size = 0;
    uint32_t crc = 0;
  };
  void finish();
  bool large(uint64_t value) const { return value >= zip64_from_; }
  AtomicFile file_;
  uint64_t zip64_from_;
  std::vector<Entry> entries_;
  uint64_t left_ = 0;
  bool open_ = false;
};

}  // namespace ravine
