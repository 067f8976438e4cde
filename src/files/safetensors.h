// The safetensors format: 8 bytes little-endian length N, N bytes of JSON header, then the data part, which the tensors cover
// without gap or overlap. Source: github.com/huggingface/safetensors, README "Format".
// A file is untrusted input: whatever is wrong with it is a UserError naming the file and the tensor.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "files/atomic.h"
#include "files/checksum.h"
#include "files/mapped_file.h"
#include "files/tensor_file.h"

namespace ravine {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by place in the data part, ties as in the header
  Metadata metadata;                // "__metadata__"
  int64_t data_begin = 0;           // of the data part in the file
};

constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; as the reference implementation has it

// Checks everything that the header and `file_size` can tell. `file` holds at least the header, or the whole file where that is
// shorter. Refused: types other than those of DType (F8, U16, ...), by name; more than five dims.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, int64_t file_size, const std::string& where);

// What precedes the data part, filled up with blanks so that it begins at a multiple of `alignment`.
std::string safetensors_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata, int64_t alignment);

// Maps the file; a tensor's bytes are read from disk when they are first touched. Const members may be called by many threads.
// The file must not shrink while it is mapped.
class SafetensorsReader : public TensorFile {
 public:
  explicit SafetensorsReader(std::string path);
  ~SafetensorsReader() override;
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& path() const override { return path_; }
  int64_t file_size() const { return file_size_; }
  int64_t data_begin() const { return header_.data_begin; }
  const std::vector<TensorInfo>& tensors() const override { return header_.tensors; }
  const Metadata& metadata() const override { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const override;  // null if there is none
  const TensorInfo& tensor(std::string_view name) const;         // a missing one is a UserError

  // The bytes in place, as long as the reader lives. Not necessarily aligned to the element size.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const override;
  // Copies into.size() bytes from byte `offset` of the tensor on, by pread: nothing stays mapped in memory.
  void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const override;

 private:
  std::string path_;
  Fd fd_;
  int64_t file_size_ = 0;
  MappedFile mapped_;
  const std::byte* map_ = nullptr;  // its bytes
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

struct SafetensorsOptions {
  Metadata metadata;  // Transformers expects {"format": "pt"} in model files
  int64_t data_alignment =
      8;                  // the data part starts at a multiple of this; 4096 lets O_DIRECT read it. A power of two, 8 .. 65536
  bool straight = false;  // past the page cache, for large files
};

// Writes a file in one pass: declare every tensor, then stream the data in that order. The file appears under its name at
// commit() and not before. Wrong use (order, sizes, names twice) is an Error; a full disk is DiskFull.
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(std::string path, SafetensorsOptions options = {});

  void declare(const std::string& name, DType dtype, const Shape& shape);  // before the first write

  // The next bytes of tensor `name`, in a piece of any size: the first tensor in declared order that is not yet complete.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // The next bytes of the data part, whatever tensors they belong to.
  void append(std::span<const std::byte> bytes);
  void commit(const MayReplace& check =
                  {});  // all declared bytes must be there; blocks until the file is on disk; `check` as in AtomicFile

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in declared order
  int64_t data_begin() const { return data_begin_; }                   // known after the first write
  int64_t file_size() const;                                           // likewise
  uint64_t checksum(std::string_view name) const;                      // of a complete tensor's bytes

 private:
  void write_header();
  void skip_complete();
  AtomicFile file_;
  SafetensorsOptions options_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> sums_;
  std::unordered_map<std::string, size_t> by_name_;
  Checksum running_;
  size_t current_ = 0;   // first tensor not yet complete
  int64_t written_ = 0;  // bytes of the data part
  int64_t data_begin_ = -1;
};

struct TensorBytes {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

void save_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors, const SafetensorsOptions& options = {},
                      const MayReplace& check = {});

}  // namespace ravine
