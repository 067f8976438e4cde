// Zip archives of stored (uncompressed) members, as torch.save writes them. Source: PKWARE APPNOTE.TXT 6.3.10, with
// zip64. CRCs of members are not verified: torch has an option that leaves them wrong, and does not verify them either.
// A file is untrusted input: each error in it is a UserError that names the file and the member.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/atomic.h"

namespace ravine {

// A member of a zip archive; the result of parse_zip.
struct ZipMember {
  std::string name;
  int64_t begin = 0, size = 0;  // offset and size of its data in the file
};

// Parses the bytes of a zip archive and returns its members, in the order of the central directory. `where` names the
// file in errors. UserError: compressed or encrypted members, several disks, a repeated name, a local header that
// contradicts the directory, members that overlap or leave the file.
std::vector<ZipMember> parse_zip(std::span<const std::byte> file, const std::string& where);
bool looks_like_zip(std::span<const std::byte> file);

// Writes a zip archive of stored members, from front to back. Each member's data begins at a multiple of 64 bytes, as
// in torch. The file appears at commit(). Wrong use is an Error; a full disk is DiskFull.
class ZipWriter {
 public:
  // Creates the archive. Sizes and offsets of at least `zip64_from` are written in zip64 fields; tests set a smaller
  // number. straight: as in AtomicFile.
  explicit ZipWriter(std::string path, uint64_t zip64_from = 0xffffffff, bool straight = false);
  void begin(const std::string& name, int64_t size);
  // Writes the next bytes of the member that begin() began; all its bytes must be written before the next begin().
  void write(std::span<const std::byte> bytes);
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
