// Writes files of torch.save: plain values and tensors in the zip format of torch 1.6 and later. weights_only can read
// them, unless they have a namespace of argparse.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "files/zip.h"

namespace ravine {

// Writes one file of torch.save. The caller first adds the tree of values, from outside to inside, then the bytes of
// every tensor in the same order, then calls commit().
class TorchSave {
 public:
  // Creates the file. straight: as in AtomicFile. The members of its zip archive are in a folder that has the file's
  // name without its extension.
  explicit TorchSave(const std::string& path, bool straight = false);

  // Adds the tree of values. After begin_..() a container takes all values up to its end(); a dict takes keys and
  // values alternately.
  void begin_dict();
  void begin_ordered_dict();
  void begin_namespace();  // begins an argparse.Namespace; its keys and values follow
  // Begins an object of the Python class module.type, which the reading program must have. Its fields follow as keys
  // and values.
  void begin_object(std::string_view module, std::string_view type);
  void begin_list();
  void begin_tuple();
  void end();
  void text(std::string_view s);
  void integer(int64_t v);
  void real(double v);
  void boolean(bool v);
  void none();
  void type(DType t);             // adds a torch.dtype, e.g. torch.float16
  void size(const Shape& shape);  // adds a torch.Size
  // tensor() adds a contiguous tensor with a new storage and returns the storage's number; same_tensor() shares a
  // storage.
  size_t tensor(DType dtype, const Shape& shape);
  void same_tensor(size_t storage, DType dtype, const Shape& shape) { tensor_in(storage, dtype, shape); }

  // Writes the next bytes of the tensors' data, in pieces of any size that do not cross tensors.
  void write(std::span<const std::byte> bytes);
  void commit();  // gives the file its name

 private:
  void op(unsigned char c) { pickle_ += static_cast<char>(c); }
  void global(std::string_view module, std::string_view name);
  void tensor_in(size_t storage, DType dtype, const Shape& shape);
  void start_data();
  void next_member();
  ZipWriter zip_;
  std::string top_, pickle_;
  std::vector<std::string> ends_;  // opcodes that close each open container
  std::vector<int64_t> sizes_;     // bytes of each tensor
  size_t current_ = 0;
  int64_t left_ = 0;
  bool data_ = false;
};

}  // namespace ravine
