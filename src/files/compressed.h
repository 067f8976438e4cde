// A file as a stream of bytes or lines, decompressed while it is read.
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

// The bytes of a file, in order.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads the next bytes into `into` and returns their number: into.size(), fewer at the end of the stream, then 0.
  // Damaged or truncated compressed data is a UserError that names the file. Blocks on the disk; not thread-safe.
  virtual size_t read(std::span<std::byte> into) = 0;
  virtual int64_t consumed() const { return 0; }  // bytes read from the file so far, before decompression
};

// Opens a file; the end of its name selects the format: .gz (also several members), .zst (also several frames; windows
// up to 128 MiB), .xz (also several streams; at most 256 MiB of memory). Any other file is read as it is.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

// Returns the whole content of the file, decompressed as by open_bytes. More than `limit` bytes after decompression is
// a UserError.
std::string read_whole(const std::string& path, int64_t limit);

// Reads lines without their '\n'; a '\r' before it stays. The last line may lack its '\n'; an empty rest is not a line.
class LineReader {
 public:
  LineReader(std::unique_ptr<ByteSource> source, std::string where, int64_t max_line = int64_t{256} << 20);
  explicit LineReader(const std::string& path, int64_t max_line = int64_t{256} << 20);
  // Returns the next line, valid until the next call; nothing at the end. A line of more than max_line bytes is a
  // UserError.
  std::optional<std::string_view> next();
  bool cut() const { return cut_; }              // true if the last returned line lacked its '\n'
  int64_t line_number() const { return line_; }  // number of the last returned line, from 1
  const ByteSource& source() const { return *source_; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string where_;
  int64_t max_line_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // range of the bytes read and not yet returned
  int64_t line_ = 0;
  bool at_end_ = false, cut_ = false;
};

}  // namespace ravine
