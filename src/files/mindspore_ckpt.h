// Checkpoint files of MindSpore (*.ckpt): a protobuf message of named tensors. Source:
// mindspore/ccsrc/utils/checkpoint.proto. A file is untrusted input: each error in it is a UserError that names the
// file and the tensor.
#pragma once
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/atomic.h"
#include "files/fd.h"
#include "files/mapped_file.h"
#include "files/tensor_file.h"

namespace ravine {

// A tensor in a MindSpore checkpoint file. Large tensors are stored in several pieces under one name.
struct CkptTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::pair<int64_t, int64_t>> pieces;  // offset in the file, and size in bytes
};
// Parses the bytes of a whole MindSpore checkpoint file and returns its tensors. `where` names the file in errors.
// Entries of texts (Str) are skipped; other types that DType lacks are a UserError.
std::vector<CkptTensor> parse_ckpt(std::span<const std::byte> file, const std::string& where);

// A MindSpore checkpoint file, opened for reading.
class CkptFile : public TensorFile {
 public:
  explicit CkptFile(std::string path);
  ~CkptFile() override;
  CkptFile(const CkptFile&) = delete;
  CkptFile& operator=(const CkptFile&) = delete;
  const std::string& path() const override { return path_; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(std::string_view name) const override;
  std::span<const std::byte> bytes(const TensorInfo& tensor) const override;
  void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const override;

 private:
  size_t index(const TensorInfo& t) const { return static_cast<size_t>(&t - infos_.data()); }
  std::string path_;
  Fd fd_;
  int64_t file_size_ = 0;
  MappedFile mapped_;
  const std::byte* map_ = nullptr;  // bytes of the mapped file
  std::vector<CkptTensor> tensors_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, size_t> by_name_;
  mutable std::mutex copying_;
  // Tensors of several pieces, copied at the first call of bytes().
  mutable std::unordered_map<size_t, std::vector<std::byte>> copies_;
};

// Writes a MindSpore checkpoint file: begin() names a tensor, append() adds its bytes. The file appears under its name
// at commit(). Source: train/serialization.py (save_checkpoint). An entry has at most 512 MiB of a tensor; further
// entries of the same name have the rest.
class CkptWriter {
 public:
  explicit CkptWriter(const std::string& path);
  void begin(const std::string& name, DType dtype, const Shape& shape);
  void append(std::span<const std::byte> bytes);
  void commit();

 private:
  void entry(int64_t bytes);
  AtomicFile file_;
  std::string name_, where_;
  DType dtype_ = DType::f32;
  Shape shape_;
  int64_t left_ = 0;        // bytes of the tensor to come
  int64_t entry_left_ = 0;  // bytes of the current entry to come
};

}  // namespace ravine
