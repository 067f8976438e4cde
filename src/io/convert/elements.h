// Tensors that are made of pieces of other tensors and read a range at a time: how weights go from one layout to another
// without ever being whole in memory. Const members may be called by many threads.
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
  // Copies row-major elements from element `begin` on; whole elements.
  virtual void read(int64_t begin, std::span<std::byte> into) const = 0;
  virtual std::string where() const = 0;                                   // file and name, or the rule by which it is made
  virtual void files(std::set<std::string>& paths) const { (void)paths; }  // adds those it reads

 private:
  DType dtype_;
  Shape shape_;
};
using ElementsPtr = std::shared_ptr<const Elements>;

// A tensor of a file.
ElementsPtr stored(std::shared_ptr<const TensorFile> file, const TensorInfo& tensor);
// Bytes in memory.
ElementsPtr in_memory(DType dtype, const Shape& shape, std::vector<std::byte> bytes);
// The same elements in another shape of the same count.
ElementsPtr reshaped(ElementsPtr from, const Shape& shape);

// The same elements in another type, each rounded once.
ElementsPtr as_type(ElementsPtr from, DType dtype);

// `rows` runs of `cols` elements: run r is copied from element from + r * from_step of `source` to element to + r * to_step.
struct Copy {
  ElementsPtr source;
  int64_t from = 0, from_step = 0, to = 0, to_step = 0, rows = 1, cols = 0;
};

// Made of copies that fill every element once; all sources are of one type, or it is a UserError naming two of them.
ElementsPtr assembled(const Shape& shape, std::vector<Copy> copies, const std::string& rule);

// The usual ones. Matrices [rows, cols]; a vector counts as [rows, 1].
struct Rows {
  ElementsPtr source;
  int64_t first = 0, count = 0, step = 1;  // rows first, first + step, ...
};
ElementsPtr stack_rows(const std::vector<Rows>& rows, const std::string& rule);
// rows[i] goes to rows i, i + n, i + 2n, ... of n interleaved sources of equal size.
ElementsPtr interleave_rows(const std::vector<ElementsPtr>& sources, const std::string& rule);
ElementsPtr join_cols(const std::vector<ElementsPtr>& parts, const std::string& rule);
ElementsPtr take_cols(ElementsPtr source, int64_t first, int64_t count, const std::string& rule);
// [n, m] -> [m, n].
ElementsPtr transposed(ElementsPtr source);
ElementsPtr zeros(DType dtype, const Shape& shape);
inline Rows all_rows(const ElementsPtr& e) { return {e, 0, e->shape()[0], 1}; }

}  // namespace ravine
