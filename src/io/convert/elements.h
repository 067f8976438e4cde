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
  // Reads elements in row-major order, from element `begin` on, until `into` is full. `into` holds whole elements of
  // type dtype().
  virtual void read(int64_t begin, std::span<std::byte> into) const = 0;
  // Returns the source of the elements for messages: the file and name of the tensor, or the rule that makes it.
  virtual std::string where() const = 0;
  virtual void files(std::set<std::string>& paths) const { (void)paths; }  // adds the paths of the files read

 private:
  DType dtype_;
  Shape shape_;
};
using ElementsPtr = std::shared_ptr<const Elements>;

// Returns a tensor of a file as lazy elements, which are read when they are used.
ElementsPtr stored(std::shared_ptr<const TensorFile> file, const TensorInfo& tensor);
// Returns a tensor held in memory.
ElementsPtr in_memory(DType dtype, const Shape& shape, std::vector<std::byte> bytes);
// Returns the same elements in another shape of the same count.
ElementsPtr reshaped(ElementsPtr from, const Shape& shape);

// Returns the same elements in another type, each rounded once.
ElementsPtr as_type(ElementsPtr from, DType dtype);

// A part of an assembled tensor: `rows` runs of `cols` elements each. Run r is copied from element from + r * from_step
// of `source` to element to + r * to_step of the result.
struct Copy {
  ElementsPtr source;
  int64_t from = 0, from_step = 0, to = 0, to_step = 0, rows = 1, cols = 0;
};

// Returns a tensor of shape `shape` made of copies that fill every element once. `rule` describes it in messages.
// Sources of different types are a UserError that names two of them.
ElementsPtr assembled(const Shape& shape, std::vector<Copy> copies, const std::string& rule);

// Rows of a matrix [rows, cols]: rows first, first + step, ... `count` in all. A vector is treated as [rows, 1]. The
// input of stack_rows.
struct Rows {
  ElementsPtr source;
  int64_t first = 0, count = 0, step = 1;
};
// Returns the given rows of all sources as one matrix, one source below the other.
ElementsPtr stack_rows(const std::vector<Rows>& rows, const std::string& rule);
// Returns the rows of n sources of equal size interleaved: row j of sources[i] becomes row j * n + i.
ElementsPtr interleave_rows(const std::vector<ElementsPtr>& sources, const std::string& rule);
// Returns the columns of all parts side by side, as one matrix.
ElementsPtr join_cols(const std::vector<ElementsPtr>& parts, const std::string& rule);
// Returns `count` columns of a matrix, from column `first` on.
ElementsPtr take_cols(ElementsPtr source, int64_t first, int64_t count, const std::string& rule);
// Returns the transposed matrix: [n, m] becomes [m, n].
ElementsPtr transposed(ElementsPtr source);
ElementsPtr zeros(DType dtype, const Shape& shape);
inline Rows all_rows(const ElementsPtr& e) { return {e, 0, e->shape()[0], 1}; }

}  // namespace ravine
