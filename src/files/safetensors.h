// The safetensors format: 8 bytes header length N (little-endian), N bytes of JSON, then the data part. The tensors
// cover the data part without gap or overlap. Source: github.com/huggingface/safetensors, README "Format". A file is
// untrusted input: each error in it is a UserError that names the file and the tensor.
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

// The header of a safetensors file; the result of parse_safetensors_header.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by offset in the data part; ties in the order of the header
  Metadata metadata;                // "__metadata__"
  int64_t data_begin = 0;           // offset of the data part in the file
};

constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the limit of the reference implementation

// Parses the header of a safetensors file and checks it against the file's size. `file` has at least the header, or the
// whole file if the file is shorter. UserError also for types that DType lacks (F8, U16, ...) and for more than five
// dimensions.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, int64_t file_size, const std::string& where);

// Returns the header of a safetensors file: all bytes before the data part, padded with blanks to a multiple of
// `alignment`.
std::string safetensors_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata, int64_t alignment);

// A safetensors file, mapped for reading: the bytes of a tensor are read from the disk when they are first touched.
// Const members are thread-safe. The file must not shrink while it is mapped.
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
  const TensorInfo& tensor(std::string_view name) const;         // UserError if it is missing

  // Returns the mapped bytes, valid as long as the reader. The bytes are not always aligned to the element size.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const override;
  // Copies into.size() bytes from byte `offset` of the tensor with pread, so that no page stays mapped.
  void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const override;

 private:
  std::string path_;
  Fd fd_;
  int64_t file_size_ = 0;
  MappedFile mapped_;
  const std::byte* map_ = nullptr;  // bytes of the mapped file
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// The settings of SafetensorsWriter.
struct SafetensorsOptions {
  Metadata metadata;  // Transformers expects {"format": "pt"} in model files
  int64_t data_alignment =
      8;  // the data part starts at a multiple of it: a power of two, 8 .. 65536; 4096 allows reads with O_DIRECT
  bool straight = false;  // write past the page cache, for large files
};

// Writes a safetensors file in one pass: all tensors are declared first, then their data follows in the same order. The
// file appears under its name at commit(). Wrong use (order, size, repeated name) is an Error; a full disk is DiskFull.
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(std::string path, SafetensorsOptions options = {});

  void declare(const std::string& name, DType dtype, const Shape& shape);  // before the first write

  // Writes the next bytes of tensor `name`, in pieces of any size. The tensor must be the first incomplete one in
  // declared order.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Writes the next bytes of the data part; they may cross tensors.
  void append(std::span<const std::byte> bytes);
  // Gives the file its name and blocks until it is on the disk. All declared bytes must be written. `check` is called
  // before an existing file is replaced (AtomicFile).
  void commit(const MayReplace& check = {});

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in declared order
  int64_t data_begin() const { return data_begin_; }                   // known after the first write
  int64_t file_size() const;                                           // known after the first write
  uint64_t checksum(std::string_view name) const;                      // checksum of a complete tensor

 private:
  void write_header();
  void skip_complete();
  AtomicFile file_;
  SafetensorsOptions options_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> sums_;
  std::unordered_map<std::string, size_t> by_name_;
  Checksum running_;
  size_t current_ = 0;   // first incomplete tensor
  int64_t written_ = 0;  // bytes of the data part
  int64_t data_begin_ = -1;
};

// A tensor in memory: the input of save_safetensors.
struct TensorBytes {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

// Writes a whole safetensors file from tensors in memory; `check` as in AtomicFile.
void save_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors, const SafetensorsOptions& options = {},
                      const MayReplace& check = {});

}  // namespace ravine
