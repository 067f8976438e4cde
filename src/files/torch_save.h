// Writes what torch.save writes: plain values and tensors in the zip format that torch 1.6 and later read, also with
// weights_only (whose list of safe classes does not hold argparse's).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "files/zip.h"

namespace ravine {

// First the tree of values, from outside to inside; then the bytes of every tensor, in the order in which they were named.
class TorchSave {
 public:
  explicit TorchSave(
      const std::string& path,
      bool straight = false);  // straight: as AtomicFile; members lie in a folder of the name of the file without its end

  // Values. Containers hold what comes until end(): a dict keys and values in turn.
  void begin_dict();
  void begin_ordered_dict();
  void begin_namespace();                                             // argparse.Namespace with these fields
  void begin_object(std::string_view module, std::string_view type);  // of a class of the reader's, with these fields
  void begin_list();
  void begin_tuple();
  void end();
  void text(std::string_view s);
  void integer(int64_t v);
  void real(double v);
  void boolean(bool v);
  void none();
  void type(DType t);             // torch.float16
  void size(const Shape& shape);  // torch.Size
  // Contiguous, with a storage of its own, whose number it returns; or with the whole storage of one before.
  size_t tensor(DType dtype, const Shape& shape);
  void same_tensor(size_t storage, DType dtype, const Shape& shape) { tensor_in(storage, dtype, shape); }

  // The next bytes of the tensors' data, in pieces of any size that do not cross tensors.
  void write(std::span<const std::byte> bytes);
  void commit();  // the file appears

 private:
  void op(unsigned char c) { pickle_ += static_cast<char>(c); }
  void global(std::string_view module, std::string_view name);
  void tensor_in(size_t storage, DType dtype, const Shape& shape);
  void start_data();
  void next_member();
  ZipWriter zip_;
  std::string top_, pickle_;
  std::vector<std::string> ends_;  // what closes each open container
  std::vector<int64_t> sizes_;     // bytes of each tensor
  size_t current_ = 0;
  int64_t left_ = 0;
  bool data_ = false;
};

}  // namespace ravine
