// Named tensors of one file: the interface for safetensors, torch and MindSpore files.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace ravine {

// The name, type, shape and position of a tensor in a file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0, end = 0;  // range of bytes in the data part; 0 .. size in formats without a data part
};

using Metadata = std::map<std::string, std::string>;

// A file of named tensors. Const members are thread-safe. The file must not shrink while it is open.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::string& path() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const TensorInfo* find(std::string_view name) const = 0;  // null if the name is missing
  // Returns the elements of `tensor` in row-major order, valid as long as the file is open. The address is not always
  // aligned to the element size.
  virtual std::span<const std::byte> bytes(const TensorInfo& tensor) const = 0;
  // Copies into.size() bytes of `tensor`, from byte `offset` of its row-major elements. Offset and size are whole
  // elements.
  virtual void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const = 0;
  virtual const Metadata& metadata() const;  // metadata of the file; empty if the format has none
};

// Returns a name from a file for display: control characters are escaped, and at most 120 bytes are shown.
std::string printable(std::string_view name);
// Returns "file: tensor 'name'" for the `where` of an error.
std::string tensor_at(const std::string& path, std::string_view tensor);

}  // namespace ravine
