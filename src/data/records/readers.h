// Functions that open a reader for each kind of record file; see data/record_reader.h.
#pragma once
#include <memory>
#include <string>

#include "data/record_reader.h"
#include "files/compressed.h"

namespace ravine {

std::unique_ptr<RecordReader> open_text_records(const std::string& path, const RecordOptions& options);
std::unique_ptr<RecordReader> open_jsonl_records(const std::string& path, const RecordOptions& options);
std::unique_ptr<RecordReader> open_json_records(const std::string& path, const RecordOptions& options);
std::unique_ptr<RecordReader> open_csv_records(const std::string& path, const RecordOptions& options);
std::unique_ptr<RecordReader> open_parquet_records(const std::string& path, const RecordOptions& options);

// Reads a file of text, compressed or not, from front to back; only a part of it is in memory.
class TextWindow {
 public:
  TextWindow(const std::string& path, int64_t max_record);
  // Returns the byte that is `ahead` bytes after the current position; -1 after the end of the file. Reads more of the
  // file as needed, and keeps everything from the current position on in memory.
  int peek(size_t ahead = 0) {
    if (at_ + ahead >= buffer_.size() && !more(ahead)) return -1;
    return static_cast<unsigned char>(buffer_[at_ + ahead]);
  }
  // Returns the next n bytes; peek() must have reached them.
  std::string_view view(size_t n) const { return std::string_view(buffer_).substr(at_, n); }
  // Returns the bytes from the current position on that are in memory.
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  void skip(size_t n);  // moves the current position n bytes forward, and counts lines
  // Line of the current position, from 1.
  int64_t line() const { return line_; }
  double done() const;
  const std::string& path() const { return path_; }

 private:
  bool more(size_t ahead);
  std::string path_, buffer_;
  std::unique_ptr<ByteSource> source_;
  size_t at_ = 0;
  int64_t max_record_, size_ = 0, line_ = 1;
  bool at_end_ = false;
};

int64_t size_of_file(const std::string& path);

}  // namespace ravine
