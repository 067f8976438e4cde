// NumPy's .npy files. Source: numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "files/atomic.h"

namespace ravine {

// Version 1.0, little-endian, C order; the file appears whole or not at all (`check` as in AtomicFile). NumPy has no bf16: an
// Error, convert it first.
void write_npy(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes,
               const MayReplace& check = {});
// The same for a type that only NumPy has: `code` is "<u4", `width` its bytes.
void write_npy(const std::string& path, std::string_view code, int64_t width, const Shape& shape,
               std::span<const std::byte> bytes, const MayReplace& check = {});
std::string npy_header(std::string_view code, const Shape& shape);  // what precedes the data in such a file, as NumPy makes it

struct NpyArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

// Versions 1 to 3. What is not supported (big-endian, Fortran order, objects, structures, more than five dims), damaged or
// truncated is a UserError naming the file.
NpyArray read_npy(const std::string& path);
NpyArray read_npy_header(const std::string& path);                              // what it says of itself, without its bytes
NpyArray parse_npy(std::span<const std::byte> file, const std::string& where);  // the same on a file in memory

}  // namespace ravine
