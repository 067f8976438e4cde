// Files of torch.save: a zip archive of one pickle and one raw member per storage (torch 1.6 and later), or the stream
// of pickles of earlier versions. Only tensors and plain values are read; nothing is executed. Source:
// torch/serialization.py, torch/_utils.py. A file is untrusted input: each error in it is a UserError that names the
// file and the tensor.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "files/fd.h"
#include "files/mapped_file.h"
#include "files/pickle.h"
#include "files/tensor_file.h"

namespace ravine {

// A tensor in a file of torch.save, as TorchFile::tensor returns it: a view of a storage. Offset and strides are in
// elements. The tensor is inside the storage and the storage inside the file.
struct TorchTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t storage_begin = 0;  // offset in the file, in bytes
  bool negated = false;       // true if each value is the stored one with the opposite sign
  bool contiguous() const;    // true if its bytes are in the file in row-major order, unchanged
  int64_t bytes() const { return shape.count() * size_of(dtype); }
};

// An open file of torch.save: its pickle and its tensors.
class TorchFile {
 public:
  // An open file that several TorchFiles share, each with a range of its bytes, as in torch.distributed.checkpoint.
  struct Opened {
    explicit Opened(std::string path);
    std::string path;
    Fd fd;
    int64_t size = 0;
    MappedFile mapped;
  };
  explicit TorchFile(std::string path);
  // Opens a part of an open file as a file of torch.save: the `size` bytes from `begin`, which must be inside `file`.
  TorchFile(std::shared_ptr<const Opened> file, int64_t begin, int64_t size);
  ~TorchFile();
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const std::string& path() const { return file_->path; }
  int64_t file_size() const { return size_; }
  const Pickle& pickle() const { return *pickle_; }

  bool is_tensor(Pickle::Ref v) const;  // true for a tensor or a Parameter
  // Returns the tensor that value `v` of the pickle describes. Anything else than a dense tensor of a known type is a
  // UserError; `name` is for its message.
  TorchTensor tensor(Pickle::Ref v, const std::string& name) const;
  // Copies elements of `t`, in row-major order from element `begin`, until `into` is full.
  void read(const TorchTensor& t, int64_t begin, std::span<std::byte> into) const;
  std::span<const std::byte> in_place(const TorchTensor& t) const;  // bytes of a contiguous tensor

 private:
  struct Storage {
    int64_t begin = 0, size = 0;  // offset and size in the file, in bytes
  };
  void open_zip();
  void open_stream();
  struct Call {
    std::string name;  // name of the function
    Pickle::Ref arguments;
  };
  std::optional<Call> tensor_call(Pickle::Ref v) const;

  explicit TorchFile(const std::shared_ptr<const Opened>& file);
  std::span<const std::byte> all() const;
  std::shared_ptr<const Opened> file_;
  int64_t begin_ = 0, size_ = 0;    // range of this pickle archive in the file, in bytes
  const std::byte* map_ = nullptr;  // bytes of the mapped file
  std::unique_ptr<Pickle> pickle_;
  std::unordered_map<std::string, Storage> storages_;
};

// A dict of tensors in a torch file; names of nested dicts are joined with '.'. None, bytes and "_extra_state" are
// skipped. Any other value that is no tensor is a UserError. A small pickle can repeat a dict, name or storage many
// times. Three limits (plus kSlack), beyond which the file is a UserError, are therefore set: 16 bytes of names per
// byte of the pickle; one tensor per 8 bytes of the pickle; 64 bytes of elements per byte of the file.
class TorchStateFile : public TensorFile {
 public:
  // Opens the state dict: the root, or its entry "state_dict", "module" or "model" if this is a dict.
  explicit TorchStateFile(const std::string& path);
  TorchStateFile(std::shared_ptr<const TorchFile> file, Pickle::Ref dict, const std::string& prefix);

  const std::string& path() const override { return file_->path(); }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const TensorInfo* find(std::string_view name) const override;
  std::span<const std::byte> bytes(const TensorInfo& tensor) const override;
  void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const override;
  const TorchFile& file() const { return *file_; }

 private:
  void collect(Pickle::Ref dict, const std::string& prefix);
  void count(int64_t bytes, const std::string& name);  // counts a tensor; refuses the file above the limits
  const TorchTensor& of(const TensorInfo& tensor) const;
  std::shared_ptr<const TorchFile> file_;
  std::vector<TensorInfo> infos_;
  std::vector<TorchTensor> tensors_;
  int64_t name_bytes_ = 0, tensor_bytes_ = 0;
  std::unordered_map<std::string, size_t> by_name_;
  mutable std::mutex copying_;
  // Tensors that are not contiguous, copied at the first call of bytes().
  mutable std::unordered_map<size_t, std::vector<std::byte>> copies_;
};

}  // namespace ravine
