// A file as a stream of bytes or lines, decompressed on the way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills as much of `into` as there is; less than asked for only at the end, 0 after it. Damaged or truncated compressed data
  // is a UserError naming the file. Blocks on the disk; one thread at a time.
  virtual size_t read(std::span<std::byte> into) = 0;
  virtual int64_t consumed() const { return 0; }  // bytes of the file itself that were read so far
};

// By the end of the name: .gz (also several members in a row), .zst (frames in a row, windows up to 128 MiB), .xz (streams in a
// row, at most 256 MiB of memory); anything else as it is.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// All of it; more than `limit` bytes after decompression is a UserError.
std::string read_whole(const std::string& path, int64_t limit);

// Lines of a source, without their '\n' (a '\r' before it stays). The last line may lack it; an empty rest is no line.
class LineReader {
 public:
  LineReader(std::unique_ptr<ByteSource> source, std::string where, int64_t max_line = int64_t{256} << 20);
  explicit LineReader(const std::string& path, int64_t max_line = int64_t{256} << 20);
  // The next line, valid until the next call; nothing at the end. A line of more than max_line bytes is a UserError.
  std::optional<std::string_view> next();
  bool cut() const { return cut_; }              // whether the last line returned lacked its '\n'
  int64_t line_number() const { return line_; }  // of the last line returned, from 1
  const ByteSource& source() const { return *source_; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string where_;
  int64_t max_line_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is read and not yet returned
  int64_t line_ = 0;
  bool at_end_ = false, cut_ = false;
};

}  // namespace ravine
