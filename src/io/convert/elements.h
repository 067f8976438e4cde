// Lazy tensors, assembled from pieces of other tensors and read range by range. Conversion between layouts thus never
// holds whole weights in memory. Const members are thread-safe.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "files/tensor_file.h"

namespace ravine {

class Elements {
 public:
  Elements(DType dtype, Shape shape) : dtype_(dtype), shape_(shape) {}
  virtual ~Elements() = default;
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  // Reads whole elements, in row-major order from element `begin`, until `into` is full.
  virtual void read(int64_t begin, std::span<std::byte> into) const = 0;
  // File and tensor name, or the rule that makes it.
  virtual std::string where() const = 0;
  virtual void files(std::set<std::string>& paths) const { (void)paths; }  // adds the paths of the files read

 private:
  DType dtype_;
  Shape shape_;
};
using ElementsPtr = std::shared_ptr<const Elements>;

// Returns a tensor stored in a file.
ElementsPtr stored(std::shared_ptr<const TensorFile> file, const TensorInfo& tensor);
// Returns a tensor held in memory.
ElementsPtr in_memory(DType dtype, const Shape& shape, std::vector<std::byte> bytes);
// Returns the same elements in another shape of the same count.
ElementsPtr reshaped(ElementsPtr from, const Shape& shape);

// Returns the same elements in another type, each rounded once.
ElementsPtr as_type(ElementsPtr from, DType dtype);

// `rows` runs of `cols` elements each. Run r is copied from element (from + r from_step) of `source` to element (to + r
// to_step).
struct Copy {
  ElementsPtr source;
  int64_t from = 0, from_step = 0, to = 0, to_step = 0, rows = 1, cols = 0;
};

// Returns a tensor made of copies that fill every element once. Sources of different types are a UserError that names
// two of them.
ElementsPtr assembled(const Shape& shape, std::vector<Copy> copies, const std::string& rule);

// The functions below make common tensors from matrices [rows, cols]; a vector is treated as [rows, 1].
struct Rows {
  ElementsPtr source;
  int64_t first = 0, count = 0, step = 1;  // rows first, first + step, ...
};
ElementsPtr stack_rows(const std::vector<Rows>& rows, const std::string& rule);
// Interleaves n sources of equal size: row j of sources[i] becomes row j n + i.
ElementsPtr interleave_rows(const std::vector<ElementsPtr>& sources, const std::string& rule);
ElementsPtr join_cols(const std::vector<ElementsPtr>& parts, const std::string& rule);
ElementsPtr take_cols(ElementsPtr source, int64_t first, int64_t count, const std::string& rule);
// Transposes [n, m] to [m, n].
ElementsPtr transposed(ElementsPtr source);
ElementsPtr zeros(DType dtype, const Shape& shape);
inline Rows all_rows(const ElementsPtr& e) { return {e, 0, e->shape()[0], 1}; }

}  // namespace ravine
