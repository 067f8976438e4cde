// Named tensors of one file, whatever its format: what safetensors, torch and MindSpore files have in common.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace ravine {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes in the data part; formats without one count from 0
};

using Metadata = std::map<std::string, std::string>;

// Const members may be called by many threads. The file must not shrink while it is open.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::string& path() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const TensorInfo* find(std::string_view name) const = 0;  // null if there is none
  // The elements in row-major order as long as the file lives; not necessarily aligned.
  virtual std::span<const std::byte> bytes(const TensorInfo& tensor) const = 0;
  // Copies into.size() bytes from byte `offset` of the row-major elements on; whole elements only.
  virtual void read(const TensorInfo& tensor, int64_t offset, std::span<std::byte> into) const = 0;
  virtual const Metadata& metadata() const;  // what the file says about itself; empty where the format has no place for it
};

// A name from a file as it may be shown: control characters and all beyond 120 bytes replaced.
std::string printable(std::string_view name);
// "file: tensor 'name'", the place that an error names.
std::string tensor_at(const std::string& path, std::string_view tensor);

}  // namespace ravine
