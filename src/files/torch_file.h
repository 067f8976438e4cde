// Files of torch.save: a zip archive of one pickle and one raw member per storage (torch 1.6 and later), or the stream of
// pickles of earlier versions. Only tensors and plain values are read; nothing is executed. Source: torch/serialization.py,
// torch/_utils.py. A file is untrusted input: whatever is wrong with it is a UserError naming the file and the tensor.
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

// Elements of a storage: offset and strides count elements. Checked to lie inside the storage, whose bytes lie inside the file.
struct TorchTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t storage_begin = 0;  // bytes in the file
  bool negated = false;       // the values are those of the storage with the other sign
  bool contiguous() const;    // its bytes lie side by side in the file, as they are
  int64_t bytes() const { return shape.count() * size_of(dtype); }
};

class TorchFile {
 public:
  // A file that several of these may lie in, behind each other, as in those of torch.distributed.checkpoint.
  struct Opened {
    explicit Opened(std::string path);
    std::string path;
    Fd fd;
    int64_t size = 0;
    MappedFile mapped;
  };
  explicit TorchFile(std::string path);
  // The `size` bytes from `begin` on, which must lie in the file.
  TorchFile(std::shared_ptr<const Opened> file, int64_t begin, int64_t size);
  ~TorchFile();
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const std::string& path() const { return file_->path; }
  int64_t file_size() const { return size_; }
  const Pickle& pickle() const { return *pickle_; }

  bool is_tensor(Pickle::Ref v) const;  // says that it is one; a Parameter too
  // Anything else than a dense tensor of a known type is refused, by the name of what it is; `name` is for the message.
  TorchTensor tensor(Pickle::Ref v, const std::string& name) const;
  // Copies row-major elements from element `begin` on.
  void read(const TorchTensor& t, int64_t begin, std::span<std::byte> into) const;
  std::span<const std::byte> in_place(const TorchTensor& t) const;  // of a contiguous one

 private:
  struct Storage {
    int64_t begin = 0, size = 0;  // bytes in the file
  };
  void open_zip();
  void open_stream();
  struct Call {
    std::string name;  // of the function
    Pickle::Ref arguments;
  };
  std::optional<Call> tensor_call(Pickle::Ref v) const;

  explicit TorchFile(const std::shared_ptr<const Opened>& file);
  std::span<const std::byte> all() const;
  std::shared_ptr<const Opened> file_;
  int64_t begin_ = 0, size_ = 0;    // bytes of this one
  const std::byte* map_ = nullptr;  // bytes of the file
  std::unique_ptr<Pickle> pickle_;
  std::unordered_map<std::string, Storage> storages_;
};

// A dict of tensors in a torch file, nested dicts joined with '.', as a file of named tensors. None, bytes and "_extra_state"
// are passed over; any other value that is no tensor is refused by name. A pickle can say one dict, name or storage many times
// in few bytes; so what its tensors come to is bounded by the file: 16 bytes of names per byte of the pickle, one tensor per 8
// bytes of it, 64 bytes of elements per byte of the file (kSlack on top). Beyond that the file is refused.
class TorchStateFile : public TensorFile {
 public:
  // The state dict is the root, or its entry "state_dict", "module" or "model" if that is a dict.
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
  void count(int64_t bytes, const std::string& name);  // of a further tensor; refuses what a file of this size cannot mean
  const TorchTensor& of(const TensorInfo& tensor) const;
  std::shared_ptr<const TorchFile> file_;
  std::vector<TensorInfo> infos_;
  std::vector<TorchTensor> tensors_;
  int64_t name_bytes_ = 0, tensor_bytes_ = 0;
  std::unordered_map<std::string, size_t> by_name_;
  mutable std::mutex copying_;
  mutable std::unordered_map<size_t, std::vector<std::byte>> copies_;  // of tensors that are not contiguous, once asked for
};

}  // namespace ravine
